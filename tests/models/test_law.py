"""The training law in the words of core.prompts, and what lies outside it."""

from dataclasses import replace

import pytest
import torch

from core.prompts import PromptLaw, label_scale, sample_prompts
from models import zoo
from models.config import RegressorConfig, TrainingLaw
from models.law import outside_law, trained_examples, training_prompt_law
from models.one_layer_attention import OneLayerConfig
from models.recipes import RECIPES

NARROW = RECIPES["linear-d20"].model
WIDE = RECIPES["linear-d20-wide"].model
ISOTROPIC = RECIPES["linear-d20-isotropic"].model
TREE = RECIPES["tree-d10"].model


def test_the_papers_law():
    assert training_prompt_law(NARROW) == PromptLaw()
    wide = training_prompt_law(WIDE)
    assert wide == PromptLaw(random_share=0.7, mean_spread=0.5)


@pytest.mark.parametrize("name", list(RECIPES))
def test_targets_have_variance_one_inside_the_model(name):
    """Monte Carlo over 4000 tasks; y's square has a heavy tail, so a tenth is 3 standard errors."""
    config = RECIPES[name].model
    law = training_prompt_law(config)
    prompts = sample_prompts(law, 4000, 10, torch.Generator().manual_seed(0))
    spread = float((prompts.ys / config.target_scale).square().mean())
    assert spread == pytest.approx((label_scale(law) / config.target_scale) ** 2, rel=0.1)
    assert spread == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("config", [NARROW, WIDE, ISOTROPIC, TREE, RECIPES["relu-d10"].model])
def test_the_training_law_itself_is_inside(config):
    law = training_prompt_law(config)
    assert outside_law(config, law, config.law.n_examples - 1) == []


def test_one_layer_attention_was_asked_after_all_its_pairs():
    config = OneLayerConfig()
    assert (trained_examples(config), trained_examples(NARROW)) == (50, 49)
    assert outside_law(config, PromptLaw(), 50) == []
    assert len(outside_law(config, PromptLaw(), 51)) == 1


def test_every_committed_checkpoint_has_a_law():
    for name in zoo.names():
        config = zoo.config(name)
        assert outside_law(config, training_prompt_law(config), 1) == []


@pytest.mark.parametrize(
    ("config", "changes", "n_examples", "said"),
    [
        (NARROW, {}, 50, "50 examples before the query; in training at most 49 (k = 50)"),
        (NARROW, {}, 75, "75 examples before the query"),
        (NARROW, {"n_dims": 10}, 10, "inputs of 10 dimensions, trained on 20"),
        (NARROW, {"w2": 0.3}, 10, "30 % of the inputs around 2, trained on one mean only"),
        (NARROW, {"random_share": 0.5}, 10, "a random share of the inputs around 2"),
        (NARROW, {"mean1": -1.5}, 10, "inputs around -1.5, trained around -2"),
        (NARROW, {"mean_spread": 0.3}, 10, "means spread by 0.3, trained on 0"),
        (NARROW, {"input_scale": 2.0}, 10, "inputs scaled by 2, trained on 1"),
        (NARROW, {"covariates": "isotropic"}, 10, "inputs around 0, trained around -2"),
        (NARROW, {"covariates": "skewed spectrum"}, 10, "skewed spectrum, trained on N(-2, I)"),
        (NARROW, {"similarity": 0.5}, 10, "inputs at cosine 0.5 to the query"),
        (NARROW, {"task": "sparse linear"}, 10, "task sparse linear, trained on linear"),
        (
            NARROW,
            {"corruption": "permuted", "accuracy": 0.8},
            10,
            "20 % of the labels corrupted (permuted), in training all were right",
        ),
        (WIDE, {"mean1": -3.5}, 10, "inputs around -3.5, trained around -2"),
        (WIDE, {"w2": 0.3, "mean2": 5.0}, 10, "second mean 5, trained on 2"),
        (ISOTROPIC, {"covariates": "random quadrants"}, 10, "trained on N(0, I)"),
        (TREE, {"task": "decision tree", "tree_depth": 6}, 10, "tree depth 6, trained on 4"),
    ],
)
def test_one_departure_gives_one_reason(config, changes, n_examples, said):
    base = training_prompt_law(config)
    law = PromptLaw(**changes) if config is NARROW else replace(base, **changes)
    reasons = outside_law(config, law, n_examples)
    assert len(reasons) == 1, reasons
    assert said in reasons[0]


@pytest.mark.parametrize(
    ("config", "law"),
    [
        (NARROW, PromptLaw(w2=0.0, mean2=7.0)),
        (NARROW, PromptLaw(accuracy=0.5)),  # nothing corrupts
        (NARROW, PromptLaw(corruption="gaussian")),  # of no label
        (NARROW, PromptLaw(w2=0.4, mean2=-2.0)),
        (NARROW, PromptLaw(spectrum_power=3.0, tree_depth=7, hidden=3, sparsity=5)),
        (WIDE, PromptLaw(w2=0.3)),
        (WIDE, PromptLaw(w2=1.0, mean1=9.0)),  # all inputs come from the second mean
        (WIDE, PromptLaw(w2=0.3, mixing="prompt")),
        (WIDE, PromptLaw(mean1=-2.8, w2=0.5, mean2=1.2)),
        (ISOTROPIC, PromptLaw(covariates="isotropic")),
        (ISOTROPIC, PromptLaw(mean1=0.0)),
    ],
)
def test_settings_without_effect_and_trained_ranges_are_inside(config, law):
    assert outside_law(config, law, 30) == []


def test_any_readable_config_has_a_law():
    """Limits of `TrainingLaw` lie inside those of `PromptLaw`."""
    for law in (
        TrainingLaw("sparse", mean=1e3, mean_spread=1.0),
        TrainingLaw("tree", mean=-1e3, mixed_prompts=1.0),
    ):
        training_prompt_law(RegressorConfig(n_dims=1, law=law))


def test_training_cannot_have_shown_what_does_not_fit_the_positions():
    law = TrainingLaw(n_examples=50)
    assert trained_examples(RegressorConfig(n_positions=8, law=law)) == 3
    assert trained_examples(RegressorConfig(n_positions=256, law=law)) == 49
