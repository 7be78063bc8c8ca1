"""All that knows Streamlit: one page a file, and `pages.ui`, which they share."""

from streamlit.runtime.pages_manager import PagesManager as _PagesManager
from streamlit.runtime.scriptrunner import RerunData as _RerunData
from streamlit.runtime.scriptrunner import RerunException as _Rerun
from streamlit.runtime.scriptrunner import get_script_run_ctx as _context

# Until somebody has run `st.navigation`, Streamlit takes a folder called `pages` for a list of scripts. The
# first visitor of a fresh server, if the link is to a page, would get that page's file run as a script: a
# blank page. So the first import says what this folder is and starts that run again, in `app.py`.
if (_run := _context(suppress_warning=True)) and _PagesManager.uses_pages_directory:
    _PagesManager.uses_pages_directory = False
    raise _Rerun(
        _RerunData(query_string=_run.query_string, page_name=_run.pages_manager.intended_page_name)
    )
