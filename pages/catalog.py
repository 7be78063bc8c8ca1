"""The one list of pages. A page exists when it has a row here and a file `pages/NAME.py` with `render()`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pages import tours
from pages.tours import Step

if TYPE_CHECKING:
    from streamlit.navigation.page import Page

_PNG = (Path(__file__).parent / "ui" / "icon.png").read_bytes()
# In the message itself: Streamlit drops a file it serves when a fragment reruns, and a browser that
# asks for the icon again, as Chromium does when the address changes, is answered 404.
ICON = "data:image/png;base64," + b64encode(_PNG).decode()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A page of the lab.

    Attributes:
        name: file name and URL path.
        title: heading and navigation text.
        group: heading of the navigation the page stands under; "" for the home page.
        icon: Material symbol.
        blurb: one sentence for the map of the lab.
        claim: the sentence of the paper the page lets a reader test, "" if none.
    Its tour stands in `tours.py`.
    """

    name: str
    title: str
    group: str
    icon: str
    blurb: str
    claim: str = ""

    @property
    def tour(self) -> tuple[Step, ...]:
        """The steps of the page's own tour; none on the home page."""
        return tours.of(self.name)


HOME = Entry(
    name="home",
    title="Reshape Lab",
    group="",
    icon=":material/home:",
    blurb="In-context learning as associative memory, to be seen, measured and doubted.",
)

PAGES: tuple[Entry, ...] = (
    HOME,
    Entry(
        name="landscape",
        title="Landscape",
        group="Memory",
        icon=":material/landscape:",
        blurb="See in-context examples reshape the memories, and the energy under a query.",
        claim="In-context examples reshape the memories that attention retrieves from.",
    ),
    Entry(
        name="retrieval",
        title="Retrieval error",
        group="Memory",
        icon=":material/target:",
        blurb="Measure how far attention lands from the right memory, under the bounds that promise it.",
        claim="Reshaping the most similar memory onto the query raises its separation and lowers the "
        "retrieval error.",
    ),
    Entry(
        name="regression",
        title="In-context regression",
        group="Context",
        icon=":material/query_stats:",
        blurb="Pretrained transformers answer prompts you shift, mislabel and lengthen, live.",
        claim="Covariate shift and wrong labels break in-context learning; more examples than in "
        "training do too.",
    ),
    Entry(
        name="text",
        title="In-context text",
        group="Context",
        icon=":material/chat:",
        blurb="A small language model learns a task from the examples in its prompt, or does not.",
        claim="More examples, right answers and texts of the same domain make in-context learning "
        "on text better.",
    ),
    Entry(
        name="hidden_concept",
        title="Hidden concept",
        group="Mechanism",
        icon=":material/bubble_chart:",
        blurb="Watch the belief over the concept behind a prompt narrow, and ask if attention averages it.",
        claim="Softmax attention tends to Bayesian model averaging over the hidden concept, up to a "
        "constant.",
    ),
    Entry(
        name="ghosts",
        title="Ghost examples",
        group="Mechanism",
        icon=":material/blur_on:",
        blurb="Search for examples a frozen model cannot tell from none, then reshape them into a true prompt.",
        claim="Pretrained memories act as ghost examples that the examples of a prompt reshape.",
    ),
    Entry(
        name="generalization",
        title="Generalisation",
        group="Mechanism",
        icon=":material/trending_down:",
        blurb="Set the generalisation bound beside what it bounds, and see where it says nothing.",
        claim="The generalisation gap of in-context learning falls as one over the number of examples.",
    ),
    Entry(
        name="layers",
        title="Layers",
        group="Mechanism",
        icon=":material/layers:",
        blurb="Read a deep transformer as one retrieval after another, and see how far that carries.",
        claim="A deep transformer retrieves from associative memory layer by layer (the paper's future work).",
    ),
    Entry(
        name="induction",
        title="Induction head",
        group="Mechanism",
        icon=":material/linked_services:",
        blurb="Take a two-layer transformer's induction head apart into memories, and watch one being born.",
        claim="An induction head is a retrieval from associative memories: it finds what followed "
        "the same letter before.",
    ),
    Entry(
        name="checkpoints",
        title="Checkpoints",
        group="Models",
        icon=":material/inventory_2:",
        blurb="What every pretrained model was trained on and how far it got; bring your own.",
    ),
    Entry(
        name="glossary",
        title="Glossary",
        group="Lab",
        icon=":material/menu_book:",
        blurb="The words of the lab in a sentence or two each, with where to see them.",
    ),
    Entry(
        name="about",
        title="About",
        group="Lab",
        icon=":material/info:",
        blurb="Versions, sums of the checkpoints, the limits in force here, and how to cite.",
    ),
)


def page(name: str) -> Entry:
    """The row of this page."""
    for entry in PAGES:
        if entry.name == name:
            return entry
    raise ValueError(f"no page {name!r} in the catalog; it has {', '.join(e.name for e in PAGES)}")


def render(name: str) -> Callable[[], None]:
    """The page's render(), imported when it is first opened, so that no page pays for another's imports."""

    def run() -> None:
        from pages.ui import frame

        frame.framed(import_module(f"pages.{name}").render)

    run.__name__ = name
    return run


def link(entry: Entry) -> Page:
    """The page as Streamlit knows it, for `st.navigation` and `st.page_link`."""
    import streamlit as st

    return st.Page(
        render(entry.name), title=entry.title, icon=entry.icon, url_path=entry.name,
        default=entry is HOME, help=entry.blurb,
    )  # fmt: skip


def navigation() -> dict[str, list[Page]]:
    """What `st.navigation` wants: the pages under their group headings."""
    groups: dict[str, list[Page]] = {}
    for entry in PAGES:
        groups.setdefault(entry.group, []).append(link(entry))
    return groups
