"""The bytes a figure travels as, read back the way the browser reads them."""

import json
import struct

import numpy as np
import plotly.graph_objects as go
import pytest

from pages.ui import charts
from pages.ui.chart_view import Frames, pack

HEAD = {"key": "k", "alt": "a picture", "click": False, "file": "k"}


def unpack(block: bytes):
    """payload.js in Python: head with its arrays put back."""
    (length,) = struct.unpack_from("<I", block)
    assert (4 + length) % 8 == 0, "arrays must be aligned for typed arrays"
    head = json.loads(block[4 : 4 + length])
    data = block[4 + length :]
    arrays = [
        np.frombuffer(data, np.dtype(f"<{kind}"), int(np.prod(shape)), offset).reshape(shape)
        for kind, shape, offset in head["arrays"]
    ]
    assert all(offset % 8 == 0 for _, _, offset in head["arrays"])

    def fill(node):
        if isinstance(node, dict):
            return (
                arrays[node["$array"]]
                if "$array" in node
                else {k: fill(v) for k, v in node.items()}
            )
        return [fill(v) for v in node] if isinstance(node, list) else node

    return head | {"figure": fill(head["figure"]), "frames": fill(head["frames"])}


def test_numbers_arrive_as_they_left():
    x = np.linspace(0, 1, 7)
    z = np.random.default_rng(0).standard_normal((5, 7))
    count = np.arange(7)
    fig = charts.figure(charts.heatmap(z, x, x[:5], "z"), charts.line(x, count, "n"), height=300)
    got = unpack(pack(fig, HEAD))["figure"]
    np.testing.assert_array_equal(got["data"][0]["x"], x)
    np.testing.assert_array_equal(got["data"][0]["z"], z.astype("f4"))  # coloured, not read
    np.testing.assert_array_equal(got["data"][1]["y"], count)
    assert got["layout"]["height"] == 300
    assert got["data"][1]["line"]["color"] == "var(--blue)"


@pytest.mark.parametrize(
    "kind", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b"]
)
def test_every_number_type_arrives(kind):
    values = np.array([0, 1, 1, 0], dtype="?" if kind == "b" else kind)
    fig = go.Figure(data=[{"type": "scatter", "y": values}], _validate=False)
    got = unpack(pack(fig, HEAD))["figure"]["data"][0]["y"]
    np.testing.assert_array_equal(np.asarray(got, dtype=float), values.astype(float))


def test_large_whole_numbers_are_not_cut():
    values = np.array([2**40, -(2**40)])
    fig = go.Figure(data=[{"type": "scatter", "y": values}], _validate=False)
    np.testing.assert_array_equal(unpack(pack(fig, HEAD))["figure"]["data"][0]["y"], values)


def test_what_is_not_finite_never_breaks_the_head():
    fig = go.Figure(
        data=[{"type": "bar", "y": [1.0, float("nan"), float("inf")], "width": np.float64("nan")}],
        layout={"template": None, "width": float("inf"), "height": np.int64(4)}, _validate=False,
    )  # fmt: skip
    got = unpack(pack(fig, HEAD))["figure"]
    assert got["data"][0]["y"] == [1.0, None, None]
    assert got["data"][0]["width"] is None
    assert (got["layout"]["width"], got["layout"]["height"]) == (None, 4)


def test_plotlys_own_template_stays_at_home():
    assert "template" not in unpack(pack(charts.figure(), HEAD))["figure"]["layout"]


def test_texts_stay_lists():
    fig = go.Figure(
        data=[{"type": "scatter", "text": np.array(["a", "β"]), "x": ["u"]}], _validate=False
    )
    assert unpack(pack(fig, HEAD))["figure"]["data"][0]["text"] == ["a", "β"]


def test_frames_carry_only_what_changes():
    path = np.arange(6.0)
    fig = charts.figure(charts.line(path, path, "a"), charts.line(path, path, "b", 1))
    frames = Frames(
        data=[{1: {"x": path[:2]}}, {1: {"x": path[:4]}}], labels=["one", "two"], group="g"
    )
    got = unpack(pack(fig, HEAD, frames))["frames"]
    assert got["start"] == 1
    assert [f["traces"] for f in got["frames"]] == [[1], [1]]
    np.testing.assert_array_equal(got["frames"][0]["data"][0]["x"], path[:2])


def test_frames_need_a_label_each():
    with pytest.raises(ValueError, match="one label"):
        Frames(data=[{0: {}}], labels=[])


def test_the_revision_is_that_of_the_content():
    def revision(y, height=300):
        return unpack(pack(charts.figure(charts.line(y, y, "a"), height=height), HEAD))["revision"]

    y = np.arange(3.0)
    assert revision(y) == revision(y.copy())
    assert len({revision(y), revision(y + 1e-9), revision(y, 301)}) == 3
