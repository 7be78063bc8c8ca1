"""What a page shows at one time, as data: for the picture that is pinned, for reports and other files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pages.ui.charts import Figure


@dataclass(frozen=True)
class Facts:
    """A small table of numbers, with a note under it. Cells and note are HTML."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, ...]]
    caption: str = ""
    note: str = ""

    def html(self) -> str:
        head = "<td></td>" + "".join(f'<th scope="col">{c}</th>' for c in self.columns)
        body = "".join(
            f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"
            for name, *cells in self.rows
        )
        note = f'<p class="lab-note">{self.note}</p>' if self.note else ""
        return (
            f'<div class="lab-scroll"><table class="lab-facts"><caption>{self.caption}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
        )


@dataclass(frozen=True)
class Shown:
    """One run of one page.

    Attributes:
        page: its name.
        values: of its controls.
        lead, formula, symbols: the words around the picture; LaTeX without delimiters.
        figures: by name, and `alts` what each shows in words.
        tables: the tables of numbers, in their order.
        said: the sentences of what to look for (markdown).
        folded: title and text of what is folded away below, "What would refute it" among them.
        snippet: the Python program that prints the numbers.
        used: kind and name of each model that answered, as `cache.sums` takes them.
    """

    page: str
    values: Mapping[str, Any]
    lead: str
    formula: str
    symbols: Mapping[str, str]
    figures: Mapping[str, Figure]
    alts: Mapping[str, str]
    tables: tuple[Facts, ...]
    said: tuple[str, ...]
    folded: tuple[tuple[str, str], ...]
    snippet: str
    used: tuple[tuple[str, str], ...]
