"""The regression page: its numbers against numpy and the engine, every control, every refusal."""

import contextlib
import io
import re

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from core.curves import KNOWN_NUMBERS, measure_known, score
from core.predictors import LeastSquares, Ridge
from core.prompts import PromptLaw, sample_prompts
from core.sweep import grid, run_sweep
from models import zoo
from pages import regression
from pages.ui import cache, controls, words
from tests.pages.visits import fresh, said, visit, widget

SMALL = {"checkpoint": "linear-d5", "prompts": 8, "length": 24}


def opened(**values):
    return visit("regression", SMALL | values)


def bold(at):
    return [float(x) for x in re.findall(r"\*\*(-?[0-9.]+)\*\*", said(at))]


def control(at, key):
    return widget(at, f"regression-{key}")


def trace(fig, series):
    for t in fig.data:
        if (t.meta or {}).get("series") == series or t.name == series:
            return t
    raise KeyError(series)


def drawn_prompts(n_dims=5, n_prompts=8, length=24, seed=0, **law):
    generator = torch.Generator().manual_seed(seed)
    return sample_prompts(PromptLaw(n_dims=n_dims, **law), n_prompts, length + 1, generator)


# --- The curves -----------------------------------------------------------------------------------


def test_curves_are_numpys(stand_ins, figures):
    at = opened(n=7)
    prompts = drawn_prompts()
    xs, ys, y = (t.numpy() for t in (prompts.xs, prompts.ys, prompts.targets))
    n = 3
    fit = [np.linalg.lstsq(xs[b, :n], ys[b, :n], rcond=None)[0] @ xs[b, n] for b in range(8)]
    expected = 1 - ((y[:, n] - fit) ** 2).sum() / ((y[:, n] - y[:, n].mean()) ** 2).sum()
    fig = figures["curves"]
    best = trace(fig, "least squares = ridge")
    assert best.y[n - 1] == pytest.approx(expected, rel=1e-9)
    preds = zoo.load("linear-d5")(prompts.xs.float(), prompts.ys.float()).double().numpy()
    errors = ((y - preds) ** 2).sum(0)
    r2 = 1 - errors / ((y - y.mean(0)) ** 2).sum(0)
    ours = trace(fig, "GPT-2 linear-d5")
    np.testing.assert_allclose(ours.y, r2[1:], atol=2e-4)
    assert list(ours.x) == list(range(1, 25))
    assert bold(at)[:2] == [7, pytest.approx(r2[7], abs=3e-4)]


def test_bands_hold_the_curve_and_the_table_of_numbers_has_both(stand_ins, figures):
    opened()
    for t in figures["curves"].data:
        if t.fill == "toself":
            half = len(t.x) // 2
            high, low = np.array(t.y[:half]), np.array(t.y[half:][::-1])
            assert (low <= high + 1e-12).all()
    assert {t.legendgroup for t in figures["curves"].data} == {
        "GPT-2 linear-d5", "least squares = ridge", "averaging", "3 nearest neighbours",
    }  # fmt: skip


def test_with_wrong_labels_ridge_parts_from_least_squares(stand_ins, figures):
    opened(accuracy=0.75, n=20)
    prompts = drawn_prompts(corruption="permuted", accuracy=0.75)
    law = PromptLaw(n_dims=5, corruption="permuted", accuracy=0.75)
    for name, learner in (("least squares", LeastSquares()), ("ridge", Ridge.for_law(law))):
        expected = score(learner(prompts), prompts, "pooled R2").numpy()[1:]
        np.testing.assert_allclose(trace(figures["curves"], name).y, expected, rtol=1e-9)


def test_lengths_past_training_are_marked_from_the_config(stand_ins, figures):
    opened()
    marks = {a.text for a in figures["curves"].layout.annotations}
    assert {"k = 20", "longer than in training", "n = 15"} <= marks
    (shade,) = [s for s in figures["curves"].layout.shapes if s.type == "rect"]
    assert (shade.x0, shade.x1) == (20, 24)
    opened(length=20)
    assert not [s for s in figures["curves"].layout.shapes if s.type == "rect"]


def test_outside_its_law_says_why_and_leads_back(stand_ins, figures):
    at = opened(w2=0.3)
    (why,) = [c.value for c in at.caption if "Outside" in c.value]
    assert "30 % of the inputs around 2" in why
    (shade,) = [s for s in figures["curves"].layout.shapes if s.type == "rect"]
    assert (shade.x0, shade.x1) == (1, 24)
    at.button(key="regression~inside").click().run()
    assert control(at, "w2").value == 0
    assert not [c for c in at.caption if "Outside" in c.value]


def test_a_curve_out_of_sight_says_so(stand_ins, figures):
    opened()
    assert trace(figures["curves"], "averaging").name == "averaging (below the picture)"


def test_a_click_reads_the_numbers_there():
    def click():
        from pages._regression import asked

        asked.read_at({"x": 7.4, "y": 0.5})
        asked.read_at({"x": 7.4, "y": 0.5})

    at = AppTest.from_function(click).run()
    assert not at.exception
    assert at.session_state["regression-n"] == 7


# --- Every control --------------------------------------------------------------------------------

CHANGED = {
    "curves": {
        "checkpoint": "linear-d20", "task": "sparse linear", "covariates": "isotropic", "w2": 0.4,
        "mean1": -1.0, "scale": 2.0, "similar": True, "accuracy": 0.5,
        "measure": "within-task R²", "n": 4, "length": 22, "prompts": 16, "seed": 3,
        "squares": False, "ridge": False, "averaging": False, "neighbours": False, "trees": True,
    },
    "one prompt": {"prompt": 5, "tokens": "y alone", "n": 4, "neighbours": False},
}  # fmt: skip


def fingerprint(figures):
    return {key: fig.to_json() for key, fig in figures.items()}


@pytest.mark.parametrize("view", CHANGED)
def test_every_control_is_answered(stand_ins, figures, view):
    at = opened(view=view, length=20, n=6)
    before = fingerprint(figures)
    for key, value in CHANGED[view].items():
        old = control(at, key).value
        control(at, key).set_value(value).run()
        assert not at.exception, key
        assert fingerprint(figures) != before, key
        control(at, key).set_value(old).run()
        assert fingerprint(figures) == before, key


@pytest.mark.parametrize(
    ("base", "key", "value"),
    [
        ({"w2": 0.4}, "mean2", 1.0),
        ({"w2": 0.4}, "mixing", "per prompt"),
        ({"covariates": "skewed spectrum"}, "power", 1.0),
        ({"covariates": "half subspace"}, "anywhere", True),
        ({"similar": True}, "similarity", 0.2),
        ({"accuracy": 0.5}, "corruption", "heavy tail"),
        ({"accuracy": 0.5, "corruption": "gaussian"}, "size", 3.0),
    ],
)
def test_controls_that_hang_on_others_are_answered(stand_ins, figures, base, key, value):
    at = opened(**base)
    before = fingerprint(figures)
    control(at, key).set_value(value).run()
    assert not at.exception
    assert fingerprint(figures) != before


def test_all_rows_are_covered_here():
    hanging = {"mean2", "mixing", "power", "anywhere", "similarity", "corruption", "size"}
    elsewhere = {"view", "sweep", "axis"}
    rows = {row.key for row in controls.rows("regression")}
    assert rows == set().union(*CHANGED.values()) | hanging | elsewhere


# --- Refusals -------------------------------------------------------------------------------------


def test_past_the_positions_is_refused_and_the_picture_stays(stand_ins, figures):
    at = opened()
    before = fingerprint(figures)
    control(at, "length").set_value(128).run()
    (warning,) = [w.value for w in at.warning]
    assert "positions for 127 examples" in warning
    assert "n_positions = 256" in words.unmarked(warning)
    assert fingerprint(figures) == before
    at.button(key="regression~back").click().run()
    assert control(at, "length").value == 24
    assert not at.warning


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"n": 25}, "n = 25 lies past the longest prompt, 24 examples"),
        ({"view": "one prompt", "prompt": 9}, "no prompt 9 among 8"),
        ({"view": "training law", "covariates": "isotropic"}, "mixture weight"),
        ({"view": "training law", "n": 60}, "do not fit"),
        ({"view": "sweep file", "sweep": "a,b\n1,2"}, "lacks the columns"),
    ],
)
def test_what_cannot_be_is_refused_with_words(stand_ins, values, words):
    at = opened(**values)
    assert words in at.warning[0].value


def test_a_checkpoint_that_is_not_there_is_no_option(stand_ins):
    at = fresh("regression")
    at.query_params["regression-checkpoint"] = "uploaded"
    at.query_params["regression-prompts"] = "8"
    at.run()
    assert not at.exception
    assert "is none of" in at.warning[0].value


# --- One prompt -----------------------------------------------------------------------------------


def test_one_prompt_is_the_engines(stand_ins, figures):
    at = opened(view="one prompt", n=6, prompt=3, accuracy=0.5)
    prompts = drawn_prompts(corruption="permuted", accuracy=0.5)
    model = zoo.load("linear-d5")
    xs, ys = prompts.xs[2:3, :7].float(), prompts.ys[2:3, :7].float()
    answer = float(model(xs, ys)[0, 6])
    truth = float(prompts.targets[2, 6])
    assert bold(at)[:2] == [pytest.approx(answer, abs=2e-3), pytest.approx(truth, abs=1e-4)]
    harm = []
    for j in range(6):
        kept = [i for i in range(7) if i != j]
        without = float(model(xs[:, kept], ys[:, kept])[0, 5])
        harm.append(abs(answer - truth) - abs(without - truth))
    bars = trace(figures["examples"], "error added, linear-d5")
    np.testing.assert_allclose(bars.y, harm, atol=5e-3)
    heat = next(t for t in figures["examples"].data if t.type == "heatmap")
    whole = np.array(heat.z).sum(1) + np.array(heat.customdata)[:, 0]
    np.testing.assert_allclose(whole, 1, atol=1e-5)
    assert len(heat.y) == model.config.n_layer * model.config.n_head


def test_the_buttons_open_prompts_by_their_error(stand_ins):
    at = opened(view="one prompt", n=6)
    prompts = drawn_prompts()
    preds = zoo.load("linear-d5")(prompts.xs.float(), prompts.ys.float())
    errors = (preds - prompts.targets).abs()[:, 6]
    at.button(key="regression~pick-Largest error").click().run()
    assert control(at, "prompt").value == int(errors.argmax()) + 1
    at.button(key="regression~pick-Smallest").click().run()
    assert control(at, "prompt").value == int(errors.argmin()) + 1


# --- The paper's numbers, positions, the training law ---------------------------------------------


def test_known_numbers_are_measured_known(stand_ins, figures, monkeypatch):
    monkeypatch.setattr("pages._regression.numbers.N_KNOWN", 16)
    at = opened(view="known numbers", checkpoint="linear-d20", seed=2)
    (table,) = [h.proto.body for h in at.get("html") if '<table class="lab-facts' in h.proto.body]
    learner = zoo.predictor("linear-d20", stand_ins)
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
    found = {(paper, float(ours)): (float(ridge), words) for paper, ours, _, ridge, words in cells}
    assert len(found) == len(KNOWN_NUMBERS) + 1  # a mixture is read in two ways
    for known in KNOWN_NUMBERS:
        verdict = measure_known(known, learner, 16, torch.Generator().manual_seed(2))
        at_paper = [k for k in found if k[0] == f"{known.value:.4f}"]
        key = min(at_paper, key=lambda k: abs(k[1] - verdict.value))
        assert key[1] == pytest.approx(verdict.value, rel=1e-4, abs=1e-4)
        assert found[key][1].split(" by ")[0] == verdict.words.split(";")[0].split(" by ")[0]
        generator = torch.Generator().manual_seed(2)
        best = measure_known(known, Ridge.for_law(known.law), 16, generator)
        assert found[key][0] == pytest.approx(best.value, abs=1e-4)
    assert "per input" in table
    assert "per prompt" in table


def test_known_numbers_need_the_papers_task(stand_ins, monkeypatch):
    monkeypatch.setattr("pages._regression.numbers.N_KNOWN", 8)
    at = opened(view="known numbers", checkpoint="linear-d5")
    assert any("**linear-d20** is asked" in c.value for c in at.caption)


def test_positions_on_the_same_prompts(stand_ins, figures):
    at = opened(view="positions", length=30, n=10)
    prompts = drawn_prompts(n_dims=20, length=30)
    values = {}
    for name in ("linear-d20", "linear-d20-offset"):
        values[name] = score(zoo.predictor(name, stand_ins)(prompts), prompts, "pooled R2")
        y = trace(figures["positions"], name).y
        np.testing.assert_allclose(y, values[name].numpy()[1:], rtol=1e-4, atol=1e-4)
    numbers = bold(at)
    assert numbers[0] == 30
    assert numbers[1] == pytest.approx(float(values["linear-d20"][30]), rel=1e-3, abs=1e-3)
    assert numbers[2] == pytest.approx(float(values["linear-d20-offset"][30]), rel=1e-3, abs=1e-3)


def test_training_law_along_the_shift(stand_ins, figures):
    at = opened(view="training law", n=5, w2=0.3)
    for w2 in (0.0, 0.3, 1.0):
        prompts = drawn_prompts(n_dims=20, length=5, w2=w2)
        expected = score(LeastSquares()(prompts), prompts, "pooled R2")[5]
        t = trace(figures["training-law"], "least squares")
        assert t.y[list(t.x).index(w2)] == pytest.approx(float(expected), rel=1e-9)
    assert bold(at)[0] == 0.3


def test_pictures_wait_for_their_checkpoints(stand_ins, monkeypatch):
    assert cache.regression_views() == ("known numbers", "positions", "training law", "sweep file")
    monkeypatch.setattr(cache, "zoo_names", lambda: ("linear-d5", "linear-d20"))
    assert cache.regression_views() == ("known numbers", "sweep file")
    monkeypatch.setattr(cache, "zoo_names", lambda: ("linear-d5",))
    assert cache.regression_views() == ("sweep file",)
    at = fresh("regression")
    at.query_params["regression-view"] = "positions"
    at.query_params["regression-prompts"] = "8"
    at.run()
    assert not at.exception
    assert "is none of curves, one prompt, sweep file" in at.warning[0].value


# --- Sweeps ---------------------------------------------------------------------------------------


def test_a_sweep_is_drawn(stand_ins, figures, tmp_path):
    points = grid(
        ["least squares"], {"w2": [0.0, 0.5]}, law=PromptLaw(n_dims=2), lengths=(2, 4),
        n_prompts=8, n_resamples=20,
    )  # fmt: skip
    table = run_sweep(points, out=tmp_path / "s.csv")
    small = table[["predictor", "seed", "n_examples", "metric", "value", "low", "high", "w2"]]
    at = opened(view="sweep file")
    assert not figures
    assert at.code[0].value.startswith("python -m models.sweep")
    control(at, "sweep").set_value(small.to_csv(index=False)).run()
    control(at, "axis").set_value("w2").run()
    assert not at.exception
    rows = small[(small["metric"] == "pooled R2") & (small["n_examples"] == 4)]
    t = trace(figures["sweep"], "n_examples 4")
    np.testing.assert_allclose(t.y, rows["value"])
    assert list(t.x) == [0.0, 0.5]


# --- Scenarios and code ---------------------------------------------------------------------------


def r2(checkpoint, length, n_prompts=192, **law):
    learner = zoo.predictor(checkpoint)
    prompts = drawn_prompts(learner.model.config.n_dims, n_prompts, length, **law)
    made = PromptLaw(n_dims=prompts.n_dims, **law)
    return [
        score(who(prompts), prompts, "pooled R2").numpy()
        for who in (learner, LeastSquares(), Ridge.for_law(made))
    ]


@pytest.fixture(scope="module")
def default():
    name = next(r.default for r in controls.rows("regression") if r.key == "checkpoint")
    return name, zoo.config(name)


@pytest.mark.claim("home")
def test_claim_home(default):
    name, config = default
    ours, best, _ = r2(name, config.law.n_examples - 1)
    assert (best[10:] - ours[10:]).max() <= 0.05


@pytest.mark.claim("shift", "per-prompt")
@pytest.mark.parametrize("mixing", ["input", "prompt"])
def test_claim_shift(default, mixing):
    ours, best, _ = r2(default[0], 15, w2=0.3, mixing=mixing)
    assert ours[15] <= best[15] - 0.2


@pytest.mark.claim("labels")
def test_claim_labels(default):
    name, config = default
    ours, best, ridge = r2(name, 24, corruption="permuted", accuracy=0.8)
    d = config.n_dims
    assert best[d] < 0 < 0.4 < ours[d] < ridge[d] - 0.1


@pytest.mark.claim("long")
def test_claim_long(default):
    name, config = default
    ours, best, _ = r2(name, 110, n_prompts=64)
    assert ours[110] < ours[config.law.n_examples - 1] - 0.003
    assert best[110] > 0.9999


@pytest.mark.claim("hurts")
def test_claim_hurts(default):
    from core.one_prompt import look_closely

    name, config = default
    # The scenario's own prompt: the first of 64 of 75 examples and seed 0.
    prompts = drawn_prompts(config.n_dims, 64, 75, corruption="sign flip", accuracy=0.9)
    look = look_closely({name: zoo.predictor(name)}, prompts, 0, 20)
    worst, added = look.worst(name)
    assert look.corrupted.sum() == 2
    assert look.corrupted[worst]
    assert added > abs(look.predictions[name] - look.target) / 2


def test_scenarios_open_and_the_first_is_the_default():
    assert regression.SCENARIOS[0].values == {}
    for scenario in regression.SCENARIOS:
        assert scenario.settings("regression")


@pytest.mark.parametrize("values", [{}, {"view": "one prompt", "n": 5}, {"accuracy": 0.8}])
def test_the_snippet_prints_what_the_page_says(stand_ins, values, monkeypatch):
    caught = []
    monkeypatch.setattr("pages.ui.frame.Page.finish", lambda self, snippet: caught.append(snippet))
    at = opened(length=20, n=5, **{k: v for k, v in values.items() if k != "n"})
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(caught[-1], "snippet", "exec"), {})
    for number in bold(at):
        if number != int(number):
            assert f"{number:.4f}" in out.getvalue()
