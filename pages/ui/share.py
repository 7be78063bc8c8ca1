"""Links and files that leave the lab: permalink, CSV, settings, snippet, self-contained HTML.

PNG and SVG are made in the browser by the chart component. Files are made when somebody asks for one, so
they cost a rerun nothing.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import streamlit as st
from plotly.offline import get_plotlyjs

from pages.ui import charts, words
from pages.ui.component import component
from pages.ui.controls import ELSEWHERE, LINK_VERSION, rows, write_link

LAB = "Reshape Lab"
_FORMULA = tuple("=+-@＝＋－＠")
VERSION = "0.1.0"

_copy = component(
    "copy_link",
    html='<span class="lab-copy"><input readonly hidden aria-label="Link to these settings">'
    '<button type="button">Copy link</button><span role="status"></span></span>',
)


def copy_button(page: str) -> None:
    """The Copy-link button. It copies what `state_link` last said and keeps the address bar at it."""
    _copy(data={}, key=f"{page}~copy", width="content")


def state_link(page: str, settings: Mapping[str, Any]) -> None:
    """Say the page's link, which the button reads: a component that is sent anew at every moved control takes
    a browser ten times as long.

    The link states every control, so no later default changes it.
    """
    file = any(r.text(settings[r.key]) == ELSEWHERE for r in rows(page) if r.key in settings)
    note = "The uploaded file is not in it: send the exported settings too." if file else ""
    link = html.escape(write_link(page, settings))
    st.html(f'<span class="lab-link" hidden data-link="{link}" data-note="{note}"></span>')


def address(page: str, settings: Mapping[str, Any]) -> str:
    """The full link, as far as the server knows its own address."""
    base = (getattr(st.context, "url", None) or f"/{page}").split("?")[0]
    return f"{base}?{write_link(page, settings)}"


def settings_json(page: str, settings: Mapping[str, Any], link: str = "") -> str:
    """The settings with what is needed to find back to them."""
    body = {
        "lab": LAB, "lab_version": VERSION, "link_version": LINK_VERSION, "page": page, "link": link,
        "settings": dict(settings),
    }  # fmt: skip
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def table_csv(figures: Mapping[str, charts.Figure]) -> str:
    """Every plotted number, one a row: picture, series and its coordinates.

    A text that a spreadsheet would take for a formula is quoted with an apostrophe; numbers stay numbers.
    """
    blocks = [(name, block) for name, fig in figures.items() for block in charts.plotted(fig)]
    names = [c for c in ("x", "y", "z", "low", "high") if any(c in block for _, block in blocks)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["picture", "series", *names])
    for name, block in blocks:
        for row in _rows(block, names):
            writer.writerow([safe_cell(name), safe_cell(block["series"]), *map(safe_cell, row)])
    return out.getvalue()


def _rows(block: Mapping[str, Any], names: list[str]) -> Iterable[list[Any]]:
    columns = {n: np.asarray(block[n]) for n in names if n in block}
    z = columns.get("z")
    if z is not None and z.ndim == 2:
        x, y = columns.get("x", np.arange(z.shape[1])), columns.get("y", np.arange(z.shape[0]))
        if x.ndim == 1:
            x, y = np.meshgrid(x, y)
        columns = {"x": x.ravel(), "y": y.ravel(), "z": z.ravel()}
    size = max((c.size for c in columns.values()), default=0)
    for i in range(size):
        yield [columns[n][i].item() if n in columns and i < columns[n].size else "" for n in names]


def safe_cell(value: Any) -> Any:
    """The cell as a spreadsheet may see it: text that starts like a formula gets a leading apostrophe.

    So does text that starts with a tab or a line break, which some drop before they look, and text in the wide signs of
    East Asian keyboards. Of text with a line break a later line is no cell of its own, since the file is quoted.
    """
    if isinstance(value, str) and (
        value[:1] in ("\t", "\r", "\n") or value.lstrip()[:1] in _FORMULA
    ):
        return "'" + value
    return value


def page_html(
    title: str,
    figures: Mapping[str, charts.Figure],
    settings: Mapping[str, Any],
    said: Iterable[str],
    link: str,
) -> str:
    """One file with the pictures still interactive and plotly.js inside; opens without a network."""
    pictures = "\n".join(
        f"<figure>{_picture(fig)}<figcaption>{html.escape(name)}</figcaption></figure>"
        for name, fig in figures.items()
    )
    cells = "".join(
        f"<tr><th>{html.escape(k)}</th><td>{html.escape(str(v))}</td></tr>"
        for k, v in settings.items()
    )
    bold = [re.sub(r"(?<!\\)\*\*(.+?)(?<!\\)\*\*", r"<b>\1</b>", html.escape(s)) for s in said]
    text = "".join(f"<p>{words.unmarked(s)}</p>" for s in bold)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)} - {LAB}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 16px/1.55 "Source Sans Pro", "Helvetica Neue", Arial, sans-serif; color: #1d2730; background: #fff;
  max-width: 1000px; margin: 2.5rem auto; padding: 0 1rem; }}
h1 {{ font-family: Georgia, serif; }} figure {{ margin: 2rem 0; }}
figcaption {{ color: #5c6770; font-size: 0.9rem; }} th {{ text-align: left; padding-right: 2rem; font-weight: 600; }}
</style><script>{get_plotlyjs()}</script></head>
<body><h1>{html.escape(title)}</h1>{text}{pictures}
<h2>Settings</h2><table>{cells}</table>
<p>{LAB} {VERSION}. Same settings in the lab: <a href="{html.escape(link)}">{html.escape(link)}</a></p>
</body></html>"""


def headed(snippet: str, page: str, link: str) -> str:
    """The snippet with where it comes from and how to run it."""
    return (
        f"# {LAB} {VERSION}: the numbers of {link}\n"
        f"# Run it in a checkout of the lab: PYTHONPATH=. .venv/bin/python {page}.py\n\n{snippet}"
    )


def _picture(fig: charts.Figure) -> str:
    return charts.resolved(fig).to_html(
        full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
    )


def exports(
    page: str,
    title: str,
    settings: Mapping[str, Any],
    figures: Mapping[str, charts.Figure],
    snippet: str,
    said: Iterable[str] = (),
) -> None:
    """The Export menu. Nothing in it is made before the menu is open and a file is asked for."""
    with st.popover("Export", key=f"{page}~export", on_change="rerun") as menu:
        if not menu.open:
            return
        link = address(page, settings)
        said = list(said)
        files: list[tuple[str, str, str, Any]] = [
            ("Python snippet", f"{page}.py", "text/x-python", lambda: headed(snippet, page, link)),
            ("Numbers as CSV", f"{page}.csv", "text/csv", lambda: table_csv(figures)),
            ("Settings as JSON", f"{page}.json", "application/json",
             lambda: settings_json(page, settings, link)),
            ("Page as HTML", f"{page}.html", "text/html",
             lambda: page_html(title, figures, settings, said, link)),
        ]  # fmt: skip
        for label, name, mime, make in files:
            st.download_button(
                label, make, name, mime, key=f"{page}~{name}", on_click="ignore", width="stretch"
            )
        st.caption("PNG and SVG: buttons above each picture.")
