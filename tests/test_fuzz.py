"""Whatever is typed, uploaded or linked is read, or refused with a message: nothing else may come out."""

import io
import json
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.sweep_table import parse as parse_sweep
from core.tables import parse_table
from core.text import read_tweeteval_zip
from models import zoo
from models.folder import CheckpointError, check_header, read_config, read_files
from pages.ui.controls import TABLE, read_link

few = settings(max_examples=60, deadline=None)
CELLS = st.sampled_from(
    [
        "1",
        "-2.5",
        "1e400",
        "nan",
        "x",
        "",
        '"3"',
        "1_0",
        "٣",
        "\0",
        ",",
        ";",
        "\t",
        "\n",
        " ",
        "\ufeff",
    ]
)
SOUP = st.lists(CELLS, max_size=40).map("".join)
HOME = read_files(zoo.CHECKPOINTS / "attention-1")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def read_or_refuse(read, *given):
    """Call it; a refusal must say something."""
    try:
        read(*given)
    except ValueError as reason:
        assert len(str(reason)) > 10  # noqa: PT017 - or none is raised


@few
@given(SOUP | st.binary(max_size=200))
def test_tables(source):
    read_or_refuse(parse_table, source)


@few
@given(
    SOUP.map(lambda t: "predictor,seed,n_examples,metric,value,low,high\n" + t)
    | st.binary(max_size=200).map(lambda b: b"PAR1" + b)
)
def test_sweeps(source):
    read_or_refuse(parse_sweep, source)


@few
@given(
    st.dictionaries(
        st.sampled_from(
            ["mapping.txt", "train_text.txt", "train_labels.txt", "../x", "a/mapping.txt"]
        ),
        SOUP,
    )
)
def test_zips(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    read_or_refuse(read_tweeteval_zip, out.getvalue())
    data = bytearray(out.getvalue())
    data[len(data) // 2] ^= 0xFF
    read_or_refuse(read_tweeteval_zip, bytes(data))


@few
@given(st.sampled_from(sorted(json.loads(HOME["config.json"]))), JSON)
def test_configs(key, value):
    raw = json.loads(HOME["config.json"]) | {key: value}
    read_or_refuse(read_config, {"config.json": json.dumps(raw).encode()})


@few
@given(
    st.dictionaries(st.text(max_size=8) | st.just("value.weight"), JSON, max_size=3),
    st.integers(0, 2**64 - 1),
    st.booleans(),
)
def test_headers(header, length, lie):
    text = json.dumps(header).encode()
    data = struct.pack("<Q", length if lie else len(text)) + text
    shapes = {"value.weight": (2, 2)}
    with pytest.raises(CheckpointError):  # none of them holds what it must
        check_header("model.safetensors", data, shapes, read_config(HOME))


@few
@given(
    st.dictionaries(
        st.sampled_from([r.name for r in TABLE] + ["v", "preset", "zz"]),
        st.lists(SOUP | st.text(max_size=20), min_size=1, max_size=3),
        max_size=6,
    )
)
def test_links(query):
    link = read_link("landscape", query, ["a"])
    assert all(isinstance(notice, str) and len(notice) > 10 for notice in link.notices)
