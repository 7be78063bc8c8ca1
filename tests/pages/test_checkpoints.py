"""The checkpoints page: what it says of a file and measures, what it takes and what it refuses."""

import contextlib
import hashlib
import io
import json
import pickle
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from streamlit.testing.v1 import AppTest

from core.curves import score
from core.prompts import sample_prompts
from models import folder, zoo
from models.config import TrainingLaw
from models.gpt2_regressor import GPT2Regressor
from models.law import training_prompt_law
from pages import checkpoints
from pages.ui import cache, learners
from pages.ui.words import unmarked
from tests.pages.stand_ins import tiny
from tests.pages.test_regression import trace


def page():
    __import__("pages.checkpoints", fromlist=["render"]).render()


def regression_page():
    __import__("pages.regression", fromlist=["render"]).render()


def opened(**values):
    at = AppTest.from_function(page, default_timeout=120)
    for key, value in ({"name": "linear-d20", "prompts": 16} | values).items():
        at.query_params[f"checkpoints-{key}"] = str(value)
    at.run()
    assert not at.exception
    return at


def html(at):
    return "".join(h.proto.body for h in at.get("html"))


def look(at):
    return next(m.value for m in at.markdown if "lab-look" in m.value)


def test_facts_of_the_file(stand_ins, figures):
    at = opened()
    shown = html(at)
    for name in ("config.json", "model.safetensors"):
        data = (stand_ins / "linear-d20" / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() in shown
    assert "2 layers of width 8, 2 heads each" in shown
    assert "80 tokens, so at most 39 examples" in shown
    assert "&lt;b&gt;test&lt;/b&gt;" in shown, "a card is a stranger's text"
    assert "<b>test</b>" not in shown
    curve = figures["training"]
    assert list(trace(curve, "R² after 10 examples").y) == [0.1, 0.2]
    assert list(trace(curve, "loss (right)").x) == [1, 3]


def test_measured_now_is_the_engines(stand_ins, figures):
    at = opened(seed=4)
    learner = zoo.predictor("linear-d20", stand_ins)
    law = training_prompt_law(learner.model.config)
    prompts = sample_prompts(law, 16, 20, torch.Generator().manual_seed(4))
    r2 = score(learner(prompts), prompts, "pooled R2").numpy()
    np.testing.assert_allclose(trace(figures["now"], "GPT-2 linear-d20").y, r2[1:], atol=1e-4)
    assert f"**{r2[10]:.4f}**" in look(at)
    assert "card says 0.5000" in look(at)


def test_every_control_is_answered(stand_ins, figures):
    at = opened()
    before = figures["now"].to_json()
    at.number_input(key="checkpoints-prompts").set_value(32).run()
    more = figures["now"].to_json()
    at.number_input(key="checkpoints-seed").set_value(7).run()
    other = figures["now"].to_json()
    at.selectbox(key="checkpoints-name").set_value("linear-d5").run()
    assert len({before, more, other, figures["now"].to_json()}) == 4
    assert not at.exception


def test_laws_in_words():
    words = learners.law_in_words(tiny(TrainingLaw(mixed_prompts=0.7, mean_spread=0.25)).config)
    assert words.startswith(
        "x ~ N(−2, I) or N(2, I), mixed at a random share in 70% of the prompts"
    )
    assert "shifted by N(0, 0.5²)" in words
    offset = tiny(TrainingLaw(n_examples=20, positions="offset")).config
    assert learners.law_in_words(offset).endswith("20 points a prompt, begun at random positions")


# --- Uploads --------------------------------------------------------------------------------------


@pytest.fixture
def good(stand_ins):
    folder = stand_ins / "linear-d20-wide"
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def give(at, files):
    (uploader,) = at.file_uploader
    kind = "application/octet-stream"
    uploader.set_value([(name, data, kind) for name, data in files.items()]).run()
    assert not at.exception
    return at


def weights(change):
    """The files with their tensors changed."""

    def make(files):
        tensors = change(load(files["model.safetensors"]))
        return files | {"model.safetensors": save(tensors)}

    return make


def not_a_number(tensors):
    tensors["read_in.bias"][0] = float("nan")
    return tensors


REFUSED = {
    "truncated": (
        lambda f: f | {"model.safetensors": f["model.safetensors"][:-40]}, "is truncated"),
    "renamed": (
        weights(lambda t: {k.replace("read_in", "input"): v for k, v in t.items()}),
        "does not hold the tensors of this config.json"),
    "pickled": (
        lambda f: {"config.json": f["config.json"], "model.pt": pickle.dumps([1])}, "is a pickle"),
    "pickle in disguise": (
        lambda f: f | {"model.safetensors": pickle.dumps([1])}, "is a pickle"),
    "NaN": (weights(not_a_number), "finite"),
    "other shape": (
        lambda f: f | {"config.json": f["config.json"].replace(b'"n_embd": 8', b'"n_embd": 16')},
        "must have shape"),
    "no config": (
        lambda f: {k: v for k, v in f.items() if k != "config.json"}, "config.json is missing"),
    "hostile sizes": (
        lambda f: f | {"config.json": json.dumps(
            json.loads(f["config.json"]) | {"n_embd": 2048, "n_layer": 48}).encode()},
        "describes"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_upload_is_refused_on_the_page(good, what):
    change, words = REFUSED[what]
    at = give(opened(), change(good))
    (error,) = at.error
    assert words in error.value
    assert at.selectbox(key="checkpoints-name").options == [
        "linear-d20", "linear-d20-offset", "linear-d20-wide", "linear-d5",
    ]  # fmt: skip


def test_a_good_upload_is_shown_and_can_be_asked(good, figures):
    at = give(opened(), good)
    assert not at.error
    assert at.success[0].value.startswith("Accepted")
    assert at.selectbox(key="checkpoints-name").value == "uploaded"
    assert trace(figures["now"], "GPT-2 uploaded")
    at.run()  # and again without another check, the widget empty
    assert not at.file_uploader[0].value
    assert at.success
    assert at.selectbox(key="checkpoints-name").value == "uploaded"
    # The regression page of the same session offers it.
    ask = AppTest.from_function(regression_page, default_timeout=120)
    ask.session_state["checkpoints~uploaded"] = at.session_state["checkpoints~uploaded"]
    for key, value in {"checkpoint": "uploaded", "prompts": "8", "length": "12", "n": "5"}.items():
        ask.query_params[f"regression-{key}"] = value
    ask.run()
    assert not ask.exception
    assert not ask.warning
    y = trace(figures["curves"], "GPT-2 uploaded").y
    model = at.session_state["checkpoints~uploaded"].model
    law = training_prompt_law(model.config)
    from core.prompts import PromptLaw

    assert law.random_share == 0.7
    prompts = sample_prompts(PromptLaw(), 8, 13, torch.Generator().manual_seed(0))
    preds = model(prompts.xs.float(), prompts.ys.float())
    np.testing.assert_allclose(y, score(preds, prompts, "pooled R2").numpy()[1:], atol=1e-3)


def test_a_refused_upload_leaves_the_earlier_one(good):
    at = give(opened(), good)
    give(at, {"config.json": b"{"})
    assert at.error
    assert at.selectbox(key="checkpoints-name").value == "uploaded"


def test_an_upload_is_nobody_elses(good):
    give(opened(), good)
    assert "uploaded" not in opened().selectbox(key="checkpoints-name").options


def own(law=None, card=None, **sizes):
    """Files of a tiny network of somebody's own."""
    law = law or TrainingLaw(n_examples=20)
    config = replace(tiny(law, n_dims=5).config, **sizes)
    torch.manual_seed(0)
    weights = GPT2Regressor(config).state_dict()
    files = {
        "config.json": json.dumps(config.to_json()).encode(),
        "model.safetensors": save(weights),
    }
    return files | ({} if card is None else {"card.json": json.dumps(card).encode()})


@pytest.mark.parametrize(
    ("files", "longest"),
    [
        (own(TrainingLaw(n_examples=5)), 4),
        (own(TrainingLaw(n_examples=1)), 1),
        (own(n_positions=8), 3),
        (own(n_positions=6), 2),
    ],
    ids=["law of 5", "law of 1", "8 positions", "6 positions"],
)
def test_a_network_of_few_examples_is_shown_at_its_longest(stand_ins, figures, files, longest):
    at = give(opened(), files)
    assert not at.error
    assert not at.warning
    assert f"After **{longest}** example" in look(at)
    assert list(trace(figures["now"], "GPT-2 uploaded").x) == list(range(1, longest + 1))
    model = at.session_state["checkpoints~uploaded"].model
    prompts = sample_prompts(
        training_prompt_law(model.config), 16, longest + 1, torch.Generator().manual_seed(0)
    )
    r2 = score(model(prompts.xs.float(), prompts.ys.float()), prompts, "pooled R2")
    assert f"**{float(r2[longest]):.4f}**" in look(at)


@pytest.mark.parametrize(
    ("sizes", "prompts"),
    [({"n_dims": 1024}, 128), ({"n_dims": 1024}, 512), ({"n_dims": 1, "n_head": 8}, 128)],
)
def test_a_small_file_of_a_large_law_does_not_take_the_machine(
    stand_ins, monkeypatch, sizes, prompts
):
    """8192 positions of a layer one number wide are 300 kB; asked in full they were 4.5 GiB."""
    drawn = []
    real = cache.prompts
    monkeypatch.setattr(cache, "prompts", lambda draw: drawn.append(draw) or real(draw))
    law = TrainingLaw(n_examples=10_000)
    small = {"n_embd": 8, "n_head": 1, "n_layer": 1, "n_positions": 8192}
    at = give(opened(prompts=prompts), own(law, **small | sizes))
    assert not at.error
    assert not at.warning
    size = max(d.n_prompts * (d.n_examples + 1) * d.law.n_dims for d in drawn)
    assert size <= 10_000_000
    assert "After **45** examples" in look(at) or sizes["n_dims"] == 1024
    assert max(d.n_examples for d in drawn) <= 100


def test_too_many_numbers_are_refused_by_what_draws_them():
    from core.prompts import PromptLaw

    with pytest.raises(ValueError, match="numbers, at most 10,000,000 are drawn: take fewer"):
        cache.prompts(cache.Draw(PromptLaw(n_dims=1024), 64, 200, 0))


HUGE = 10**400
WILD = {
    "steps": HUGE, "of_steps": HUGE, "seconds": HUGE, "machine": 3, "versions": {"a": HUGE},
    "curve": [{"step": 1, "loss": HUGE, "r2_5": HUGE}, {"step": HUGE, "loss": 1.0}],
    "held_out": {"r2": {"5": HUGE, "10": 0.25, "9" * 5000: 0.5}},
}  # fmt: skip


def test_a_card_may_hold_anything(stand_ins, figures):
    at = give(opened(), own(card=WILD))
    assert not at.error
    assert "Its card says 0.2500" in look(at)
    assert "training steps" not in html(at)
    assert list(trace(figures["training"], "loss (right)").x) == [1]
    assert not np.isfinite(trace(figures["training"], "loss (right)").y).any()


def test_what_would_end_in_a_traceback_is_refused(stand_ins):
    files = own()
    config = json.loads(files["config.json"])
    huge = json.dumps(config | {"target_scale": HUGE}).encode()
    half = b'{"seconds": 60, "machine": "\\ud800 box"}'
    wild = {k: v * 1e10 for k, v in load(files["model.safetensors"]).items()}
    short = json.dumps(config | {"n_positions": 4}).encode()
    for change, words in (
        ({"config.json": short}, "n_positions must be at least 6"),
        ({"config.json": huge}, "target_scale must be a number"),
        ({"card.json": half}, "half a character"),
        ({"model.safetensors": save(wild)}, "should stay below"),
    ):
        at = give(opened(), files | change)
        assert words in unmarked(at.error[0].value)
        assert "uploaded" not in at.selectbox(key="checkpoints-name").options


# --- Scenarios, and code --------------------------------------------------------------------------


def r2(name, length, **law):
    learner = zoo.predictor(name)
    config = learner.model.config
    made = replace(training_prompt_law(config), **law)
    prompts = sample_prompts(made, 192, length + 1, torch.Generator().manual_seed(0))
    from core.predictors import LeastSquares

    return [score(who(prompts), prompts, "pooled R2").numpy() for who in (learner, LeastSquares())]


CLAIMS = {
    "linear-d20": lambda ours, best: (best - ours)[10:50].max() < 0.05,
    "linear-d5": lambda ours, best: (best - ours)[10:20].max() < 0.01,
    "attention-1": lambda ours, best: 0.8 < ours[45] <= ours.max() < 0.93,
    "attention-1-raw": lambda ours, best: 0.8 < ours[45] <= ours.max() < 0.93,
    "linear-d20-offset": lambda ours, best: ours[45] > 0.98,
    "linear-d20-wide": lambda ours, best: 0.8 < ours[30] < 0.98,
    "tree-d10": lambda ours, best: ours[45] < 0.8,
    "relu-d10": lambda ours, best: best[45] < 0.9,
}


@pytest.mark.claim(*CLAIMS)
@pytest.mark.parametrize("scenario", checkpoints.SCENARIOS, ids=lambda s: s.name)
def test_claims_of_the_committed_checkpoints(scenario):
    config = zoo.config(scenario.name)
    assert CLAIMS[scenario.name](*r2(scenario.name, config.law.n_examples - 1))


def test_the_snippet_prints_what_the_page_says(stand_ins, monkeypatch):
    caught = []
    monkeypatch.setattr("pages.ui.frame.Page.finish", lambda self, snippet: caught.append(snippet))
    at = opened(name="linear-d5")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(caught[-1], "snippet", "exec"), {})
    number = look(at).split("R² is **")[1].split("**")[0]
    assert number in out.getvalue()


def test_the_largest_file_is_one_number():
    config = tomllib.loads((Path(__file__).parents[2] / ".streamlit/config.toml").read_text())
    assert config["server"]["maxUploadSize"] * 2**20 == folder.MAX_BYTES
