"""The sweep's command line on a tiny checkpoint: what it writes, after a kill, and on Dask."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch

from core.predictors import LeastSquares
from core.prompts import PromptLaw, sample_prompts
from core.sweep import read_sweep
from models import sweep, zoo

ROOT = Path(sweep.__file__).resolve().parents[1]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@pytest.fixture
def checkpoints(tiny_folder):
    zoo.write_manifest(tiny_folder.parent)
    return tiny_folder.parent


def arguments(checkpoints, out, *more):
    line = ["--checkpoint", "tiny", "--checkpoints", str(checkpoints), "--out", str(out)]
    return [*line, "--prompts", "16", *more]


GRID = ("--w2", "0,0.3", "--accuracy", "1,0.5", "--length", "2,5", "--seeds", "0,1")


def r2(preds, targets):
    """Pooled R^2 by its definition."""
    return 1 - float(((targets - preds) ** 2).sum() / ((targets - targets.mean()) ** 2).sum())


def test_table_holds_what_the_definition_gives(checkpoints, tmp_path, capsys):
    out = tmp_path / "sweep.csv"
    sweep.main(arguments(checkpoints, out, *GRID, "--baselines", "least_squares"))
    table = read_sweep(out)
    pooled = table[table["metric"] == "pooled R2"]
    assert len(pooled) == 2 * 2 * 2 * 2 * 2  # w2, accuracy, predictors, lengths, seeds
    assert set(pooled["predictor"]) == {"tiny", "least squares"}
    assert set(pooled["version"]) == {zoo.version("tiny", checkpoints), ""}

    # around the checkpoint's own law: three dimensions, first mean -1, second 1
    law = PromptLaw(n_dims=3, mean1=-1.0, mean2=1.0, w2=0.3, corruption="permuted", accuracy=0.5)
    prompts = sample_prompts(law, 16, 6, torch.Generator().manual_seed(1))
    for predictor in (LeastSquares(), zoo.predictor("tiny", checkpoints)):
        expected = r2(predictor(prompts)[:, 5].double(), prompts.targets[:, 5])
        row = pooled.query(
            "predictor == @predictor.name and w2 == 0.3 and accuracy == 0.5 and seed == 1 "
            "and n_examples == 5"
        )
        assert float(row["value"].iloc[0]) == pytest.approx(expected, abs=1e-6)
    printed = capsys.readouterr()
    assert "16/16 points (0 resumed)" in printed.err
    assert "mean over 2 seeds" in printed.out


def test_a_grid_grows_and_is_not_done_twice(checkpoints, tmp_path, capsys, monkeypatch):
    out = tmp_path / "sweep.parquet"
    sweep.main(arguments(checkpoints, out, "--length", "2"))
    first = read_sweep(out)
    sweep.main(arguments(checkpoints, out, "--length", "2", "--w2", "0,0.5"))
    assert "2/2 points (1 resumed)" in capsys.readouterr().err
    both = read_sweep(out)
    pd.testing.assert_frame_equal(
        both[both["w2"] == 0].reset_index(drop=True), first.reset_index(drop=True)
    )
    assert len(both) == 2 * len(first)


def test_a_real_kill_and_a_resume_give_the_same_table(tmp_path, capsys):
    line = ["--baselines", "averaging,ridge", "--n_dims", "3", "--prompts", "16", "--length", "3,9"]
    line += ["--w2", "0,0.1,0.2,0.3,0.4,0.5", "--seeds", "0,1,2,3,4", "--out"]
    through, killed = tmp_path / "through.parquet", tmp_path / "killed.parquet"
    sweep.main([*line, str(through)])
    command = [sys.executable, "-m", "models.sweep", *line, str(killed)]
    process = subprocess.Popen(command, env=ENVIRONMENT, cwd=ROOT, stderr=subprocess.DEVNULL)
    journal = killed.with_name(killed.name + ".journal")
    while process.poll() is None:
        if journal.exists() and journal.read_text().count("\n") > 2:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    assert process.wait() == -signal.SIGKILL
    assert not killed.exists()
    capsys.readouterr()
    sweep.main([*line, str(killed)])
    assert "(0 resumed)" not in capsys.readouterr().err
    pd.testing.assert_frame_equal(read_sweep(killed), read_sweep(through))


def test_a_dask_cluster_of_two_workers_gives_the_same_table(checkpoints, tmp_path, monkeypatch):
    from distributed import LocalCluster

    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONPATH"):
        monkeypatch.setenv(name, ENVIRONMENT[name])
    here, there = tmp_path / "here.csv", tmp_path / "there.csv"
    sweep.main(arguments(checkpoints, here, *GRID))
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        sweep.main(arguments(checkpoints, there, *GRID, "--scheduler", address))
    assert here.read_text() == there.read_text()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--checkpoint", "other"), "no checkpoint 'other'; there are: tiny"),
        (("--baselines", "magic"), "--baselines: expected some of least squares"),
        (("--length", "99"), "tiny answers after at most 15 examples, got 99"),
        (("--w2", "2"), "w2: expected a number from 0 to 1, got 2.0"),
        (("--task", "poetry"), "task: expected one of"),
        (("--out", "table.pickle"), "expected a name ending in .parquet or .csv"),
        (("--scheduler", "tcp://127.0.0.1:1"), "scheduler"),
    ],
)
def test_bad_command_lines_say_what_is_wrong(checkpoints, tmp_path, more, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "--scheduler" in more:
        from distributed import Client

        def refuse(*args, **kwargs):
            raise OSError("nobody answers")  # at once, instead of after ten seconds

        monkeypatch.setattr(Client, "__init__", refuse)
        monkeypatch.setattr(Client, "__del__", lambda self: None)
    with pytest.raises(SystemExit, match=message):
        sweep.main(arguments(checkpoints, tmp_path / "s.csv", "--length", "5", *more))


def test_nothing_to_evaluate_and_unlike_checkpoints(checkpoints, tmp_path, tiny_model):
    from dataclasses import replace

    from models.folder import write_folder

    with pytest.raises(SystemExit, match="give --checkpoint or --baselines"):
        sweep.main(["--out", str(tmp_path / "s.csv")])
    other = replace(tiny_model.config, law=replace(tiny_model.config.law, mean=0.0))
    write_folder(checkpoints / "other", other, tiny_model.state_dict(), {})
    zoo.register("other", checkpoints)
    both = arguments(checkpoints, tmp_path / "s.csv", "--checkpoint", "tiny,other")
    with pytest.raises(SystemExit, match="tiny and other differ in mean1; give --mean1"):
        sweep.main(both)
    sweep.main([*both, "--mean1", "-1", "--length", "2"])
    assert set(read_sweep(tmp_path / "s.csv")["predictor"]) == {"tiny", "other"}


def test_baselines_alone(tmp_path):
    out = tmp_path / "s.csv"
    line = ["--baselines", "ridge,averaging", "--n_dims", "4", "--out", str(out), "--length", "6"]
    sweep.main([*line, "--prompts", "8", "--similarity", "none,0.5", "--covariates", "isotropic"])
    table = read_sweep(out)
    assert set(table["n_dims"]) == {4}
    assert table["similarity"].isna().sum() == len(table) / 2
