"""The table of a sweep, read back from bytes: against what the sweep itself returned."""

import io

import numpy as np
import pandas as pd
import pytest

from core.prompts import PromptLaw
from core.sweep import grid, run_sweep
from core.sweep_table import MAX_BYTES, parse


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    points = grid(
        ["least squares", "averaging"],
        {"w2": [0.0, 0.25, 0.5]},
        law=PromptLaw(n_dims=2),
        seeds=(0, 1),
        lengths=(2, 4),
        n_prompts=8,
        n_resamples=20,
    )
    folder = tmp_path_factory.mktemp("sweep")
    table = run_sweep(points, out=folder / "s.parquet")
    table.to_csv(folder / "s.csv", index=False)
    return table, folder


@pytest.mark.parametrize("name", ["s.parquet", "s.csv"])
def test_curves_are_the_rows_of_the_sweep(swept, name):
    table, folder = swept
    read = parse((folder / name).read_bytes())
    assert read.metrics == ("pooled R2", "within-task R2", "MSE")
    assert read.axes == ("w2", "n_examples")
    curves = read.curves("MSE", "w2")
    assert len(curves) == 4
    for c in curves:
        who, n = c.name.split(", n_examples ")
        rows = table[
            (table["predictor"] == who)
            & (table["n_examples"] == int(n))
            & (table["metric"] == "MSE")
        ]
        assert c.n_seeds == 2
        assert list(c.x) == [0.0, 0.25, 0.5]
        for i, w2 in enumerate(c.x):
            at = rows[rows["w2"] == w2]
            assert c.values[i] == pytest.approx(at["value"].mean(), rel=1e-12)
            assert c.low[i] == at["low"].min()
            assert c.high[i] == at["high"].max()


def test_text_and_bytes_read_alike(swept):
    raw = (swept[1] / "s.csv").read_bytes()
    np.testing.assert_array_equal(
        parse(raw).curves("MSE", "n_examples")[0].values,
        parse(raw.decode()).curves("MSE", "n_examples")[0].values,
    )


def test_an_axis_or_metric_that_is_not_there_is_named(swept):
    read = parse((swept[1] / "s.csv").read_bytes())
    with pytest.raises(ValueError, match=r"accuracy does not vary.*w2, n_examples"):
        read.curves("MSE", "accuracy")
    with pytest.raises(ValueError, match="not R2"):
        read.curves("R2", "w2")


def changed(swept, **columns):
    table = swept[0].assign(**columns)
    return table.to_csv(index=False)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda s: "", "no readable CSV"),
        (lambda s: b"PAR1" + b"\0" * 40, "no readable Parquet"),
        (lambda s: b"\x80\x04K\x01.", "neither a Parquet file nor CSV text"),
        (lambda s: "a,b\n1,2\n", "lacks the columns predictor"),
        (lambda s: s[0].iloc[:0].to_csv(index=False), "no rows"),
        (lambda s: changed(s, value="x"), "value has entries that are no numbers"),
        (lambda s: changed(s, low=np.inf), "low has infinite entries"),
        (lambda s: changed(s, seed=np.nan), "seed has entries that are no numbers"),
        (lambda s: changed(s, metric="<b>R2</b>"), "unknown metric '<b>R2</b>'"),
        (lambda s: "x" * (MAX_BYTES + 1), "at most 8 MB"),
        (lambda s: (s[1] / "s.parquet").read_bytes()[:-300], "no readable Parquet"),
    ],
)
def test_a_bad_file_is_refused_with_words(swept, make, words):
    with pytest.raises(ValueError, match=words):
        parse(make(swept))


def test_more_rows_than_allowed_are_not_unfolded(swept, monkeypatch):
    monkeypatch.setattr("core.sweep_table.MAX_ROWS", 10)
    for name in ("s.parquet", "s.csv"):
        with pytest.raises(ValueError, match="at most 10"):
            parse((swept[1] / name).read_bytes())


def test_gaps_stay_gaps():
    table = pd.DataFrame(
        {"predictor": "tree", "seed": 0, "n_examples": [1, 2, 3], "metric": "MSE",
         "value": [1.0, None, 3.0], "low": [0.5, None, 2.0], "high": [1.5, None, 4.0]}
    )  # fmt: skip
    buffer = io.BytesIO()
    table.to_parquet(buffer)
    (curve,) = parse(buffer.getvalue()).curves("MSE", "n_examples")
    assert curve.name == "tree"
    np.testing.assert_array_equal(curve.values, [1.0, np.nan, 3.0])
