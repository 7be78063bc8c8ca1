"""Recipes: what is drawn at each stage, and the schedules as functions of the step."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from core.predictors import LeastSquares
from core.prompts import Prompts, sample_prompts
from models.config import RegressorConfig, TrainingLaw
from models.law import training_prompt_law
from models.recipes import RECIPES, Recipe, draw, loss_weights, schedule, stage


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", list(RECIPES))
def test_after_the_curriculum_draw_is_sample_prompts_of_the_training_law(name):
    recipe = RECIPES[name]
    law, n = training_prompt_law(recipe.model), recipe.model.law.n_examples
    xs, ys = draw(recipe, recipe.steps, 8, generator())
    prompts = sample_prompts(law, 8, n, generator(), dtype=torch.float32)
    assert torch.equal(xs, prompts.xs)
    assert torch.equal(ys, prompts.ys)


@pytest.mark.parametrize("name", ["linear-d20", "linear-d20-isotropic", "relu-d10"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_curriculum_keeps_the_moments_of_y(name, share):
    """Inactive inputs are 0, active ones N(mean, 1), y / target_scale has variance 1."""
    recipe = RECIPES[name]
    step = int(share * recipe.curriculum)
    dims, n = stage(recipe, step)
    xs, ys = draw(recipe, step, 6000, generator())
    assert xs.shape == (6000, n, recipe.model.n_dims)
    assert not xs[..., dims:].any()
    active = xs[..., :dims]
    assert float(active.mean()) == pytest.approx(recipe.model.law.mean, abs=0.02)
    assert float(active.std()) == pytest.approx(1.0, abs=0.02)
    assert float((ys / recipe.model.target_scale).square().mean()) == pytest.approx(1.0, rel=0.1)


def test_wide_law_mixes_inside_prompts():
    """0.3 of the prompts are pure, the share of the others is uniform: mean 0.35 of all inputs."""
    xs, _ = draw(RECIPES["linear-d20-wide"], 0, 4000, generator())
    flipped = (xs.mean(2) > 0).float()  # 20 coordinates around 2 or -2: sign errors are rare
    share = flipped.mean(1)
    assert float(share.mean()) == pytest.approx(0.35, abs=0.02)
    assert float((share < 0.005).float().mean()) == pytest.approx(0.31, abs=0.03)
    middle = (share > 0.25) & (share < 0.75)
    assert float(middle.float().mean()) == pytest.approx(0.35, abs=0.03)


def test_trees_grow_in_depth():
    recipe = RECIPES["tree-d10"]
    for step, depth in ((0, 1), (1250, 3), (2500, 4), (4999, 4)):
        _, ys = draw(recipe, step, 50, generator())
        leaves = [len(prompt.unique()) for prompt in ys]
        assert max(leaves) <= 2**depth
        assert max(leaves) > 2 ** (depth - 1)


def test_stages_are_few_and_end_with_the_whole_task():
    for recipe in RECIPES.values():
        lengths = {stage(recipe, step)[1] for step in range(recipe.steps)}
        assert len(lengths) <= 5
        assert stage(recipe, recipe.curriculum) == (
            recipe.model.n_dims,
            recipe.model.law.n_examples,
        )


def test_schedule_warms_up_stays_and_decays():
    recipe = replace(RECIPES["linear-d20"], steps=1000, warmup=100, decay_share=0.5)
    assert schedule(recipe, 0) == pytest.approx(0.01)
    assert schedule(recipe, 99) == schedule(recipe, 300) == schedule(recipe, 500) == 1.0
    assert schedule(recipe, 750) == pytest.approx(0.5)
    assert schedule(recipe, 999) == pytest.approx(0.002)


@pytest.mark.parametrize("name", ["linear-d20", "linear-d20-isotropic"])
def test_loss_weights_follow_the_error_of_least_squares(name):
    """1 / weight - delta is the error that least squares makes, measured.

    Within 0.15 of y's variance: at the first pairs the noise of the inputs blurs the mean
    direction, which the formula takes as known, and 800 prompts have a standard error of 0.03.
    """
    recipe = RECIPES[name]
    weights = loss_weights(recipe, recipe.steps)
    assert float(weights.mean()) == pytest.approx(1.0)
    xs, ys = draw(recipe, recipe.steps, 800, generator())
    prompts = Prompts(xs, ys, xs, ys)
    error = (LeastSquares()(prompts) - ys).square().mean(0) / recipe.model.target_scale**2
    implied = (error[0] + 0.01) * weights[0] / weights - 0.01
    assert torch.allclose(implied.double(), error, atol=0.15)
    assert torch.equal(loss_weights(RECIPES["tree-d10"], 3), torch.ones(50))


def test_of_length_takes_the_curriculum_with_it():
    recipe = RECIPES["linear-d20"].of_length(700)
    assert (recipe.steps, recipe.curriculum, recipe.warmup) == (700, 200, 20)
    assert recipe.of_length(700) == recipe
    longer = RECIPES["linear-d20"].of_length(14_000)
    assert (longer.curriculum, longer.warmup) == (4000, 200)


def test_recipes_survive_json_and_younger_fields():
    for recipe in RECIPES.values():
        raw = json.loads(json.dumps(asdict(recipe)))
        assert Recipe.from_json(raw) == recipe
        del raw["optimizer"]
        assert Recipe.from_json(raw) == recipe


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps and batch must be 1 or more"),
        ({"optimizer": "sgd"}, "optimizer must be"),
        (
            {"model": RegressorConfig(n_positions=20, law=TrainingLaw(n_examples=11))},
            "11 examples take 22 positions, the model has 20",
        ),
    ],
)
def test_bad_recipes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(RECIPES["linear-d20"], **changes)
