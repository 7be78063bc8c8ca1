"""Layers: the page's numbers against Hugging Face's attention and numpy, controls, claims."""

import copy
import re

import numpy as np
import pytest
import torch

from core.prompts import sample_prompts
from models import zoo
from models.law import training_prompt_law
from pages import layers
from pages.ui import charts, controls
from tests.pages.visits import said, visit, widget

SMALL = {"checkpoint": "linear-d5", "prompts": 4, "n": 6}
NUMBER = r"\*\*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?:\u202f%)?\*\*"


def opened(**values):
    return visit("layers", SMALL | values)


def bold(at):
    return [float(x) for x in re.findall(NUMBER, said(at))]


def control(at, key):
    return widget(at, f"layers-{key}")


def trace(fig, name):
    return next(t for t in charts.raw(fig)[0] if t.get("name") == name)


@pytest.fixture(scope="module")
def weights():
    """Hugging Face's eager attention at the query after 6 examples, `(B, L, H, 13)`."""
    model = copy.deepcopy(zoo.load("linear-d5"))
    model.backbone.set_attn_implementation("eager")
    law = training_prompt_law(model.config)
    drawn = sample_prompts(law, 4, 20, torch.Generator().manual_seed(0))  # pages read to n = 19
    embeds = model.embed(drawn.xs.float(), drawn.ys.float())[:, :13]
    with torch.no_grad():
        found = model.backbone(inputs_embeds=embeds, output_attentions=True).attentions
    return torch.stack([a[:, :, -1] for a in found], 1).double().numpy()


# ---- numbers -------------------------------------------------------------------------------------


def test_effective_memories_are_those_of_hugging_faces_weights(weights, figures):
    at = opened()
    entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum(-1)
    expected = np.exp(entropy).mean(0).ravel()
    heat = next(t for t in charts.raw(figures["map-effective"])[0] if t["type"] == "heatmap")
    column = [int(n) for n in figures["map-effective"].layout.xaxis.ticktext].index(6)
    np.testing.assert_allclose(np.array(heat["customdata"])[:, column], expected, rtol=1e-3)
    assert bold(at)[0] == pytest.approx(expected.mean(), rel=1e-3)
    assert "6 examples, 13 keys:" in said(at)


def test_ranking_by_best_weight_is_that_of_hugging_faces_weights(weights, figures):
    opened(view="heads ranked")
    # the longest prompt of this view is n: draw as many points
    bar = next(t for t in charts.raw(figures["ranked"])[0] if t["type"] == "bar")
    model = zoo.load("linear-d5")
    law = training_prompt_law(model.config)
    drawn = sample_prompts(law, 4, 7, torch.Generator().manual_seed(0))
    eager = copy.deepcopy(model)
    eager.backbone.set_attn_implementation("eager")
    embeds = eager.embed(drawn.xs.float(), drawn.ys.float())[:, :13]
    with torch.no_grad():
        found = eager.backbone(inputs_embeds=embeds, output_attentions=True).attentions
    best = torch.stack([a[:, :, -1, :12].amax(-1) for a in found], 1).mean(0).numpy()
    order = np.argsort(-best.ravel(), kind="stable")
    assert bar["x"][0] == f"{order[0] // 2 + 1}.{order[0] % 2 + 1}"
    np.testing.assert_allclose(bar["y"], best.ravel()[order], rtol=1e-3)
    assert figures["ranked"].layout.shapes[0].y0 == pytest.approx(1 / 13)


def test_own_write_and_update_are_counted_as_drawn(figures):
    at = opened(view="one prompt", prompt=2)
    fig = figures["energies"]
    before = np.array(trace(fig, "energy of the query")["y"])
    update = np.array(trace(fig, "after one Hopfield update")["y"])
    lower = trace(fig, "after the layer's write: lower")
    higher = trace(fig, "after the layer's write: higher")
    assert (update <= before * (1 + 1e-6)).all()
    assert len(lower["y"]) + len(higher["y"]) == len(before) == 24
    assert f"write lowers it in {len(lower['y'])}." in said(at)
    share = ((before - update) / before).mean()
    assert bold(at)[0] == pytest.approx(share, rel=1e-3)
    drawn = sample_prompts(
        training_prompt_law(zoo.config("linear-d5")), 4, 7, torch.Generator().manual_seed(0)
    )
    answer = zoo.load("linear-d5")(drawn.xs.float(), drawn.ys.float())[1, 6]
    assert bold(at)[1:] == [
        pytest.approx(float(answer), abs=2e-4), pytest.approx(float(drawn.targets[1, 6]), abs=1e-4)
    ]  # fmt: skip


def test_rank_correlation_is_spearmans():
    from scipy.stats import spearmanr

    from core.layers import RankedHead

    draw = np.random.default_rng(0)
    heads = tuple(RankedHead(i, 0, 0.0, *(float(v) for v in draw.normal(size=4))) for i in range(9))
    expected = spearmanr([h.best_weight for h in heads], [h.own_fall for h in heads]).statistic
    assert layers.rank_correlation(heads) == pytest.approx(expected)
    assert np.isnan(layers.rank_correlation(heads[:2]))


def test_three_laws_share_their_prompts_but_for_what_is_changed(figures):
    opened(view="shift and labels", shift=0.0, right=1.0)
    fig = figures["conditions-effective"]
    curves = [t["y"] for t in charts.raw(fig)[0] if t.get("mode") == "lines+markers"]
    assert len(curves) == 3
    np.testing.assert_allclose(curves[1], curves[0])
    np.testing.assert_allclose(curves[2], curves[0])


# ---- controls, refusals --------------------------------------------------------------------------

CHANGED = {
    "every head": {
        "checkpoint": "attention-1", "reading": "energy", "n": 4, "w2": 0.5, "accuracy": 0.5,
        "prompts": 8, "seed": 3,
    },
    "heads ranked": {"by": "few effective memories"},
    "shift and labels": {"shift": 0.6, "right": 0.0, "reading": "margin"},
    "one prompt": {"prompt": 3},
}  # fmt: skip


@pytest.mark.parametrize("view", CHANGED)
def test_every_control_is_answered(figures, view):
    at = opened(view=view)

    def shown():
        return {key: fig.to_json() for key, fig in figures.items()}, said(at)

    before = shown()
    for key, value in CHANGED[view].items():
        old = control(at, key).value
        control(at, key).set_value(value).run()
        assert not at.exception, key
        assert shown() != before, key
        control(at, key).set_value(old).run()
        assert not at.exception, key


def test_all_rows_are_covered_here():
    rows = {row.key for row in controls.rows("layers")}
    assert rows == set().union(*CHANGED.values()) | {"view"}


@pytest.mark.parametrize("reading", layers.READINGS)
def test_every_reading_is_drawn(figures, reading):
    opened(reading=reading)
    z = np.array(next(t for t in charts.raw(figures[f"map-{layers.READINGS[reading][0]}"])[0])["z"])
    assert np.isfinite(z[:, -1]).all()


def test_one_layer_refuses_what_it_has_not(figures):
    at = opened(checkpoint="attention-1", reading="fall by its own write")
    assert "no residual stream" in at.warning[0].value
    at = opened(checkpoint="attention-1", view="heads ranked")
    assert "no next query to compare" in said(at)


def test_outside_the_training_law_is_said():
    at = opened(w2=0.5)
    assert any("around 2" in c.value for c in at.caption)
    at = opened(n=40)
    assert any("in training at most 19" in c.value for c in at.caption)


# ---- scenarios -----------------------------------------------------------------------------------


def scenario(name):
    (chosen,) = [s for s in layers.SCENARIOS if s.name == name]
    return opened(**chosen.settings("layers"))


@pytest.mark.claim("arrive")
def test_claim_arrive(figures):
    scenario("arrive")
    fig = figures["map-effective"]
    heat = next(t for t in charts.raw(fig)[0] if t["type"] == "heatmap")
    values = np.array(heat["customdata"]).mean(0)
    at = [int(n) for n in fig.layout.xaxis.ticktext]
    assert values[at.index(20)] > 3 * values[at.index(5)]


@pytest.mark.claim("shift")
def test_claim_shift():
    law, shifted, wrong, *_ = bold(scenario("shift"))
    assert shifted < law / 2
    assert abs(wrong / law - 1) < 0.05


@pytest.mark.claim("ranked", "offset")
def test_claim_ranked_and_offset():
    at = scenario("ranked")
    assert "Layer 3, head" in said(at)
    first, mean, update, own, _ = bold(at)
    assert first > 3 * mean
    assert update == 100
    assert own < 50
    first, mean, update, own, _ = bold(scenario("offset"))
    assert update == 100
    assert own < 50


@pytest.mark.claim("one")
def test_claim_one(figures):
    at = scenario("one")
    assert "in 24 of 24 heads" in said(at)
    assert len(trace(figures["energies"], "after the layer's write: higher")["y"]) > 8
