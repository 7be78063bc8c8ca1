"""Links and files that leave the lab: permalink, CSV, settings, snippet, report.

PNG and SVG are made in the browser by the chart component. Files are made when somebody asks for one, so
they cost a rerun nothing.
"""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import streamlit as st

from pages.ui import charts, provenance
from pages.ui.component import component
from pages.ui.controls import ELSEWHERE, rows, write_link
from pages.ui.shown import Shown

_FORMULA = tuple("=+-@＝＋－＠")

_copy = component(
    "copy_link",
    html='<span class="lab-copy"><input readonly hidden aria-label="Link to these settings">'
    '<button type="button">Copy link</button><span role="status"></span></span>',
)


def copy_button(page: str) -> None:
    """The Copy-link button. It copies what `state_link` last said and keeps the address bar at it."""
    _copy(data={}, key=f"{page}~copy", width="content")


def copy_link(page: str, query: str) -> None:
    """A Copy-link button for this query of the page, beside which the address bar stays as it is."""
    with st.container(key="lab-other-link", width="content", gap=None):
        st.html(
            f'<span class="lab-link" hidden data-link="{html.escape(query)}" data-note=""></span>'
        )
        _copy(data={}, key=f"{page}~copy-other", width="content")


def state_link(
    page: str,
    settings: Mapping[str, Any],
    pinned: Mapping[str, Any] | None = None,
    more: Mapping[str, str] | None = None,
) -> None:
    """Say the page's link, which the button reads: a component that is sent anew at every moved control takes
    a browser ten times as long.

    The link states every control, so no later default changes it, and what is pinned. `more`: what else it
    carries.
    """
    file = any(r.text(settings[r.key]) == ELSEWHERE for r in rows(page) if r.key in settings)
    note = "The uploaded file is not in it: send the exported settings too." if file else ""
    link = html.escape(write_link(page, settings, pinned, more))
    st.html(f'<span class="lab-link" hidden data-link="{link}" data-note="{note}"></span>')


def address(page: str, settings: Mapping[str, Any], pinned: Mapping[str, Any] | None = None) -> str:
    """The full link, as far as the server knows its own address."""
    base = (getattr(st.context, "url", None) or f"/{page}").split("?")[0]
    return f"{base}?{write_link(page, settings, pinned)}"


def settings_json(shown: Shown, block: Mapping[str, Any]) -> str:
    """The settings, with what is needed to find back to them and to cite them."""
    body = {**block, "settings": dict(shown.values)}
    return json.dumps(body, indent=2, ensure_ascii=False, default=_bytes) + "\n"


def _bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"settings cannot hold a {type(value).__name__}")


def table_csv(figures: Mapping[str, charts.Figure], source: str = "") -> str:
    """Every plotted number, one a row: picture, series and its coordinates.

    Where the numbers come from (`source`) stands in a last column of that name, in the first row only: a
    comment above the head would break most readers, a file beside this one gets lost, and the same sentence in
    every row would be most of the file.
    A text that a spreadsheet would take for a formula is quoted with an apostrophe; numbers stay numbers.
    """
    blocks = [(name, block) for name, fig in figures.items() for block in charts.plotted(fig)]
    names = [c for c in ("x", "y", "z", "low", "high") if any(c in block for _, block in blocks)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    last = ["source"] if source else []
    writer.writerow(["picture", "series", *names, *last])
    for name, block in blocks:
        for row in _rows(block, names):
            cells = [safe_cell(name), safe_cell(block["series"]), *map(safe_cell, row)]
            writer.writerow([*cells, *([safe_cell(source)] if last else [])])
            source = ""
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


def headed(snippet: str, block: Mapping[str, Any]) -> str:
    """The snippet with where it comes from, how to cite it and how to run it."""
    return (
        f"{provenance.comment(block)}"
        f"# Run it in a checkout of the lab: PYTHONPATH=. .venv/bin/python {block['page']}.py\n\n{snippet}"
    )


def exports(b: Shown, a: Shown | None = None) -> None:
    """The Export menu of what is shown, and of what is pinned beside it. Nothing in it is made before the menu is
    open and a file is asked for."""
    page = b.page
    with st.popover("Export", key=f"{page}~export", on_change="rerun") as menu:
        if not menu.open:
            return
        link = address(page, b.values, a and a.values)
        files: list[tuple[str, str, str, Callable[[], str]]] = [
            ("Report as HTML", f"{page}.html", "text/html", lambda: _report(b, link, a)),
            ("Python snippet", f"{page}.py", "text/x-python",
             lambda: headed(b.snippet, provenance.provenance(b, link))),
            ("Numbers as CSV", f"{page}.csv", "text/csv", lambda: _numbers(b, link, a)),
            ("Settings as JSON", f"{page}.json", "application/json",
             lambda: settings_json(b, provenance.provenance(b, link))),
        ]  # fmt: skip
        for label, name, mime, make in files:
            st.download_button(
                label, make, name, mime, key=f"{page}~{name}", on_click="ignore", width="stretch"
            )
        st.caption("PNG and SVG: buttons above each picture.")


def _report(b: Shown, link: str, a: Shown | None) -> str:
    from pages.ui import report

    return report.document(b, link, a)


def _numbers(b: Shown, link: str, a: Shown | None) -> str:
    """B's numbers; with something pinned also A's, and B − A where the page draws it."""
    figures = dict(b.figures)
    if a is not None:
        from pages.ui import compare

        figures |= {f"A: {key}": figure for key, figure in a.figures.items()}
        for key, figure in b.figures.items():
            if (change := compare.compared(key, figure, a).difference) is not None:
                figures[f"B − A: {key}"] = change
    return table_csv(figures, provenance.one_line(provenance.provenance(b, link)))
