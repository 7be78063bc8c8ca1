"""The transformer as a Predictor: asked position by position it says the same."""

import threading

import pytest
import torch
from transformers import GPT2Model

from core.predictors import Predictor
from core.prompts import PromptLaw, Prompts, sample_prompts
from models import predictor as predictors
from models.forward import predict
from models.one_layer_attention import OneLayerAttention, OneLayerConfig
from models.predictor import TransformerPredictor, attention


def prompts_of(n_points=8, n_prompts=5, **law) -> Prompts:
    generator = torch.Generator().manual_seed(1)
    return sample_prompts(PromptLaw(n_dims=3, **law), n_prompts, n_points, generator)


def one_by_one(model, prompts: Prompts) -> torch.Tensor:
    """preds[b, i] from a prompt that ends at the query: the definition, no masks, no batches."""
    preds = torch.zeros(prompts.n_prompts, prompts.n_points)
    for b in range(prompts.n_prompts):
        for i in range(prompts.n_points):
            xs = torch.cat((prompts.xs[b, :i], prompts.queries[b, i : i + 1]))[None].float()
            ys = torch.cat((prompts.ys[b, :i], torch.full((1,), 1e3)))[None].float()
            preds[b, i] = model(xs, ys)[0, i]  # the label of the query is absurd: never read
    return preds


@pytest.mark.parametrize("law", [{}, {"similarity": 0.5}, {"covariates": "isotropic"}])
def test_predictions_equal_asking_one_by_one(tiny_model, law):
    prompts = prompts_of(**law)
    found = TransformerPredictor(tiny_model)(prompts)
    expected = one_by_one(tiny_model, prompts)
    assert expected.std() > 0.1  # the model says something
    assert torch.allclose(found, expected, atol=1e-5 * float(expected.abs().max()))


def test_it_is_a_predictor(tiny_model):
    assert isinstance(TransformerPredictor(tiny_model), Predictor)


@pytest.mark.parametrize("n_points", [1, 2, 7, 16])
def test_lean_forward_equals_hugging_face(tiny_model, n_points):
    """float32 sums in another order: a few units in the last place of the largest value."""
    prompts = prompts_of(n_points, covariates="half subspace", free_queries=True).to(torch.float32)
    xs, ys, queries = prompts.xs, prompts.ys, prompts.queries
    for asked in (None, queries):
        expected = tiny_model(xs, ys, asked)
        assert torch.allclose(
            predict(tiny_model, xs, ys, asked), expected, atol=1e-5 * float(expected.abs().max())
        )


def test_chunks_and_gate(tiny_model, monkeypatch):
    prompts = prompts_of(n_points=8, n_prompts=10)
    whole = TransformerPredictor(tiny_model)(prompts)
    monkeypatch.setattr(predictors, "TOKENS_PER_PASS", 48)  # three prompts of 16 tokens
    semaphore, entered = threading.Semaphore(1), []

    def gate():
        entered.append(1)
        return semaphore

    chunked = TransformerPredictor(tiny_model, "t", gate)(prompts)
    assert torch.allclose(whole, chunked, atol=1e-5 * float(whole.abs().max()))
    assert len(entered) == 4
    assert semaphore.acquire(blocking=False)
    monkeypatch.setattr(predictors, "TOKENS_PER_PASS", 1)  # never less than a prompt
    assert TransformerPredictor(tiny_model)(prompts).shape == (10, 8)


def test_weights_and_settings_are_left_alone(tiny_model):
    before = {k: v.clone() for k, v in tiny_model.state_dict().items()}
    TransformerPredictor(tiny_model)(prompts_of())
    attention(tiny_model, prompts_of())
    assert all(torch.equal(v, before[k]) for k, v in tiny_model.state_dict().items())
    assert tiny_model.backbone.config._attn_implementation == "sdpa"


def test_longest_prompt_fits_and_one_more_is_refused(tiny_model):
    assert tiny_model.config.max_examples == 15
    predictor = TransformerPredictor(tiny_model)
    assert predictor(prompts_of(n_points=16)).isfinite().all()
    assert predictor(prompts_of(n_points=16, similarity=0.3)).isfinite().all()
    with pytest.raises(ValueError, match=r"at most 15 in-context examples fit.*got 16; shorten"):
        predictor(prompts_of(n_points=17))


def test_other_dimensions_are_refused(tiny_model):
    prompts = sample_prompts(PromptLaw(n_dims=2), 3, 4, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="reads inputs of 3 dimensions, the prompts have 2"):
        TransformerPredictor(tiny_model)(prompts)


def test_one_layer_attention_is_asked_the_same_way():
    torch.manual_seed(0)
    model = OneLayerAttention(OneLayerConfig(n_dims=3, n_key=3, n_value=4)).requires_grad_(False)
    for law in ({}, {"similarity": 0.5}):
        prompts = prompts_of(**law)
        found = TransformerPredictor(model)(prompts)
        assert torch.allclose(found, one_by_one(model, prompts), atol=1e-5)


# --- Attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [{}, {"similarity": 0.5}])
def test_attention_equals_hugging_face_eager(tiny_model, law):
    prompts, prompt, length = prompts_of(**law), 2, 6
    readout = attention(tiny_model, prompts, prompt, length)
    assert readout.weights.shape == (2, 2, length, 2)
    total = readout.weights.sum((2, 3)) + readout.itself
    assert torch.allclose(total, torch.ones_like(total), atol=1e-6)

    eager = GPT2Model._from_config(tiny_model.backbone.config, attn_implementation="eager")
    eager.load_state_dict(tiny_model.backbone.state_dict())
    xs = torch.cat((prompts.xs[prompt, :length], prompts.queries[prompt, length][None]))
    ys = torch.cat((prompts.ys[prompt, :length], torch.zeros(1)))
    tokens = tiny_model.embed(xs[None].float(), ys[None].float())[:, :-1]  # ends at the query
    seen = eager.eval()(inputs_embeds=tokens, output_attentions=True).attentions
    expected = torch.stack(seen)[:, 0, :, -1]  # (L, H, T)
    assert torch.allclose(readout.weights.flatten(2), expected[..., :-1], atol=1e-5)
    assert torch.allclose(readout.itself, expected[..., -1], atol=1e-5)
    assert expected.std() > 0.01  # heads prefer something


def test_attention_goes_with_the_prediction(tiny_model):
    prompts = prompts_of()
    preds = TransformerPredictor(tiny_model)(prompts)
    for length in (1, 4, 7):
        readout = attention(tiny_model, prompts, 3, length)
        assert float(readout.prediction) == pytest.approx(float(preds[3, length]), abs=1e-4)


def test_attention_of_one_layer_is_its_softmax():
    torch.manual_seed(0)
    model = OneLayerAttention(OneLayerConfig(n_dims=3, n_key=3, n_value=4)).requires_grad_(False)
    prompts = prompts_of()
    readout = attention(model, prompts, 1, 5)
    keys = model.keys(prompts.xs[1, :5].float())
    scores = model.beta * keys @ model.queries(prompts.queries[1, 5].float())
    assert torch.allclose(readout.weights[0, 0, :, 0], scores.softmax(0), atol=1e-6)
    assert not readout.itself.any()


@pytest.mark.parametrize(("prompt", "length"), [(5, 3), (-1, 3), (0, 0), (0, 8)])
def test_attention_refuses_places_that_do_not_exist(tiny_model, prompt, length):
    with pytest.raises(ValueError, match="expected"):
        attention(tiny_model, prompts_of(), prompt, length)
