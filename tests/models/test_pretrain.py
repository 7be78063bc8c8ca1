"""Training: the same bits after a kill, the same weights from two processes, and it learns."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from models import pretrain, zoo
from models.config import RegressorConfig, TrainingLaw
from models.folder import read_folder
from models.pretrain import DivergedError, Trainer, fitted_recipe, pooled_r2, train
from models.recipes import Recipe

ROOT = Path(pretrain.__file__).resolve().parents[1]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def tiny_recipe(positions="offset", **changes) -> Recipe:
    law = TrainingLaw(mean=-1.0, n_examples=6, positions=positions)
    model = RegressorConfig(
        n_dims=2, n_positions=20, n_embd=16, n_layer=2, n_head=2, target_scale=2.0, law=law
    )
    return replace(Recipe(model, steps=12, batch=8, warmup=3, curriculum=5), **changes)


def weights(trainer):
    return {k: v.clone() for k, v in trainer.model.state_dict().items()}


def same(first, second):
    return first.keys() == second.keys() and all(
        torch.equal(v, second[k]) for k, v in first.items()
    )


def quietly(recipe, path, **kwargs):
    return train("tiny", recipe, path / "runs", path / "checkpoints", report=None, **kwargs)


# --- The same bits -------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"optimizer": "adamw"}])
def test_stopping_anywhere_and_resuming_gives_the_same_bits(tmp_path, changes):
    recipe = tiny_recipe(**changes)
    through = quietly(recipe, tmp_path / "through")
    for stop_at in (1, 7):
        path, seen = tmp_path / str(stop_at), []

        def stop(seen=seen, stop_at=stop_at):
            seen.append(1)
            return len(seen) > stop_at

        stopped = quietly(recipe, path, stop=stop)
        assert stopped.step == stop_at
        assert not (path / "checkpoints").exists()
        resumed = quietly(recipe, path)
        assert resumed.step == recipe.steps
        assert same(weights(resumed), weights(through))
        ours = (path / "checkpoints" / "tiny" / "model.safetensors").read_bytes()
        theirs = tmp_path / "through" / "checkpoints" / "tiny" / "model.safetensors"
        assert ours == theirs.read_bytes()


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_pretrain import tiny_recipe
from models.pretrain import train
import torch
torch.set_num_threads(1)
train("tiny", tiny_recipe(steps={steps}), Path(sys.argv[1]) / "runs",
      Path(sys.argv[1]) / "checkpoints", eval_every=2, save_every=3,
      report=lambda line: print(line, flush=True))
"""


def script(steps):
    return textwrap.dedent(SCRIPT).format(tests=str(Path(__file__).parent), steps=steps)


def test_a_real_kill_and_a_resume_give_the_same_bits(tmp_path):
    """SIGKILL in the middle of steps; some of them after the last saved state are done again."""
    steps = 60
    through = quietly(tiny_recipe(steps=steps), tmp_path / "through", eval_every=2)
    command = [sys.executable, "-c", script(steps), str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=ROOT
    )
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line.split("}")[0] + "}")["step"] >= 20:
            process.kill()
            break
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    saved = pretrain.state_meta(tmp_path / "runs" / "tiny")["step"]
    assert 18 <= saved < steps
    assert not (tmp_path / "checkpoints" / "tiny").exists()
    resumed = quietly(tiny_recipe(steps=steps), tmp_path, eval_every=2)
    assert same(weights(resumed), weights(through))
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in resumed.log]
    expected = [{k: v for k, v in row.items() if k != "seconds"} for row in through.log]
    assert rows == expected


def test_a_torn_save_leaves_the_old_state(tmp_path, monkeypatch):
    trainer = quietly(tiny_recipe(steps=4), tmp_path)
    folder = tmp_path / "runs" / "tiny"
    before = (folder / pretrain.STATE).read_bytes()

    def torn(tensors, path, metadata):
        Path(path).write_bytes(before[:100])
        raise OSError("disk full")

    monkeypatch.setattr(pretrain, "save_file", torn)
    with pytest.raises(OSError, match="disk full"):
        trainer.save(folder)
    assert (folder / pretrain.STATE).read_bytes() == before


def test_a_state_of_another_recipe_is_refused(tmp_path):
    quietly(tiny_recipe(steps=4), tmp_path)
    with pytest.raises(ValueError, match="begun with another recipe"):
        quietly(tiny_recipe(steps=4, seed=1), tmp_path)


def test_seeds_differ_and_repeat():
    def two_steps(seed):
        trainer = Trainer(tiny_recipe(seed=seed))
        losses = [trainer.train_step(), trainer.train_step()]
        return losses, weights(trainer)

    first, again, other = two_steps(0), two_steps(0), two_steps(1)
    assert first[0] == again[0]
    assert same(first[1], again[1])
    assert first[0] != other[0]


# --- Several processes ---------------------------------------------------------------------------


def six_exact_steps(rank=0, world=1) -> Trainer:
    """In float64 from the float32 start."""
    trainer = Trainer(tiny_recipe())
    trainer.model.double()
    trainer.muon.buffers = {k: v.double() for k, v in trainer.muon.buffers.items()}
    for _ in range(6):
        trainer.train_step(rank, world)
    return trainer


RANKS = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import torch
torch.set_num_threads(1)
from test_pretrain import six_exact_steps, tiny_recipe
from models.pretrain import train
out = Path(sys.argv[1])
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
six_exact_steps(rank, 2).save(out / f"exact-{{rank}}")
train("tiny", tiny_recipe(), out / "runs", out / "checkpoints", minutes=10, report=None)
torch.distributed.destroy_process_group()
"""


def test_two_processes_give_the_weights_of_one(tmp_path):
    """The mean of two half batches differs from the whole by rounding: compared in float64.

    (Muon turns directions of tiny gradient into full steps, which blows float32 rounding up.)
    A whole training under torchrun then ends and exports once.
    """
    (tmp_path / "ranks.py").write_text(RANKS.format(tests=str(Path(__file__).parent)))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command += [str(tmp_path / "ranks.py"), str(tmp_path / "two")]
    subprocess.run(command, check=True, env=ENVIRONMENT, cwd=ROOT, capture_output=True, timeout=240)
    one = weights(six_exact_steps())
    for rank in range(2):
        two = load_file(tmp_path / "two" / f"exact-{rank}" / pretrain.STATE)
        for name, value in one.items():
            assert torch.allclose(two[f"model.{name}"], value, atol=1e-9), name
    start = weights(Trainer(tiny_recipe()))
    assert not torch.allclose(one["read_in.weight"].float(), start["read_in.weight"], atol=1e-4)
    assert pretrain.state_meta(tmp_path / "two" / "runs" / "tiny")["step"] == 12
    zoo.load("tiny", tmp_path / "two" / "checkpoints")


def test_rows_that_do_not_divide_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match=r"batch \(8\) must be a multiple .* \(3\)"):
        quietly(tiny_recipe(), tmp_path)


# --- Time ----------------------------------------------------------------------------------------


def test_minutes_stop_export_and_go_on(tmp_path):
    first = quietly(tiny_recipe(), tmp_path, minutes=0)
    assert first.step == 0
    read_folder(tmp_path / "checkpoints" / "tiny")
    assert quietly(tiny_recipe(), tmp_path).step == 12


def test_a_schedule_fitted_to_the_time_is_kept_by_a_resume(tmp_path, monkeypatch):
    """The machine's pace decides once; afterwards the state does, whatever the pace."""
    monkeypatch.setattr(pretrain, "seconds_per_step", lambda *args: 0.5)
    recipe = tiny_recipe(steps=100, curriculum=50)
    fitted = fitted_recipe(recipe, 0.2, "cpu", "", tmp_path / "runs", "tiny")
    assert (fitted.steps, fitted.curriculum) == (24, 12)
    quietly(fitted, tmp_path, minutes=0)
    monkeypatch.setattr(pretrain, "seconds_per_step", lambda *args: 0.01)
    assert fitted_recipe(recipe, 0.2, "cpu", "", tmp_path / "runs", "tiny") == fitted
    with pytest.raises(ValueError, match="another recipe"):
        fitted_recipe(replace(recipe, seed=5), 0.2, "cpu", "", tmp_path / "runs", "tiny")
    with pytest.raises(ValueError, match="minutes hold"):
        fitted_recipe(recipe, 0.001, "cpu", "", tmp_path / "other", "tiny")


def test_measuring_the_pace_leaves_no_trace(tmp_path):
    recipe = tiny_recipe(start_from="nowhere")
    assert 0 < pretrain.seconds_per_step(recipe, "cpu", "", n_steps=2) < 60
    assert list(tmp_path.iterdir()) == []


# --- What it does --------------------------------------------------------------------------------


def test_it_learns(tmp_path):
    """300 tiny steps on y = w x in one dimension: most of the variance after five pairs.

    The untrained model explains nothing, least squares everything.
    """
    model = replace(tiny_recipe("fixed").model, n_dims=1, target_scale=1.0)
    model = replace(model, law=replace(model.law, mean=0.0))
    recipe = Recipe(model, steps=300, batch=64, warmup=20, curriculum=0)
    prompts = pretrain.held_out(recipe, 256)
    rows = []
    trainer = train(
        "tiny", recipe, tmp_path / "r", tmp_path / "c", eval_every=300, report=rows.append
    )
    from models.predictor import TransformerPredictor

    r2 = pooled_r2(TransformerPredictor(trainer.model)(prompts), prompts.targets)
    assert float(r2[5]) > 0.6
    assert len(rows) == 1
    assert "least squares" in rows[0]
    assert rows[0].endswith("0 s left")


def test_card_and_manifest(tmp_path):
    quietly(tiny_recipe(), tmp_path, eval_every=4)
    checkpoints = tmp_path / "checkpoints"
    card = zoo.card("tiny", checkpoints)
    assert card["steps"] == card["of_steps"] == 12
    assert card["law"]["positions"] == "offset"
    assert [row["step"] for row in card["curve"]] == [4, 8, 12]
    assert card["held_out"]["least squares"]["5"] == pytest.approx(1.0, abs=1e-6)
    assert set(card["held_out"]["r2"]) == {"5"}
    assert len(card["code"]) == 12
    assert str(ROOT) not in json.dumps(card)
    model = zoo.load("tiny", checkpoints)
    assert model.config == tiny_recipe().model


def test_starting_from_a_checkpoint_takes_its_weights(tmp_path):
    quietly(tiny_recipe(), tmp_path)
    begun = Trainer(tiny_recipe(start_from="tiny"), checkpoints=tmp_path / "checkpoints")
    trained = zoo.load("tiny", tmp_path / "checkpoints")
    assert same(weights(begun), dict(trained.state_dict()))
    assert begun.model.read_in.weight.requires_grad
    with pytest.raises(ValueError, match="no checkpoint 'other'"):
        Trainer(tiny_recipe(start_from="other"), checkpoints=tmp_path / "checkpoints")


def test_large_models_are_exported_in_shards(tmp_path, monkeypatch):
    monkeypatch.setattr("models.folder.SHARD_BYTES", 8000)
    quietly(tiny_recipe(), tmp_path)
    folder = tmp_path / "checkpoints" / "tiny"
    assert len(list(folder.glob("model-*-of-*.safetensors"))) > 1
    zoo.load("tiny", tmp_path / "checkpoints")


def test_compiled_model_gives_the_same_gradients():
    """Traced and differentiated by torch.compile, run without inductor's reordering of sums."""
    plain, compiled = (
        Trainer(tiny_recipe(curriculum=0), compile_with=name) for name in ("", "aot_eager")
    )
    for _ in range(2):
        assert plain.train_step() == pytest.approx(compiled.train_step(), rel=1e-5)
    for name, value in weights(plain).items():
        assert torch.allclose(weights(compiled)[name], value, atol=1e-4), name


def test_half_precision_reads_and_answers_in_full():
    """As on a GPU, here on the CPU: only what is between read-in and read-out is bfloat16."""
    trainer = Trainer(tiny_recipe())
    prompts = pretrain.held_out(trainer.recipe, 16)
    with torch.no_grad():
        exact, embeds = (
            trainer.model(prompts.xs, prompts.ys),
            trainer.model.embed(prompts.xs, prompts.ys),
        )
        with torch.autocast("cpu", torch.bfloat16):
            half, read = (
                trainer.model(prompts.xs, prompts.ys),
                trainer.model.embed(prompts.xs, prompts.ys),
            )
    assert torch.equal(read, embeds)
    assert half.dtype == torch.float32
    assert not torch.equal(half, half.bfloat16().float())
    assert not torch.equal(half, exact)
    assert torch.allclose(half, exact, atol=0.02 * float(exact.abs().max()))


def test_progress_tells_the_time_left(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    progress = pretrain.Progress("linear-d5", steps=1000, step=0, live=True)
    progress.update(400, loss=0.1234, spent=0.5)
    line = capsys.readouterr().out
    assert line.startswith("\r")
    assert "linear-d5 400/1000  40% loss 0.1234 0.50 s a step, 5 min left" in line
    progress.update(990, loss=0.1, spent=0.5)
    assert progress.left() == "5 s"


def test_divergence_is_said_and_the_state_kept(tmp_path):
    trainer = Trainer(tiny_recipe())
    with torch.no_grad():
        trainer.model.read_out.bias.fill_(math.nan)
    with pytest.raises(DivergedError, match=r"the loss is nan at step 0; lower muon_lr"):
        trainer.train_step()
    assert trainer.step == 0


def test_read_in_starts_centred():
    model = Trainer(tiny_recipe()).model
    mean = torch.full((1, 1, 2), -1.0)
    assert model.read_in(mean).abs().max() < 1e-6


def test_command_line(tmp_path, capsys):
    """A real recipe, three steps of it, then again: nothing is left to do."""
    line = ["linear-d5", "--steps", "3", "--batch", "4", "--eval-every", "2", "--device", "cpu"]
    line += ["--runs", str(tmp_path / "runs"), "--checkpoints", str(tmp_path / "checkpoints")]
    handler = signal.getsignal(signal.SIGTERM)
    pretrain.main(line)
    rows = capsys.readouterr().out.splitlines()
    assert [json.loads(row.split("}")[0] + "}")["step"] for row in rows] == [2, 3]
    assert "least squares 1.000 1.000;" in rows[0]
    assert zoo.names(tmp_path / "checkpoints") == ("linear-d5",)
    pretrain.main(line)
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit, match=r"models\.pretrain: .*another recipe.*--fresh"):
        pretrain.main([*line, "--seed", "1"])
    pretrain.main([*line, "--seed", "1", "--fresh", "--optimizer", "adamw"])
    assert signal.getsignal(signal.SIGTERM) is handler
    with pytest.raises(SystemExit):
        pretrain.main([*line, "--fit-schedule"])


def test_a_polite_kill_saves_between_two_steps(tmp_path, monkeypatch, capsys):
    line = ["linear-d5", "--steps", "50", "--batch", "2", "--device", "cpu"]
    line += ["--runs", str(tmp_path / "runs"), "--checkpoints", str(tmp_path / "checkpoints")]
    step = Trainer.train_step

    def step_and_kill(self, *ranks):
        if self.step == 2:
            signal.raise_signal(signal.SIGTERM)  # in the middle of the third step
        return step(self, *ranks)

    monkeypatch.setattr(Trainer, "train_step", step_and_kill)
    pretrain.main(line)
    assert "stopped at step 3" in capsys.readouterr().out
    assert pretrain.state_meta(tmp_path / "runs" / "linear-d5")["step"] == 3
    assert not (tmp_path / "checkpoints").exists()
