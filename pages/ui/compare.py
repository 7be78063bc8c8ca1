"""Two settings of one page beside one another: A, which is pinned, and B, which the controls say. No Streamlit."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pages.ui import charts
from pages.ui.charts import Figure
from pages.ui.controls import differing
from pages.ui.shown import Facts, Shown

PLANES = ("heatmap", "contour", "surface")
NO_ROOM = "This picture has no room for A, so only settings and numbers are compared."
OTHER_PICTURE = "A shows other pictures, so only settings and numbers are compared."


@dataclass(frozen=True)
class Compared:
    """One picture of B with A in it.

    Attributes:
        figure: B's, with A behind it where both are lines and points.
        difference: B − A, where both have the same x or the same grid.
        note: why A is not in the picture or there is no difference; "" if all is there.
    """

    figure: Figure
    difference: Figure | None = None
    note: str = ""

    @property
    def alt(self) -> str:
        """What the difference shows, in words."""
        assert self.difference is not None
        return f"{charts.raw(self.difference)[1]['title']['text']} of the picture above"


def compared(key: str, figure: Figure, a: Shown) -> Compared:
    """B's picture `figure`, which is called `key` on the page, beside A's of that name."""
    if key not in a.figures:
        return Compared(figure, note=OTHER_PICTURE)
    ours, theirs = charts.raw(figure)[0], charts.raw(a.figures[key])[0]
    if any(t.get("type") in PLANES for t in ours):
        change = _change_of_planes(figure, ours, theirs)
        note = (
            ""
            if change
            else "A and B show other parts of the plane, so they cannot be subtracted point by point."
        )
        return Compared(figure, change, note)
    if any(_flat(t) for t in ours):
        return _with_behind(figure, a.figures[key])
    return Compared(figure, note=NO_ROOM)


def _flat(trace: Mapping[str, Any]) -> bool:
    """Whether it is lines, points or bars on two axes."""
    return trace.get("type") in ("scatter", "scattergl", "bar")


def _crowded(figure: Figure) -> set[str]:
    """The x axes whose bars stand on one another or side by side: a mark for one of A's would belong to none."""
    data, layout = charts.raw(figure)
    bars = [t.get("xaxis", "x") for t in data if t.get("type") == "bar"]
    return set() if layout.get("barmode") == "overlay" else {x for x in bars if bars.count(x) > 1}


# ---- lines and points ----------------------------------------------------------------------------


def _with_behind(figure: Figure, pinned: Figure) -> Compared:
    (ours, layout), (theirs, pinned_layout) = charts.raw(figure), charts.raw(pinned)
    crowded = _crowded(figure) | _crowded(pinned)
    flat = [t for t in theirs if _flat(t) and _drawn(t)]
    fits = [t for t in flat if t["type"] != "bar" or t.get("xaxis", "x") not in crowded]
    behind = [_behind(t) for t in fits if not _among(t, ours)]
    note = "" if len(fits) == len(flat) else "A's bars find no room between B's and are left out."
    if not behind:
        return Compared(
            figure, note="A and B draw the same here." if fits and not note else NO_ROOM
        )
    # Last in the list, so that frames and clicks keep their numbers; `zorder` puts them behind.
    both = Figure([*ours, *behind], _wide_enough(layout, pinned_layout))
    return Compared(both, _change_of_lines(ours, theirs, charts.raw(both)[1]), note)


def _drawn(trace: Mapping[str, Any]) -> bool:
    return trace.get("mode") != "text" and np.size(trace.get("x")) > 0


def _among(trace: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the others has the same name and numbers, such as a baseline that does not move."""
    return any(
        _called(trace) == _called(t)
        and trace.get("xaxis") == t.get("xaxis")
        and _same(trace.get("x"), t.get("x"))
        and _same(trace.get("y"), t.get("y"))
        for t in others
    )


def _same(one: Any, other: Any) -> bool:
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape:
        return False
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f"))


def _called(trace: Mapping[str, Any]) -> str:
    return str((trace.get("meta") or {}).get("series") or trace.get("name") or "")


def _behind(trace: Mapping[str, Any]) -> dict[str, Any]:
    """A's trace as it stands behind B's: grey, broken, and named after A."""
    grey = charts.token("muted")
    out = dict(trace)
    name = _called(trace) or "numbers"
    out |= {
        "name": f"A: {name}",
        "legendgroup": f"A: {trace.get('legendgroup') or name}",
        "zorder": -1,
    }
    if trace.get("meta"):
        out["meta"] = {**trace["meta"], "series": f"A: {name}"}
    if trace["type"] == "bar":  # where A's bar would end
        for bar in ("width", "offset", "offsetgroup", "base", "marker", "textposition", "text"):
            out.pop(bar, None)
        flat = trace.get("orientation") == "h"
        symbol = "line-ns-open" if flat else "line-ew-open"
        marker = {
            "color": grey,
            "symbol": symbol,
            "size": 18,
            "line": {"width": 2.5, "color": grey},
        }
        out.pop("orientation", None)
        return out | {"type": "scatter", "mode": "markers", "marker": marker}
    line, marker = dict(trace.get("line") or {}), dict(trace.get("marker") or {})
    if line.get("width") != 0:
        dash = line.get("dash", "solid")
        out["line"] = line | {
            "color": grey,
            "dash": "dash" if dash == "solid" else dash,
            "width": 1.6,
        }
    if "marker" in trace or "markers" in str(trace.get("mode", "")):
        # Colours that say a number would claim the colour bar for A as well.
        for part in ("colorscale", "coloraxis", "colorbar", "showscale", "cmin", "cmax", "cmid"):
            marker.pop(part, None)
        border = {"line": dict(marker["line"]) | {"color": grey}} if marker.get("line") else {}
        out["marker"] = marker | {"color": grey, "opacity": 0.55} | border
    if trace.get("fill"):
        out["fillcolor"] = grey
        out["opacity"] = 0.1
    if trace.get("text") is not None:
        out["textfont"] = {**(trace.get("textfont") or {}), "color": grey}
    for bar in ("error_x", "error_y"):
        if trace.get(bar):
            out[bar] = {**trace[bar], "color": grey}
    return out


def _wide_enough(layout: Mapping[str, Any], pinned: Mapping[str, Any]) -> dict[str, Any]:
    """B's layout with axes that A's numbers fit too."""
    out = dict(layout)
    for name, axis in layout.items():
        if not re.fullmatch(r"[xy]axis\d*", name) or not isinstance(axis, Mapping):
            continue
        ours, theirs = axis.get("range"), (pinned.get(name) or {}).get("range")
        if ours is None or theirs is None or axis.get("type") != pinned[name].get("type"):
            continue
        ends = [*ours, *theirs]
        if all(isinstance(v, (int, float, np.number)) for v in ends):
            upward = ours[0] <= ours[1]
            span = [min(ends), max(ends)] if upward else [max(ends), min(ends)]
            out[name] = {**axis, "range": span}
    return out


def _change_of_lines(
    ours: Sequence[Mapping[str, Any]],
    theirs: Sequence[Mapping[str, Any]],
    layout: Mapping[str, Any],
) -> Figure | None:
    """B − A of every curve that both have over the same x; B ÷ A where the axis counts powers."""
    curves: list[dict[str, Any]] = []
    reach: dict[str, list[np.ndarray]] = {}  # y axis -> the changes of what the picture shows
    powers: set[str] = set()
    for b in ours:
        a = next((t for t in theirs if _partner(b, t)), None)
        if a is None:
            continue
        axis = b.get("yaxis", "y")
        spec = layout.get(f"yaxis{axis[1:]}") or {}
        old, new = np.asarray(a["y"], float), np.asarray(b["y"], float)
        with np.errstate(divide="ignore", invalid="ignore"):
            if spec.get("type") == "log":
                powers.add(axis)
                change = np.where((old > 0) & (new > 0), new / old, np.nan)
            else:
                change = new - old
        change[~(_within(spec, old) & _within(spec, new))] = np.nan
        if not np.isfinite(change).any():
            continue
        reach.setdefault(axis, []).append(change)
        kept = {k: b[k] for k in ("xaxis", "yaxis", "line", "marker") if k in b}
        curve = {"type": "scatter", "mode": b.get("mode", "lines"), "x": b["x"], "y": change}
        curves.append(curve | kept | {"name": _called(b) or "change"})
    if not curves:
        return None
    one = not any(re.fullmatch(r"[xy]axis\d+", k) for k in layout)
    title = "B ÷ A" if len(powers) == len(reach) else "B − A"
    if powers and title == "B − A":
        title += ", and B ÷ A on axes of powers"
    out: dict[str, Any] = {
        "height": 250 if one else layout.get("height", 420),
        "title": {"text": title},
        "showlegend": len(curves) > 1,
    }
    for name, axis in layout.items():
        if re.fullmatch(r"xaxis\d*", name):
            out[name] = axis
        elif re.fullmatch(r"yaxis\d*", name):
            kept = {k: axis[k] for k in ("title", "domain", "anchor", "side") if k in axis}
            y = f"y{name[5:]}"
            out[name] = {**kept, **_change_axis(reach.get(y, []), y in powers)}
    for part in ("annotations", "margin"):
        if not one and layout.get(part):
            out[part] = layout[part]
    return Figure(curves, out)


def _within(axis: Mapping[str, Any], y: np.ndarray) -> np.ndarray:
    """Which values the picture shows: a curve that leaves it shall not set the scale of the difference."""
    if axis.get("range") is None:
        return np.isfinite(y)
    low, high = sorted(axis["range"])
    if axis.get("type") == "log":
        low, high = 10.0**low, 10.0**high
    return (y >= low) & (y <= high)


def _change_axis(changes: Sequence[np.ndarray], powers: bool) -> dict[str, Any]:
    """The axis of a difference, from its nought (a quotient's 1) to the largest change of what is shown."""
    shown = [c[np.isfinite(c)] for c in changes]
    flat = np.concatenate([np.log10(c) if powers else c for c in shown]) if shown else np.zeros(0)
    axis: dict[str, Any] = {"zeroline": True, "zerolinecolor": charts.token("faint")}
    if powers:
        axis = {"type": "log", "exponentformat": "power"}
    if flat.size and np.ptp(np.append(flat, 0.0)) > 0:
        low, high = min(0.0, float(flat.min())), max(0.0, float(flat.max()))
        room = 0.08 * (high - low)
        axis["range"] = [low - room, high + room]
    return axis


def _partner(b: Mapping[str, Any], a: Mapping[str, Any]) -> bool:
    """Whether A's trace is the same curve as B's, over the same x, each x once and in order."""
    if not all(t.get("type") == "scatter" and "lines" in str(t.get("mode")) for t in (a, b)):
        return False
    if (
        a.get("fill")
        or b.get("fill")
        or _called(a) != _called(b)
        or a.get("xaxis") != b.get("xaxis")
    ):
        return False
    if not _same(a.get("x"), b.get("x")) or np.shape(a.get("y")) != np.shape(b.get("y")):
        return False
    x, ys = np.asarray(b["x"]), [np.asarray(t["y"]) for t in (a, b)]
    if x.dtype.kind not in "fiu" or any(y.dtype.kind not in "fiu" for y in ys) or x.ndim != 1:
        return False
    return x.size > 2 and bool((np.diff(x) > 0).all())


# ---- planes --------------------------------------------------------------------------------------


def _change_of_planes(
    figure: Figure, ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]
) -> Figure | None:
    """B − A of every plane, one colour scale for all; None unless every plane has its partner on the same grid."""
    pairs = [[t for t in side if _plane(t)] for side in (ours, theirs)]
    if len(pairs[0]) != len(pairs[1]):
        return None
    changes, seen = [], set()
    for b, a in zip(*pairs, strict=True):
        if np.shape(b["z"]) != np.shape(a["z"]) or any(
            not _near(a.get(axis), b.get(axis)) for axis in ("x", "y")
        ):
            return None
        z = [np.asarray(t["z"]) for t in (b, a)]
        if any(v.dtype.kind not in "fiub" for v in z):
            return None
        place = b.get("xaxis", "x"), b.get("yaxis", "y"), b.get("scene")
        if place not in seen:  # a filled plane and the lines over it are one
            seen.add(place)
            kept = {k: b[k] for k in ("x", "y", "xaxis", "yaxis") if b.get(k) is not None}
            changes.append(kept | {"z": z[0].astype(float) - z[1].astype(float)})
    finite = [np.abs(c["z"][np.isfinite(c["z"])]).max(initial=0.0) for c in changes]
    most = float(max(finite, default=0.0)) or 1.0
    traces = [
        {
            "type": "heatmap", "zsmooth": "fast", "hoverongaps": False, "name": "B − A",
            "colorscale": charts.DIVERGING, "zmid": 0, "zmin": -most, "zmax": most,
            "showscale": i == 0, **c,
        }
        for i, c in enumerate(changes)
    ]  # fmt: skip
    layout = {
        k: v for k, v in charts.raw(figure)[1].items()
        if re.fullmatch(r"[xy]axis\d*|height|annotations|margin|plot_bgcolor|meta", k)
    }  # fmt: skip
    # The browser's canvas paints planes in the landscape's own scale, plotly these.
    layout["meta"] = {k: v for k, v in (layout.get("meta") or {}).items() if k != "canvas"}
    scene = charts.raw(figure)[1].get("scene") or {}
    for name in ("xaxis", "yaxis"):
        if title := (scene.get(name) or {}).get("title"):
            layout.setdefault(name, {"title": title})
    return Figure(traces, layout | {"title": {"text": "B − A"}})


def _plane(trace: Mapping[str, Any]) -> bool:
    """Whether it is a plane of numbers; which memory a basin belongs to is none, though drawn as one."""
    return trace.get("type") in PLANES and not (trace.get("meta") or {}).get("basins")


def _near(one: Any, other: Any) -> bool:
    """Whether both are the same places; the last digits may differ by how a grid was laid."""
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype.kind in "fiu" and b.dtype.kind in "fiu" and a.shape == b.shape:
        return bool(np.allclose(a, b, rtol=1e-9, atol=1e-12))
    return _same(one, other)


# ---- words and numbers ---------------------------------------------------------------------------


def settings_in_words(page: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """`β inverse temperature 8 → 20, noise 0.2 → 0.4`, "" if nothing that counts differs."""
    return ", ".join(
        f"{label}{':' if label[-1].isdigit() else ''} {was} → {now}"
        for label, was, now in differing(page, a, b)
    )


def numbers(a: Shown, b: Shown) -> Facts | None:
    """The live numbers of both pages' sentences and tables that differ: A, B and B − A; None without any."""
    rows: list[tuple[str, ...]] = []
    same = 0
    for old_words, new_words in zip(a.said, b.said, strict=False):
        olds, news = _live(old_words), _live(new_words)
        if [_bare_of_numbers(w) for w, _ in olds] == [_bare_of_numbers(w) for w, _ in news]:
            for (was, x), (label, y) in zip(olds, news, strict=True):
                if x == y:
                    same += 1
                    continue
                label = label if was == label else _bare_of_numbers(label)
                if (
                    "…" in label or len(label.split()) < 2
                ):  # torn out of its sentence, which stands below
                    continue
                rows.append((html.escape(label), x, y, change(x, y)))
    for ours, theirs in _paired_tables(a.tables, b.tables):
        cells = {row[0]: row[1:] for row in reversed(ours.rows)}
        for name, *news in theirs.rows:
            olds = cells.get(name, ())
            for i, new in enumerate(news):
                old = olds[i] if i < len(olds) else ""
                if not (_plain(old) and _plain(new)):
                    continue
                if _plain(old) == _plain(new):
                    same += _number(new) is not None
                    continue
                column = theirs.columns[i] if i < len(theirs.columns) else ""
                label = f"{name}, {column}" if len(news) > 1 and column else name
                rows.append((label, old, new, change(old, new)))
    if not rows:
        return None
    few = (
        f"{same} other number is the same." if same == 1 else f"{same} other numbers are the same."
    )
    return Facts(("A", "B", "B − A"), rows, "What became of the numbers", few if same else "")


_LIVE = re.compile(r"\*\*(.+?)\*\*(\s*%)?")


def _live(sentence: str) -> list[tuple[str, str]]:
    """The numbers in bold of a sentence, each with the words of its clause that lead to it."""
    found, at = [], 0
    for m in _LIVE.finditer(sentence):
        words = re.split(r"[;:,.](?:\s|$)", sentence[at : m.start()].replace("*", ""))
        label = " ".join(next((w for w in reversed(words) if w.strip()), "").split())
        label = re.sub(r"^.*=\s*[-−\d.]+\s+", "", label)  # the settings, which stand above
        found.append((label.removesuffix(" is"), html.escape(m[1] + (m[2] or ""))))
        at = m.end()
    return found


def _bare_of_numbers(words: str) -> str:
    return re.sub(r"(?<![\w.])[-+−]?\d[\d.]*(?:e[-+]?\d+)?", "…", words)


def _paired_tables(a: Sequence[Facts], b: Sequence[Facts]) -> list[tuple[Facts, Facts]]:
    """Tables of the same rows: by their place if both pages have as many, else by their caption."""
    if len(a) == len(b):
        return list(zip(a, b, strict=True))
    titles = {t.caption: t for t in a}
    return [(titles[t.caption], t) for t in b if t.caption in titles]


_NUMBER = re.compile(r"([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s*(%?)$")


def _plain(cell: str) -> str:
    """A cell without its markup, and without the range that stands small beside its number."""
    bare = re.sub(r"<[^>]*>", "", re.sub(r"<small>.*?</small>", "", cell))
    return " ".join(html.unescape(bare).split())


def _number(cell: str) -> tuple[float, int, bool, str] | None:
    """Value, decimals, whether it is written with a power of ten, and unit."""
    text = re.sub(r"[\u2009\u202f ]", "", _plain(cell).replace("−", "-")).rstrip(",")
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    digits, unit = found[1].replace(",", ""), found[2]
    decimals = len(digits.partition("e")[0].partition(".")[2])
    return float(digits), decimals, "e" in digits, unit


def change(old: str, new: str) -> str:
    """B − A of two cells in the digits that both show, of shares in percentage points; "" where one is no number."""
    a, b = _number(old), _number(new)
    if a is None or b is None or a[3] != b[3]:
        return ""
    decimals = max(a[1], b[1])
    text = f"{b[0] - a[0]:+.3g}" if a[2] or b[2] else f"{b[0] - a[0]:+.{decimals}f}"
    return text.replace("-", "−") + (" points" if a[3] else "")
