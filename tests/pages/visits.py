"""A visit to one page by a link, and what stands on it."""

import re

from streamlit.testing.v1 import AppTest

from pages.ui import controls


def script(name):
    """What AppTest runs; it sees the source of this function alone."""
    __import__(f"pages.{name}", fromlist=["render"]).render()


def fresh(name):
    """The page before its first run."""
    return AppTest.from_function(script, args=(name,), default_timeout=240)


def visit(name, values, pin=None):
    """The page with these controls in its link, and what is pinned."""
    at = fresh(name)
    if pin is not None:
        at.query_params["pin"] = pin
    for key, value in values.items():
        row = next(r for r in controls.rows(name) if r.key == key)
        at.query_params[row.name] = row.text(value)
    at.run()
    assert not at.exception, at.exception
    return at


TERM = re.compile(r'\[([^\]]*)\]\(glossary\?term=[^)"]* "[^"]*"\)')
"""A word and its link into the glossary."""


def unlinked(markdown):
    """The words without their links into the glossary."""
    return TERM.sub(r"\1", markdown)


def said(at):
    """The sentence of what to look for; there is one."""
    (look,) = [m.value for m in at.markdown if "lab-look" in m.value]
    return look


def widget(at, name):
    """The control of this key, whatever its kind."""
    kinds = (at.number_input, at.selectbox, at.toggle, at.button_group, at.text_area)
    return next(w for kind in kinds for w in kind if w.key == name)
