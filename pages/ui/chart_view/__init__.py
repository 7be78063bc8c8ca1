"""A plotly Figure on the page, drawn by `Plotly.react` so that zoom and camera stay when numbers change.

The figure travels as one block of bytes: a JSON head, then its arrays as they lie in memory. Nothing is spelt
out in decimal, nothing is base64, and the browser makes typed arrays of it without parsing.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import streamlit as st

from pages.ui.charts import COLOURS, Figure, raw, template
from pages.ui.component import component

_mount = component(
    "chart_view",
    html='<figure class="lab-chart" data-state="loading"><div class="lab-chart-tools"></div>'
    '<div class="lab-chart-plot"></div><p class="lab-chart-message" role="status">Drawing …</p>'
    '<p class="lab-chart-words"></p></figure>',
)

_DTYPES = {
    "f8": "f8",
    "f4": "f4",
    "i4": "i4",
    "i2": "i2",
    "i1": "i1",
    "u1": "u1",
    "u2": "u2",
    "u4": "u4",
}
_LOOKS = {theme: {"colours": COLOURS[theme], "template": template(theme)} for theme in COLOURS}


@dataclass(frozen=True)
class Live:
    """Points of a landscape that can be dragged, and what the browser needs to know to let energy follow.

    Attributes:
        scene: the arguments of `sides()` in `energy.js`, arrays flat.
        panels: `{"xaxis": "before", "xaxis2": "after"}`, or `"difference"`: what each subplot shows.
        whole: the space has two dimensions, so that examples and memories can be dragged as well as the query.
        sliders: `{"beta": class of the element around its slider}`, likewise `"strength"`.
    """

    scene: Mapping[str, Any]
    panels: Mapping[str, str]
    whole: bool
    sliders: Mapping[str, str]


@dataclass(frozen=True)
class Frames:
    """Pictures the browser plays without asking Python.

    Attributes:
        data: per frame, `{trace number: {attribute: array}}`, what changes in it.
        labels: per frame, a few words shown beside the buttons.
        start: frame shown first; the last one unless said otherwise.
        group: charts with the same group show the same frame.
        pause: milliseconds a frame stays while playing.
    """

    data: Sequence[Mapping[int, Mapping[str, Any]]]
    labels: Sequence[str]
    start: int = -1
    group: str = ""
    pause: int = 350

    def __post_init__(self) -> None:
        if len(self.data) != len(self.labels) or not self.data:
            raise ValueError(
                f"every frame needs one label: got {len(self.data)} frames and {len(self.labels)} labels"
            )


def chart_view(
    fig: Figure,
    *,
    key: str,
    alt: str,
    frames: Frames | None = None,
    on_click: Callable[[dict[str, Any]], None] | None = None,
    live: Live | None = None,
    on_drag: Callable[[dict[str, Any]], None] | None = None,
    file_name: str = "",
) -> None:
    """Draw `fig` at this place of the page.

    Args:
        fig: figure from `charts.py`, colours as tokens. Its `layout.height` is the height.
        key: name of the picture, unique on the page. Zoom and camera belong to it.
        alt: what the picture shows, for those who cannot see it.
        frames: what the play, step and reset buttons show.
        on_click: called before the rerun with `{"x", "y", "curve", "point"}`, x and y where the mouse was.
        live: what can be dragged; for figures whose `layout.meta["canvas"]` is on.
        on_drag: called before the rerun with `{"kind", "index", "x", "y"}` of the point that was let go.
        file_name: of the PNG and SVG, without ending; the key if empty.
    """
    head = {"key": key, "alt": alt, "click": on_click is not None, "file": file_name or key}
    block = pack(fig, head, frames, live)
    event = f"{key}~view"

    def told(name: str, act: Callable[[dict[str, Any]], None] | None) -> Callable[[], None]:
        def tell() -> None:
            point = st.session_state[event].get(name)
            if point and act is not None:
                act(point)

        return tell

    _mount(
        data=block,
        key=event,
        on_click_change=told("click", on_click),
        on_drag_change=told("drag", on_drag),
    )


def pack(
    fig: Figure, head: Mapping[str, Any], frames: Frames | None = None, live: Live | None = None
) -> bytes:
    """The figure as bytes: u4 length of the head, head, arrays, each on a multiple of 8.

    Two-dimensional arrays go as float32 (they are coloured, not read), all others as they are.
    """
    arrays: list[np.ndarray] = []
    data, layout = raw(fig)
    body = {
        **head,
        "figure": {"data": _lift(data, arrays), "layout": _lift(layout, arrays)},
        "looks": _LOOKS,
        "frames": None
        if frames is None
        else {
            "frames": [
                {"traces": list(f), "data": [_lift(dict(p), arrays) for p in f.values()]}
                for f in frames.data
            ],
            "labels": list(frames.labels),
            "start": frames.start % len(frames.data),
            "group": frames.group,
            "pause": frames.pause,
        },
    }
    if live is not None:
        body["live"] = _lift(dataclasses.asdict(live), arrays)
    offset = 0
    table = []
    for a in arrays:
        table.append([a.dtype.str[1:], list(a.shape), offset])
        offset += -(-a.nbytes // 8) * 8
    body["arrays"] = table
    block = b"".join(a.tobytes() + b"\0" * (-a.nbytes % 8) for a in arrays)
    text = json.dumps(body, separators=(",", ":"), default=_plain, allow_nan=False).encode()
    seal = blake2b(text, digest_size=8)
    seal.update(block)
    text = text[:-1] + b',"revision":"' + seal.hexdigest().encode() + b'"}'
    text += b" " * (-(len(text) + 4) % 8)
    return struct.pack("<I", len(text)) + text + block


def _lift(node: Any, arrays: list[np.ndarray]) -> Any:
    """The JSON side of a figure, with every numeric array moved to `arrays` and its number left behind."""
    if isinstance(node, dict):
        return {k: _lift(v, arrays) for k, v in node.items()}
    if isinstance(node, np.ndarray):
        if node.dtype.kind not in "fiu" or node.ndim > 2:
            return _finite_list(node.tolist())
        arrays.append(_compact(node))
        return {"$array": len(arrays) - 1}
    if isinstance(node, (list, tuple)):
        return [_lift(v, arrays) for v in node]
    return _finite_list(node)


def _compact(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f" and a.ndim == 2:
        with np.errstate(over="ignore"):
            a = a.astype("<f4")
    elif a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        small = np.abs(a).max(initial=0) < 2**31
        a = a.astype("<i4" if small else "<f8")
    if a.dtype.str[1:] not in _DTYPES:
        a = a.astype("<f8")
    return np.ascontiguousarray(a)


def _finite_list(node: Any) -> Any:
    if isinstance(node, float) and not np.isfinite(node):
        return None
    if isinstance(node, list):
        return [_finite_list(v) for v in node]
    return node


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return _finite_list(value.item())
    raise TypeError(f"a figure cannot carry a {type(value).__name__}")
