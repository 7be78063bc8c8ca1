"""Sweeps: tidy rows, the same on any number of workers, resumed after a kill, on a Dask cluster."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from core import sweep
from core.curves import METRICS, curve
from core.predictors import LeastSquares
from core.prompts import PromptLaw, sample_prompts
from core.sweep import (
    SweepFailed,
    SweepPoint,
    evaluate_point,
    grid,
    point_key,
    read_sweep,
    run_sweep,
)

LAW = PromptLaw(n_dims=3)
POINTS = grid(
    ["least squares", "averaging"],
    {"w2": [0.0, 0.3], "accuracy": [1.0, 0.8]},
    law=replace(LAW, corruption="permuted"),
    seeds=(0, 1),
    lengths=(2, 5),
    n_prompts=8,
    n_resamples=20,
)


def cheap(point: SweepPoint) -> list[dict]:
    """A stand-in that is quick and lets a test see what ran; refuses accuracy 0.8 if told to."""
    if os.environ.get("SWEEP_TEST_LOG"):
        with Path(os.environ["SWEEP_TEST_LOG"]).open("a") as log:
            log.write(point_key(point) + "\n")
    if os.environ.get("SWEEP_TEST_FAIL") and point.law.accuracy == 0.8:
        raise RuntimeError("no such weights")
    return [
        {"n_examples": n, "metric": "MSE", "value": np.sin(point.seed + n + point.law.w2).item()}
        for n in point.lengths
    ]


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """The keys evaluated so far, by any process."""
    log = tmp_path / "log"
    monkeypatch.setenv("SWEEP_TEST_LOG", str(log))
    return lambda: log.read_text().split() if log.exists() else []


def same(a: pd.DataFrame, b: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(a, b, check_exact=True)


# --- Points and rows -----------------------------------------------------------------------------


def test_a_grid_is_every_combination():
    assert len(POINTS) == 16
    assert len({point_key(point) for point in POINTS}) == 16
    assert {(p.predictor, p.law.w2, p.law.accuracy, p.seed) for p in POINTS} == {
        (name, w2, accuracy, seed)
        for name in ("least squares", "averaging")
        for w2 in (0.0, 0.3)
        for accuracy in (1.0, 0.8)
        for seed in (0, 1)
    }
    assert all(p.law.n_dims == 3 and p.lengths == (2, 5) for p in POINTS)
    versioned = grid(["a", "b"], versions={"a": "5f3"})
    assert [p.version for p in versioned] == ["5f3", ""]


def test_a_key_is_the_settings_and_survives_a_new_process():
    point = POINTS[3]
    assert point_key(point) == point_key(replace(point))
    assert point_key(point) != point_key(replace(point, seed=7))
    assert point_key(point) != point_key(replace(point, version="other weights"))


def test_rows_are_what_the_curves_say():
    law = replace(LAW, corruption="permuted", accuracy=0.8)
    rows = evaluate_point(SweepPoint(law, "least squares", (2, 5), n_prompts=50, seed=3))
    assert len(rows) == 2 * len(METRICS)
    prompts = sample_prompts(law, 50, 6, torch.Generator().manual_seed(3))
    for metric in METRICS:
        expected = curve(
            "x",
            LeastSquares()(prompts),
            prompts,
            metric,
            generator=torch.Generator().manual_seed(3),
        )
        for n in (2, 5):
            (row,) = [r for r in rows if r["metric"] == metric and r["n_examples"] == n]
            assert (row["value"], row["low"], row["high"]) == expected.at(n)


def test_exact_draws_prompts_of_each_length():
    seen = []

    class Spy(LeastSquares):
        def __call__(self, prompts):
            seen.append(prompts)
            return super().__call__(prompts)

    law = replace(LAW, corruption="permuted", accuracy=0.6)
    point = SweepPoint(law, "spy", (5, 10), n_prompts=20, exact=True, n_resamples=20)
    rows = evaluate_point(point, lambda name, law: Spy())
    assert [prompts.n_points for prompts in seen] == [6, 11]
    assert [int(p.corrupted.sum(1).unique()) for p in seen] == [2, 4]
    assert {row["n_examples"] for row in rows} == {5, 10}


# --- Running -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_the_table_is_the_same_for_any_number_of_workers(tmp_path, suffix):
    one = run_sweep(POINTS, out=tmp_path / f"one{suffix}")
    two = run_sweep(POINTS, out=tmp_path / f"two{suffix}", n_jobs=2)
    same(one, two)
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()
    same(one, read_sweep(tmp_path / f"one{suffix}"))
    assert len(one) == 16 * 2 * len(METRICS)
    assert {"predictor", "w2", "accuracy", "seed", "n_examples", "metric", "value", "low"} <= set(
        one.columns
    )
    assert not list(tmp_path.glob("*.journal"))


def test_a_second_run_computes_nothing_and_a_larger_grid_only_what_is_new(tmp_path, ran):
    out = tmp_path / "sweep.csv"
    first = run_sweep(POINTS, cheap, out)
    assert len(ran()) == 16
    same(first, run_sweep(POINTS, cheap, out))
    assert len(ran()) == 16
    more = [replace(point, seed=9) for point in POINTS[::2]]
    grown = run_sweep([*POINTS, *more], cheap, out)
    assert len(ran()) == 24
    same(grown.iloc[: len(first)], first)
    part = run_sweep(POINTS[:3], cheap, out)
    same(part, first.iloc[: len(part)])
    assert len(read_sweep(out)) == len(grown), "rows of other points are kept"


def test_a_killed_sweep_goes_on_where_it_was(tmp_path, ran):
    """SIGKILL in the middle, then a torn last line as a power cut would leave it."""
    out, whole = tmp_path / "killed.parquet", tmp_path / "whole.parquet"
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from tests.core.test_sweep import POINTS, cheap\n"
        "from core.sweep import run_sweep\n"
        "def slow(point):\n    time.sleep(0.05); return cheap(point)\n"
        "print('ready', flush=True)\n"
        "run_sweep(POINTS, slow, sys.argv[2])\n"
    )
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(root), str(out)], stdout=subprocess.PIPE, cwd=root
    )
    journal = out.with_name(out.name + ".journal")
    deadline = time.monotonic() + 250
    while not journal.exists() or journal.read_text().count("\n") < 4:
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    lines = journal.read_text().splitlines()
    assert 4 <= len(lines) < 16
    assert len(read_sweep(out)) == 2 * len(lines), "a running sweep can be read"
    journal.write_text("\n".join(lines)[:-20])
    already = len(ran())
    table = run_sweep(POINTS, cheap, out)
    assert len(ran()) - already == 16 - (len(lines) - 1)
    same(table, run_sweep(POINTS, cheap, whole))
    assert out.read_bytes() == whole.read_bytes()


def test_a_dask_cluster_of_two_workers_gives_the_same_table(tmp_path):
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        table = run_sweep(POINTS, out=tmp_path / "dask.csv", scheduler=cluster.scheduler_address)
        again = run_sweep(POINTS, out=tmp_path / "dask.csv", scheduler=cluster.scheduler_address)
    same(table, again)
    same(table, run_sweep(POINTS, out=tmp_path / "here.csv"))


def test_progress_counts_up_to_the_end(tmp_path):
    seen = []
    run_sweep(POINTS[:4], cheap, tmp_path / "a.csv", progress=seen.append)
    assert [p.done for p in seen] == [0, 1, 2, 3, 4]
    assert {p.total for p in seen} == {4}
    assert seen[0].seconds_left is None
    assert seen[-1].seconds_left == 0
    assert all(p.seconds_left > 0 for p in seen[1:-1])
    seen.clear()
    run_sweep(POINTS[:6], cheap, tmp_path / "a.csv", progress=seen.append)
    assert [(p.done, p.resumed) for p in seen] == [(4, 4), (5, 4), (6, 4)]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_cancelled_sweep_keeps_what_is_done(tmp_path, n_jobs, ran):
    cancel = threading.Event()

    def progress(state):
        if state.done == 3:
            cancel.set()

    out = tmp_path / "c.csv"
    table = run_sweep(POINTS, cheap, out, n_jobs=n_jobs, progress=progress, cancel=cancel)
    assert table["key"].nunique() == 3
    same(table, read_sweep(out))
    full = run_sweep(POINTS, cheap, out)
    assert full["key"].nunique() == 16
    nothing = run_sweep(POINTS, cheap, tmp_path / "d.csv", cancel=cancel)
    assert nothing.empty
    assert not (tmp_path / "d.csv").exists()
    assert not list(tmp_path.glob("*.journal"))


def test_ctrl_c_saves_what_is_done(tmp_path):
    calls = []

    def interrupted(point):
        calls.append(point)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return cheap(point)

    with pytest.raises(KeyboardInterrupt):
        run_sweep(POINTS, interrupted, tmp_path / "c.csv")
    assert read_sweep(tmp_path / "c.csv")["key"].nunique() == 3


def test_points_that_fail_are_named_and_the_others_saved(tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEP_TEST_FAIL", "1")
    out = tmp_path / "f.csv"
    with pytest.raises(SweepFailed, match=r"8 points failed, all others are in f\.csv") as failed:
        run_sweep(POINTS, cheap, out)
    assert len(failed.value.failures) == 8
    assert "least squares, seed 0: RuntimeError: no such weights" in str(failed.value)
    assert read_sweep(out)["key"].nunique() == 8
    monkeypatch.delenv("SWEEP_TEST_FAIL")
    assert run_sweep(POINTS, cheap, out)["key"].nunique() == 16


def test_two_sweeps_into_one_file_are_refused(tmp_path):
    out = tmp_path / "x.csv"

    def nested(point):
        with pytest.raises(ValueError, match=r"another sweep is writing x\.csv"):
            run_sweep(POINTS, cheap, out)
        return cheap(point)

    run_sweep(POINTS[:1], nested, out)


def test_threads_are_put_back(tmp_path):
    before = torch.get_num_threads()
    inside = []

    def look(point):
        inside.append(torch.get_num_threads())
        return cheap(point)

    run_sweep(POINTS[:2], look, tmp_path / "t.csv")
    assert inside == [1, 1]
    assert torch.get_num_threads() == before


def test_empty_text_and_missing_numbers_survive_both_formats(tmp_path):
    law = replace(LAW, similarity=0.5)
    points = [SweepPoint(LAW, "a"), SweepPoint(law, "none", version="NaN")]

    def odd(point):
        return [{"n_examples": 1, "metric": "MSE", "value": float("nan")}]

    for suffix in (".csv", ".parquet"):
        table = run_sweep(points, odd, tmp_path / f"o{suffix}")
        back = read_sweep(tmp_path / f"o{suffix}")
        same(table, back)
        assert back["predictor"].tolist() == ["a", "none"]
        assert back["version"].tolist() == ["", "NaN"]
        assert back["corruption"].tolist() == ["none", "none"]
        assert np.isnan(back["similarity"][0])
        assert back["similarity"][1] == 0.5
        assert back["value"].isna().all()


# --- Refusals ------------------------------------------------------------------------------------


def test_bad_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ending in \.parquet or \.csv, got 'a\.txt'"):
        run_sweep(POINTS, out=tmp_path / "a.txt")
    with pytest.raises(ValueError, match=r"n_jobs: expected a number of processes or -1"):
        run_sweep(POINTS, out=tmp_path / "a.csv", n_jobs=0)
    with pytest.raises(ValueError, match=r"no sweep at a\.csv"):
        read_sweep(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("x,y\n1,2\n")
    with pytest.raises(ValueError, match=r"b\.csv was not written by a sweep"):
        run_sweep(POINTS, out=tmp_path / "b.csv")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(ValueError, match=r"c\.parquet is no readable parquet table"):
        read_sweep(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"axes: 'shift' is no setting of PromptLaw"):
        grid(["ridge"], {"shift": [1.0]})
    with pytest.raises(ValueError, match=r"axes: w2 needs a list of values, got \[\]"):
        grid(["ridge"], {"w2": []})
    with pytest.raises(ValueError, match=r"w2: expected a number from 0 to 1, got 2.0"):
        grid(["ridge"], {"w2": [2.0]})
    with pytest.raises(ValueError, match=r"lengths: expected whole numbers"):
        SweepPoint(LAW, "ridge", ())
    with pytest.raises(ValueError, match=r"n_prompts: expected a whole number >= 2"):
        SweepPoint(LAW, "ridge", n_prompts=1)
    with pytest.raises(SweepFailed, match=r"expected one of least squares, .*; got 'gpt'"):
        run_sweep([SweepPoint(LAW, "gpt")], out=tmp_path / "d.csv")


def test_a_scheduler_that_does_not_answer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "_DASK_PATIENCE", "0.2s")
    with pytest.raises(ValueError, match=r"expected the address of a running Dask scheduler"):
        run_sweep(POINTS, cheap, tmp_path / "x.csv", scheduler="tcp://127.0.0.1:9")
    with pytest.raises(ValueError, match=r"expected the address of a running Dask scheduler"):
        run_sweep(POINTS, cheap, tmp_path / "x.csv", scheduler="nonsense://")


def test_the_journal_is_plain_json(tmp_path):
    cancel = threading.Event()
    lines = []

    def look(state):
        journal = tmp_path / "j.csv.journal"
        if state.done == 2:
            lines.extend(journal.read_text().splitlines())
            cancel.set()

    run_sweep(POINTS, cheap, tmp_path / "j.csv", progress=look, cancel=cancel)
    assert [json.loads(line)[0]["key"] for line in lines] == [point_key(p) for p in POINTS[:2]]
