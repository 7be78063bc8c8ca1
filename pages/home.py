"""Home: what the lab is, one landscape to play with, and the map of all pages."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from itertools import groupby

import numpy as np
import streamlit as st

from pages import catalog, tours
from pages.tours import LAB
from pages.ui import charts, tour
from pages.ui.chart_view import Frames, chart_view

LEAD = """
When a transformer answers from examples in its prompt, its attention does what an associative memory does:
it retrieves. Here the examples reshape the memories and you watch the landscape move. Every page of a claim states its
equation and its claim, shows the numbers behind the picture, and says what would refute it.
"""

BETA = 6.0
QUERY = np.array([0.18, 0.05])


def render() -> None:
    with st.container(key="lab-home", horizontal=True, gap="large"):
        with st.container(key="lab-home-words"):
            st.html('<h1 class="lab-h1">Reshape Lab</h1>')
            st.markdown(f"**In-context learning as associative memory.** {LEAD}")
            _start()
        with st.container(key="lab-home-picture"):
            _picture()
    for group, entries in groupby(
        (e for e in catalog.PAGES if e is not catalog.HOME), key=lambda e: e.group
    ):
        st.html(f'<h2 class="lab-group">{group}</h2>')
        with st.container(horizontal=True, key=f"lab-map-{group.lower()}", gap="medium"):
            for e in entries:
                with st.container(border=True, gap="xsmall", key=f"lab-card-{e.name}"):
                    st.page_link(catalog.link(e), label=f"**{e.title}**", icon=e.icon)
                    st.html(f'<p class="lab-card-blurb">{e.blurb}</p>')


def _start() -> None:
    """The first thing to do here: the tour. Who would rather look around goes to the first page."""
    first = next(e for e in catalog.PAGES if e is not catalog.HOME)
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", key="lab-home-start"
    ):
        if st.button(
            "Take the tour: five minutes",
            type="primary",
            icon=":material/tour:",
            key="lab-home-tour",
        ):
            tour.go(LAB, 1)
            st.switch_page(catalog.link(catalog.page(tour.page_of(LAB, tours.of(LAB)[0]))))
        st.page_link(
            catalog.link(first), label=f"Start with: {first.title}", icon=":material/arrow_forward:"
        )


def _picture() -> None:
    grid = np.linspace(-1.25, 1.25, 61)
    angles = np.pi / 2 + 2 * np.pi * np.arange(5) / 5
    memories = np.stack([np.cos(angles), np.sin(angles)], -1)
    energy, path = landscape(BETA, QUERY, memories, grid)
    st.html(poster(energy))
    steps = range(len(path))
    frames = Frames(
        data=[{2: {"x": path[: i + 1, 0], "y": path[: i + 1, 1]}} for i in steps],
        labels=[f"step {i} of {len(path) - 1}" for i in steps],
        pause=500,
    )
    chart_view(
        charts.home_landscape(energy, grid, memories, path), key="home-landscape", frames=frames,
        alt="Energy of five memories on a circle; a query started between two of them rolls into a well.",
    )  # fmt: skip


def poster(energy: np.ndarray) -> str:
    """The energies as an image, which stands while plotly.js, a hundred times its size, is on its way."""
    stops = np.array([at for at, _ in charts.SEQUENTIAL])
    hues = np.array([list(bytes.fromhex(hue[1:])) for _, hue in charts.SEQUENTIAL])
    level = (energy - energy.min()) / (energy.max() - energy.min())
    pixels = np.stack([np.interp(level[::-1], stops, hue) for hue in hues.T], -1)  # y upwards
    file = b64encode(_png(pixels.round().astype(np.uint8))).decode()
    return f'<div class="lab-home-poster" aria-hidden="true"><img alt="" src="data:image/png;base64,{file}"></div>'


def _png(pixels: np.ndarray) -> bytes:
    """A PNG file of `pixels (rows, columns, 3)`, bytes."""
    rows, columns, _ = pixels.shape

    def chunk(name: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # 0: no filter
    head = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def landscape(beta: float, query: np.ndarray, memories: np.ndarray, grid: np.ndarray):
    """`lse_dot_energy` on a square grid and the retrieval path, in numpy so that home stays free of torch.

    Equals `core.hopfield` (tested): energy up to its constant, path exactly.
    """
    states = np.stack(np.meshgrid(grid, grid), -1)
    scores = beta * states @ memories.T
    top = scores.max(-1)
    lse = (top + np.log(np.exp(scores - top[..., None]).sum(-1))) / beta
    energy = (states**2).sum(-1) / 2 - lse
    path = [query]
    while len(path) < 12 and (len(path) < 2 or np.linalg.norm(path[-1] - path[-2]) > 1e-3):
        weights = np.exp(beta * memories @ path[-1])
        path.append(weights @ memories / weights.sum())
    return energy, np.array(path)
