"""Makes our browser components known to Streamlit, with their JavaScript served as files.

Streamlit takes file-backed components from the manifest of an installed package only. The lab is not
installed, so it hands over the same manifest itself. A file is fetched once by the browser; inline
JavaScript would travel with every rerun. plotly.js comes straight out of the plotly wheel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import plotly
import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

HERE = Path(__file__).parent
PACKAGE = "reshape"
PLOTLY = f"{PACKAGE}.plotly"

_ROOTS = {
    "aid": (HERE, "aid"),
    "asked": (HERE, "asked"),
    "chart_view": (HERE, "chart_view"),
    "copy_link": (HERE, "copy_link"),
    "pulse": (HERE, "pulse"),
    "tour_keys": (HERE, "tour_keys"),
    "plotly": (Path(plotly.__file__).parent, "package_data"),
}


# Streamlit puts a script tag into the page for a file-backed component at every rerun and waits for its load
# event, behind which other work slips in before the picture. This much inline code asks for the module once.
_ENTRY = """
const url = new URL("{path}", location.origin).href;
const modules = (globalThis.reshapeModules ??= {{}});
export default async function (component) {{
  const module = (modules[url] ??= await import(url));
  return module.default(component);
}}
"""


def component(name: str, **definition: Any) -> Callable[..., Any]:
    """The mounting function of the component in folder `pages/ui/NAME`: `main.js` and `style.css`."""
    mount: Callable[..., Any] | None = None

    def mounted(**arguments: Any) -> Any:
        nonlocal mount
        _declare()
        if mount is None:
            base = str(st.get_option("server.baseUrlPath")).strip("/")
            path = f"/{base}/_stcore/bidi-components/{PACKAGE}.{name}/main.js".replace("//", "/")
            mount = st.components.v2.component(
                f"{PACKAGE}.{name}",
                js=_ENTRY.format(path=path),
                css="style.css",
                isolate_styles=False,
                **definition,
            )
        return mount(**arguments)

    return mounted


def _declare() -> None:
    manager = get_bidi_component_manager()
    for name, (root, folder) in _ROOTS.items():
        if manager.get(f"{PACKAGE}.{name}") is None:
            config = ComponentConfig(name=name, asset_dir=folder)
            manager.register_from_manifest(
                ComponentManifest(PACKAGE, plotly.__version__, [config]), root
            )
