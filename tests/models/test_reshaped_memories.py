"""Ghosts read out of a model, reshaped, and put back in place of its prompt."""

import numpy as np
import pytest
import torch

from core.ghosts import GhostSettings, construct
from core.prompts import PromptLaw
from models.config import RegressorConfig
from models.gpt2_regressor import GPT2Regressor
from models.keys_values import ask
from models.one_layer_attention import OneLayerAttention, OneLayerConfig
from models.reshaped_memories import reshape_ghosts


def gpt2() -> GPT2Regressor:
    """8 dimensions a head: maps of one head are exact for at most 8 tokens, that is 4 ghosts."""
    torch.manual_seed(0)
    model = GPT2Regressor(RegressorConfig(n_dims=4, n_positions=48, n_embd=16, n_layer=2, n_head=2))
    for name, param in model.named_parameters():
        if param.ndim == 2 and "wte" not in name:
            param.data.mul_(8)
    return model.double().eval().requires_grad_(False)


def one_layer() -> OneLayerAttention:
    torch.manual_seed(1)
    return OneLayerAttention(OneLayerConfig(4, 4, 5)).double().eval().requires_grad_(False)


def pairs(t: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    xs = torch.randn(t, 4, generator=generator, dtype=torch.float64)
    return xs, 3 * torch.randn(t, generator=generator, dtype=torch.float64)


QUERIES, TARGETS = pairs(6, 9)


@pytest.mark.parametrize(("make", "t"), [(gpt2, 4), (one_layer, 4)])
def test_exact_maps_give_the_answers_of_the_prompt(make, t):
    model = make()
    found = reshape_ghosts(model, *pairs(t, 1), *pairs(t, 2), QUERIES, TARGETS)
    assert found.layers.exact.all()
    assert found.error < 1e-8
    assert found.error_ghosts > 1e-3
    np.testing.assert_allclose(found.reshaped, found.prompt, atol=1e-7)
    xs, ys = pairs(t, 1)
    expected = ask(model, xs[None], ys[None], QUERIES[None])[0].numpy()
    np.testing.assert_allclose(found.prompt, expected, atol=1e-10)
    np.testing.assert_allclose(found.targets, TARGETS.numpy())


@pytest.mark.parametrize("make", [gpt2, one_layer])
def test_too_many_ghosts_are_a_fit_and_the_answers_say_so(make):
    found = reshape_ghosts(make(), *pairs(12, 1), *pairs(12, 2), QUERIES)
    assert not found.layers.exact.any()
    assert found.error > 1e-4
    assert found.targets is None
    assert (found.layers.residual_keys > 1e-3).all()


def test_maps_across_heads_stay_exact_for_longer():
    arguments = gpt2(), *pairs(7, 1), *pairs(7, 2), QUERIES  # 14 tokens: past 8, within 16
    assert not reshape_ghosts(*arguments).layers.exact.any()
    found = reshape_ghosts(*arguments, across_heads=True)
    assert found.layers.exact.all()
    assert found.error < 1e-6


def test_answers_alone_are_those_without_examples():
    model = one_layer()
    found = reshape_ghosts(model, *pairs(3, 1), *pairs(3, 2), QUERIES)
    assert (found.alone == 0).all()


@pytest.mark.parametrize("make", [gpt2, one_layer])
def test_constructed_ghosts_of_a_model_lower_its_distance_from_no_prompt(make):
    model = make()
    settings = GhostSettings(examples=3, restarts=2, steps=60, law=PromptLaw(n_dims=4))
    *_, last = construct(lambda *a: ask(model, *a), settings, torch.float64)
    assert (last.ghosts.mse < 0.6 * last.ghosts.start_mse).all()


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="construct 3 ghosts or take a prompt of 4 examples"):
        reshape_ghosts(one_layer(), *pairs(3, 1), *pairs(4, 2), QUERIES)
