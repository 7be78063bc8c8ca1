"""Hidden concept: the page's numbers against scikit-learn and loops in numpy, and every claim."""

import dataclasses
import re

import numpy as np
import pytest
import scipy.special
import torch
from scipy.stats import chi2
from sklearn.kernel_ridge import KernelRidge
from streamlit.testing.v1 import AppTest

from core.concept_study import KINDS, ConceptSettings, draw_concepts
from models import zoo
from pages import hidden_concept
from pages.ui import cache, charts, controls, frame
from pages.ui.chart_view import pack

PAGE = "hidden_concept"
DEFAULTS = controls.defaults(PAGE)


def settings(**changes):
    return hidden_concept.Settings(**DEFAULTS | changes)


def data_of(**changes):
    """Keys, values and clean values of coordinate 0, concepts of row 0, kinds; in numpy."""
    d = draw_concepts(ConceptSettings(**hidden_concept.engine(settings(**changes))))
    parts = (
        d.keys, d.values[..., 0], d.targets[..., 0], d.concepts[:, 0], d.others[:, 0], d.kinds,
    )  # fmt: skip
    return tuple(t.numpy() for t in parts)


def script():
    from pages import hidden_concept

    hidden_concept.render()


@pytest.fixture
def pictures(monkeypatch):
    """Figure and frames of the last run by key."""
    shown = {}

    def view(fig, *, key, frames=None, **rest):
        shown[key.removeprefix(f"{PAGE}-")] = (fig, frames)

    monkeypatch.setattr(frame, "chart_view", view)
    return shown


@pytest.fixture
def visit(pictures):
    def opened(preset=None, **changes):
        app = AppTest.from_function(script, default_timeout=120)
        if preset:
            app.query_params["preset"] = preset
        for key, value in changes.items():
            row = next(r for r in controls.rows(PAGE) if r.key == key)
            app.query_params[row.name] = row.text(value)
        pictures.clear()
        app.run()
        assert not app.exception
        return app

    return opened


def sentence(app):
    return next(m.value for m in app.markdown if "lab-look" in m.value)


def captions(app):
    return " ".join(c.value for c in app.caption)


def bold(text):
    return [float(x) for x in re.findall(r"\*\*(-?\d+(?:\.\d+)?)\*\*", text)]


def trace(fig, name):
    return next(t for t in charts.raw(fig)[0] if name in (t.get("name"), t.get("uid")))


# ---- the belief ----------------------------------------------------------------------------------


def belief(keys, values, noise):
    """Mean and covariance of a row of z, prior N(0, I), by the normal equations."""
    precision = np.eye(keys.shape[1]) + keys.T @ keys / noise**2
    return np.linalg.solve(precision, keys.T @ values / noise**2), np.linalg.inv(precision)


@pytest.mark.parametrize("dimension", [2, 6])
def test_the_sentence_says_what_the_normal_equations_say(visit, dimension):
    keys, values, _, truths, _, _ = data_of(dimension=dimension, prompts=32)
    away, inside = [], []
    for k, v, z in zip(keys[:, :-1], values[:, :-1], truths, strict=True):
        mean, covariance = belief(k, v, DEFAULTS["noise"])
        miss = mean - z
        away.append(np.linalg.norm(miss) / np.linalg.norm(z))
        inside.append(miss @ np.linalg.solve(covariance, miss) <= chi2.ppf(0.95, dimension))
    _, covariance = belief(keys[0, :-1], values[0, :-1], DEFAULTS["noise"])
    learnt = -0.5 * np.linalg.slogdet(covariance)[1]
    said = bold(sentence(visit(dimension=dimension, prompts=32)))
    expected = [DEFAULTS["examples"], np.median(away), 100 * np.mean(inside), learnt]
    np.testing.assert_allclose(said, expected, atol=0.051)
    assert said[1] == pytest.approx(np.median(away), abs=6e-4)


def test_the_region_and_the_lines_of_the_plane(visit, pictures):
    visit(contradicting=0.3, irrelevant=0.2)
    keys, values, _, truths, others, kinds = data_of(contradicting=0.3, irrelevant=0.2)
    fig, frames = pictures["belief"]
    t = DEFAULTS["examples"]
    assert len(frames.labels) == t + 1
    number = {trace.get("uid"): i for i, trace in enumerate(charts.raw(fig)[0])}
    for seen in (1, 7, t):
        mean, covariance = belief(keys[0, :seen], values[0, :seen], DEFAULTS["noise"])
        moved = frames.data[seen]
        region = np.stack([moved[number["region"]][a] for a in "xy"], axis=1) - mean
        distance = np.einsum("ni,ij,nj->n", region, np.linalg.inv(covariance), region)
        np.testing.assert_allclose(distance, chi2.ppf(0.95, 2), rtol=1e-9)
        np.testing.assert_allclose([moved[number["mean"]][a][0] for a in "xy"], mean)
        for kind in range(len(KINDS)):
            mine = np.flatnonzero(kinds[0, :seen] == kind)
            drawn = moved[number[f"lines-{kind}"]]
            ends = np.stack([drawn["x"], drawn["y"]], axis=1).reshape(len(mine), 3, 2)
            explained = np.einsum("npi,ni->np", ends[:, :2], keys[0, mine])
            np.testing.assert_allclose(explained, values[0, mine, None].repeat(2, 1), atol=1e-9)
            assert np.isnan(ends[:, 2]).all()
    star, cross = trace(fig, "true concept z"), trace(fig, "the other, z′")
    np.testing.assert_allclose([star["x"][0], star["y"][0]], truths[0])
    np.testing.assert_allclose([cross["x"][0], cross["y"][0]], others[0])


def test_the_spectrum_is_that_of_the_covariance_at_every_frame(visit, pictures):
    visit(dimension=5, examples=12)
    keys, values, *_ = data_of(dimension=5, examples=12)
    fig, frames = pictures["spectrum"]
    at = next(i for i, t in enumerate(charts.raw(fig)[0]) if t.get("uid") == "spectrum")
    for seen in (0, 3, 12):
        _, covariance = belief(keys[0, :seen], values[0, :seen], DEFAULTS["noise"])
        expected = np.sort(np.linalg.eigvalsh(covariance))[::-1]
        np.testing.assert_allclose(frames.data[seen][at]["y"], expected, rtol=1e-9)


def test_both_pictures_of_the_belief_play_together_and_long_prompts_thin_out(visit, pictures):
    visit(examples=128)
    groups = {frames.group for _, frames in pictures.values()}
    lengths = {len(frames.labels) for _, frames in pictures.values()}
    assert groups == {PAGE}
    assert len(lengths) == 1
    assert max(lengths) <= hidden_concept.FRAMES
    assert pictures["belief"][1].labels[-1] == "128 of 128 examples"


# ---- who answers ---------------------------------------------------------------------------------


def test_errors_are_those_of_kernel_ridge_and_of_a_loop(visit, pictures, stand_ins):
    change = {"view": "predictors", "dimension": 4, "examples": 20, "kappa": 3.0, "prompts": 16}
    keys, values, targets, *_ = data_of(**change)
    factor = scipy.special.iv(1, 3.0) / scipy.special.iv(2, 3.0)
    unit = (targets**2).mean()
    answers = []
    for k, v in zip(keys, values, strict=True):
        ridge = KernelRidge(alpha=DEFAULTS["noise"] ** 2, kernel="linear").fit(k[:-1], v[:-1])
        softmax = scipy.special.softmax(3.0 * k[:-1] @ k[-1]) @ v[:-1]
        answers.append((ridge.predict(k[-1:])[0], softmax, factor * softmax))
    answers = np.array(answers)
    errors = ((answers - targets[:, -1:]) ** 2).mean(0) / unit
    gap = np.sqrt(((answers[:, 2] - answers[:, 0]) ** 2).mean() / unit)
    said = bold(sentence(visit(**change)))
    expected = [errors[0], errors[1], (1 - 1 / factor) ** 2, errors[2], factor, gap]
    np.testing.assert_allclose(said[:6], expected, atol=6e-4)
    assert trace(pictures["gap"][0], "softmax × C")["y"][-1] == pytest.approx(gap)
    assert trace(pictures["error"][0], "BMA attention")["y"][-1] == pytest.approx(errors[0])


def test_gpt2_answers_the_same_prompts_and_is_asked_once(visit, pictures, stand_ins, monkeypatch):
    change = {"view": "predictors", "dimension": 20, "examples": 12, "prompts": 8, "noise": 0.0}
    change |= {"keys": "regression inputs"}
    drawn = draw_concepts(ConceptSettings(**hidden_concept.engine(settings(**change))))
    model = zoo.load("linear-d20", stand_ins)
    with torch.inference_mode():
        preds = model(drawn.keys.float(), drawn.values[..., 0].float()).double()
    targets = drawn.targets[..., 0]
    error = ((preds - targets) ** 2).mean(0) / (targets**2).mean()
    app = visit(**change)
    curve = trace(pictures["error"][0], "GPT-2 linear-d20")
    np.testing.assert_allclose(curve["y"], error[1:].numpy(), rtol=1e-4)
    assert "inside its training law" in captions(app)

    def refuse(*_):
        raise AssertionError("asked again")

    monkeypatch.setattr(type(cache.regressor("linear-d20")), "__call__", refuse)
    app.number_input(key=f"{PAGE}-kappa").set_value(3.0).run()
    assert not app.exception
    assert "GPT-2" in sentence(app)


def test_gpt2_ends_at_its_last_position_and_is_shaded_outside_its_law(visit, pictures, stand_ins):
    most = zoo.config("linear-d20", stand_ins).max_examples
    assert most < 60
    app = visit(view="predictors", dimension=20, examples=60, prompts=8)
    for key in ("error", "gap"):
        fig = pictures[key][0]
        assert trace(fig, "GPT-2 linear-d20")["x"][-1] == most
        amber = [s for s in charts.raw(fig)[1]["shapes"] if s["type"] == "rect"]
        assert [s["x0"] for s in amber] == [1.0]
    assert "silent past its last position" in sentence(app)
    for reason in ("uniform on the sphere, in training N(−2, I)", "noisy values", "more than the"):
        assert reason in captions(app)


def test_without_a_checkpoint_of_that_dimension_the_page_says_so(visit, stand_ins):
    app = visit(view="predictors", dimension=7, examples=10)
    assert "no checkpoint here reads 7 dimensions" in captions(app)
    assert "GPT-2" not in sentence(app)


# ---- influence and reshaped memories -------------------------------------------------------------


def test_influence_is_the_change_by_refitting(visit, pictures):
    change = {"view": "influence", "dimension": 3, "examples": 14, "n": 10, "noise": 0.3}
    change |= {"contradicting": 0.3, "prompts": 16}
    visit(**change)
    keys, values, targets, _, _, kinds = data_of(**change)
    k, v, query, target = keys[0, :10], values[0, :10], keys[0, 10], targets[0, 10]

    def fitted(left):
        z, _ = belief(k[left], v[left], 0.3)
        best = np.sort(k[left] @ query)[::-1]
        return z, z @ query, (z @ query - target) ** 2, best[0] - best[1]

    everything = np.arange(10)
    full = fitted(everything)
    rows = {"concept moved": [], "answer": [], "squared error": [], "query margin": []}
    for j in range(10):
        z, answer, error, margin = fitted(everything != j)
        rows["concept moved"].append(np.linalg.norm(full[0] - z))
        rows["answer"].append(full[1] - answer)
        rows["squared error"].append(full[2] - error)
        rows["query margin"].append(full[3] - margin)
    for row, expected in rows.items():
        for kind, label in enumerate(KINDS):
            bars = [
                t for t in charts.raw(pictures["influence"][0])[0]
                if (t.get("meta") or {}).get("series") == f"{row}, {label}"
            ]  # fmt: skip
            mine = np.flatnonzero(kinds[0, :10] == kind)
            assert len(bars) == bool(len(mine))
            for bar in bars:
                np.testing.assert_array_equal(bar["x"], mine + 1)
                np.testing.assert_allclose(bar["y"], np.array(expected)[mine], atol=1e-9)


def test_more_read_than_there_are_reads_all(visit):
    assert "Of the first 5 examples" in sentence(visit(view="influence", examples=5, n=100))


def test_reshaped_memories_in_numpy(visit, pictures):
    change = {"view": "reshaped memories", "dimension": 4, "examples": 9, "noise": 0.2}
    visit(**change)
    fig = pictures["reshaped"][0]
    difference, residual = trace(fig, "reshaped ghosts"), trace(fig, "residual of W₁")
    exact = difference["x"] <= 4
    assert (difference["y"][exact] < 1e-9).all()
    assert (difference["y"][~exact] > 1e-3).all()
    expected = trace(fig, "√(1 − rank/t)")
    np.testing.assert_allclose(expected["y"], np.sqrt(1 - 4 / expected["x"]))
    s = ConceptSettings(**hidden_concept.engine(settings(**change)))
    prompt = draw_concepts(s).keys[:8, :9].numpy()
    drawn_apart = dataclasses.replace(s, seed=1_000_003, prompts=8, irrelevant=0.0, position=None)
    ghosts = draw_concepts(drawn_apart).keys[:, :9].numpy()
    found = [
        np.linalg.norm(k - g @ np.linalg.pinv(g) @ k) / np.linalg.norm(k)
        for k, g in zip(prompt, ghosts, strict=True)
    ]
    assert residual["y"][-1] == pytest.approx(np.median(found), rel=1e-6)


def test_one_example_that_helps_is_not_said_to_hurt(visit):
    said = sentence(visit(view="influence", examples=1, n=1))
    assert "Of the first 1 example of" in said
    assert "none makes the squared error of BMA larger" in said
    assert "**-" not in said.split("Over ")[0]
    keys, values, targets, *_ = data_of(view="influence", examples=1, n=1)
    z, _ = belief(keys[0, :1], values[0, :1], DEFAULTS["noise"])
    error = (z @ keys[0, 1] - targets[0, 1]) ** 2
    assert bold(said)[1] == pytest.approx(targets[0, 1] ** 2 - error, abs=1e-4)


def test_the_limit_of_softmax_is_that_of_the_mixture(visit, pictures):
    for change, expected in (({"irrelevant": 1.0}, 1.0), ({}, None)):
        said = sentence(visit(view="predictors", gpt2=False, **change))
        (limit,) = re.findall(r"limit .*?: \*\*([\d.]+)\*\*", said)
        C = float(re.findall(r"C = \*\*([\d.]+)\*\*", said)[0])
        assert float(limit) == pytest.approx(expected or (1 - 1 / C) ** 2, abs=2e-3)
        assert ("under this mixture *(ours)*" in said) == bool(change)


def test_without_noise_the_region_is_wider_and_the_page_says_so(visit):
    assert "ρ stands at 1e-8" in sentence(visit(noise=0.0))
    assert "ρ stands" not in sentence(visit(noise=0.1))
    assert "ρ stands" not in sentence(visit(noise=0.0, assumed="set by hand"))


def test_large_numbers_have_digits_that_say_something(visit):
    said = sentence(
        visit(view="predictors", gpt2=False, kappa=0.05, scale=0.1, dimension=64, examples=20)
    )
    assert max(len(n) for n in re.findall(r"\*\*([\d.]+)\*\*", said)) <= 8
    assert re.search(r"C = \*\*1.28e\+05\*\*", said)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dimension": 8, "examples": 1, "ridge": 10.0}, "the ridge shrinks it"),
        ({"dimension": 64, "examples": 64, "tolerance": 0.1}, "√(1 − rank/t)"),
    ],
)
def test_why_a_map_misses(visit, change, words):
    said = sentence(visit(view="reshaped memories", **change))
    assert words in said
    assert "d/t" not in said
    if "rank/t" in words:
        assert "= **0.000**" not in said


# ---- claims and promises -------------------------------------------------------------------------


def loaded(name):
    scenario = next(s for s in hidden_concept.SCENARIOS if s.name == name)
    s = hidden_concept.Settings(**scenario.settings(PAGE))
    return s, cache.hidden_concept(None, **hidden_concept.engine(s))


@pytest.mark.claim("narrows")
def test_claim_the_belief_narrows():
    _, r = loaded("narrows")
    assert 0.88 <= r.posterior.covered[-1] <= 1
    assert r.posterior.to_truth[2, -1] < 0.2
    assert r.posterior.ellipses is not None


@pytest.mark.claim("biased")
def test_claim_a_biased_concept():
    _, r = loaded("biased")
    _, plain = loaded("narrows")
    assert r.posterior.to_truth[2, -1] == pytest.approx(0.6, abs=0.05)
    assert r.posterior.covered[-1] < 0.5
    # As sure as ever: the covariance does not depend on what the values say.
    np.testing.assert_allclose(r.posterior.covariance[:31], plain.posterior.covariance, rtol=1e-9)


@pytest.mark.claim("hurts")
def test_claim_which_example_hurts():
    s, _ = loaded("hurts")
    h = cache.concept_harm(**hidden_concept.engine(s))
    consistent, contradicting = KINDS.index("consistent"), KINDS.index("contradicting")
    assert h.harm[contradicting] > 2 * h.harm_error[contradicting]
    assert h.harm[consistent] < -2 * h.harm_error[consistent]


@pytest.mark.claim("closes")
def test_claim_the_gap_closes_slowly():
    _, r = loaded("closes")
    raw, scaled, bma = (r.curve(name) for name in ("softmax", "softmax x C", "BMA"))
    assert -0.7 < r.gap_slope < -0.3
    assert scaled.gap[-1] < scaled.gap[50] < scaled.gap[10]
    assert raw.gap[-1] == pytest.approx(raw.gap[10], rel=0.25)
    assert scaled.error[-1] > 100 * bma.error[-1]


@pytest.mark.claim("mean")
def test_claim_gpt2_on_its_own_law():
    s, _ = loaded("mean")
    r = cache.hidden_concept(cache.gpt2_of(20), **hidden_concept.engine(s))
    assert abs(r.gap_slope) < 0.2
    assert 5 * r.curve("linear-d20").gap[-1] < r.curve("softmax").gap[-1]
    assert 5 * r.curve("linear-d20").gap[-1] < r.curve("softmax x C").gap[-1]


@pytest.mark.claim("ghosts")
def test_claim_ghosts_cancel():
    _, r = loaded("ghosts")
    q = r.reshaped
    assert (q.difference[q.lengths <= 8] < 1e-9).all()
    assert (q.difference[q.lengths > 8] > 0.1).all()
    assert 9 in q.lengths


def test_correlated_keys_and_a_wrong_kernel_get_their_own_words(visit):
    shared = {"view": "predictors", "dimension": 8, "examples": 128, "gpt2": False}
    assert "no single C repairs" in sentence(visit(keys="all near one direction", **shared))
    assert "not those of the theorem" in sentence(visit(kernel="RBF", **shared))


@pytest.mark.parametrize("view", hidden_concept.DRAW)
def test_every_control_shown_is_answered(visit, pictures, stand_ins, view):
    start = {"view": view, "examples": 10, "dimension": 3, "prompts": 8, "contradicting": 0.3}
    start |= {"keys": "all near one direction", "kernel": "exponential", "assumed": "set by hand"}
    app = visit(**start)

    def state():
        return sentence(app), captions(app), {k: pack(f, {}, fr) for k, (f, fr) in pictures.items()}

    for name in [w.key for w in app.number_input]:
        row = next(r for r in controls.rows(PAGE) if r.name == name)
        if row.key in ("n", "tolerance"):  # as many as there are; ghosts of full rank
            continue
        before, value = state(), app.number_input(key=name).value
        lower = {
            "examples": 6, "dimension": 2, "prompts": 16, "seed": 3, "irrelevant": 0.5,
            "opposition": 0.5, "ridge": 1.0,
        }  # fmt: skip
        app.number_input(key=name).set_value(lower.get(row.key, row.low)).run()
        assert not app.exception
        assert state() != before, name
        app.number_input(key=name).set_value(value).run()
    assert not app.warning


def test_shares_that_do_not_fit_are_explained_and_the_last_good_picture_stays(visit, pictures):
    app = visit(contradicting=0.6)
    before = pack(pictures["belief"][0], {}, None)
    app.number_input(key=f"{PAGE}-irrelevant").set_value(0.6).run()
    assert not app.exception
    assert "sum of at most 1, got 1.2" in app.warning[0].value
    assert pack(pictures["belief"][0], {}, None) == before
