"""Readings of a whole model: the same answers, lengths and prompts as asking it plainly."""

import numpy as np
import pytest
import torch

from core.prompts import PromptLaw, sample_prompts
from models import layer_reading
from models.config import RegressorConfig
from models.gpt2_regressor import GPT2Regressor
from models.keys_values import layer_states
from models.layer_reading import read_layers
from models.one_layer_attention import OneLayerAttention, OneLayerConfig

LAW = PromptLaw(n_dims=4)


def gpt2() -> GPT2Regressor:
    torch.manual_seed(0)
    model = GPT2Regressor(RegressorConfig(n_dims=4, n_positions=48, n_embd=16, n_layer=3, n_head=2))
    for name, param in model.named_parameters():
        if param.ndim == 2 and "wte" not in name:
            param.data.mul_(8)
    return model.double().eval().requires_grad_(False)


def prompts(law: PromptLaw = LAW, n: int = 5):
    return sample_prompts(law, n, 9, torch.Generator().manual_seed(1))


def test_predictions_are_the_models_at_every_length():
    model, drawn = gpt2(), prompts()
    found = read_layers(model, drawn)
    np.testing.assert_allclose(found.predictions, model(drawn.xs, drawn.ys).numpy(), atol=1e-9)
    assert found.heads.energy.shape == (5, 3, 2, 9)
    assert found.moved is not None
    assert found.moved.shape == (5, 3, 9)


def test_some_lengths_are_rows_of_all_lengths():
    model, drawn = gpt2(), prompts()
    every, some = read_layers(model, drawn), read_layers(model, drawn, (7, 2))
    np.testing.assert_array_equal(some.lengths, [2, 7])
    for name in ("energy", "fall", "own_fall", "margin", "effective", "best_weight", "own_weight"):
        expected = getattr(every.heads, name)[..., [2, 7]]
        np.testing.assert_allclose(getattr(some.heads, name), expected, atol=1e-9)
    np.testing.assert_allclose(some.moved, every.moved[..., [2, 7]], atol=1e-9)


def test_queries_elsewhere_give_the_same_readings_as_queries_in_place():
    model, drawn = gpt2(), prompts()
    counts = torch.arange(9)
    inside = layer_states(model, drawn.xs, drawn.ys)
    apart = layer_states(model, drawn.xs[:, :-1], drawn.ys[:, :-1], drawn.xs, counts)
    for name in (
        "keys",
        "values",
        "queries",
        "own_keys",
        "own_values",
        "queries_after",
        "residual",
    ):
        torch.testing.assert_close(getattr(inside, name), getattr(apart, name), atol=1e-9, rtol=0)
    assert torch.equal(inside.seen, apart.seen)


def test_prompts_with_their_own_query_are_read_at_it():
    model = gpt2()
    drawn = prompts(PromptLaw(n_dims=4, similarity=0.5))
    assert drawn.queries is not drawn.xs
    found = read_layers(model, drawn, (8,))
    longer = torch.cat((drawn.xs[:, :8], drawn.queries[:, 8:9]), 1)
    expected = model(longer, drawn.ys)[:, -1]
    np.testing.assert_allclose(found.predictions[:, 0], expected.numpy(), atol=1e-9)


def test_chunks_do_not_matter_and_each_runs_inside_the_gate(monkeypatch):
    model, drawn = gpt2(), prompts()
    whole = read_layers(model, drawn)
    monkeypatch.setattr(layer_reading, "TOKENS_PER_PASS", 40)
    entered = []

    class Gate:
        def __enter__(self):
            entered.append(1)

        def __exit__(self, *error):
            return None

    parts = read_layers(model, drawn, gate=Gate)
    assert len(entered) == 3  # 2 prompts of 18 tokens a pass
    np.testing.assert_allclose(parts.heads.energy, whole.heads.energy, atol=1e-9)


def test_a_one_layer_model_is_one_head_without_a_residual_stream():
    torch.manual_seed(0)
    model = OneLayerAttention(OneLayerConfig(4, 4, 5)).double().eval()
    found = read_layers(model, prompts())
    assert found.heads.energy.shape == (5, 1, 1, 9)
    assert found.moved is None
    assert np.isnan(found.heads.energy[..., 0]).all()
    assert np.isnan(found.heads.label_weight).all()
    assert (found.heads.own_weight[..., 1:] == 0).all()
    assert found.ranked("best weight")[0].head == 0


def test_refusals_say_what_to_do():
    with pytest.raises(ValueError, match="set n_dims to 4"):
        read_layers(gpt2(), prompts(PromptLaw(n_dims=3)))
    with pytest.raises(ValueError, match=r"lengths: expected numbers in 0\.\.8"):
        read_layers(gpt2(), prompts(), (9,))
    long = sample_prompts(LAW, 1, 30, torch.Generator().manual_seed(1))
    with pytest.raises(ValueError, match="take fewer"):
        read_layers(gpt2(), long)
