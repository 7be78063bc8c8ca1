"""States of every layer against Hugging Face's own attention and the models' own answers."""

import pytest
import torch

from models.config import RegressorConfig, TrainingLaw
from models.gpt2_regressor import GPT2Regressor
from models.keys_values import answer_from, ask, layer_states
from models.one_layer_attention import OneLayerAttention, OneLayerConfig

D, PAIRS = 4, 6


def gpt2() -> GPT2Regressor:
    torch.manual_seed(0)
    config = RegressorConfig(
        n_dims=D,
        n_positions=32,
        n_embd=24,
        n_layer=3,
        n_head=2,
        target_scale=2.0,
        law=TrainingLaw(),
    )
    model = GPT2Regressor(config).double().eval()
    for (
        name,
        param,
    ) in model.named_parameters():  # far from HF's small start, so that weights differ
        if param.ndim == 2 and "wte" not in name:
            param.data.mul_(8)
    return model


def one_layer(normalised: bool = True) -> OneLayerAttention:
    torch.manual_seed(1)
    return OneLayerAttention(OneLayerConfig(D, 3, 5, normalised)).double().eval()


MODELS = {"gpt2": gpt2, "unit keys": one_layer, "raw keys": lambda: one_layer(False)}


def prompts(n_pairs: int = PAIRS, batch: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    xs = torch.randn(batch, n_pairs, D, generator=generator, dtype=torch.float64)
    return xs, torch.randn(batch, n_pairs, generator=generator, dtype=torch.float64)


@pytest.fixture(params=list(MODELS))
def model(request):
    return MODELS[request.param]()


@torch.no_grad()
def test_ask_equals_asking_one_by_one(model):
    xs, ys = prompts()
    queries = torch.randn(3, 4, D, generator=torch.Generator().manual_seed(3)).double()
    found = ask(model, xs, ys, queries)
    for i in range(4):
        longer = torch.cat((xs, queries[:, i : i + 1]), dim=1)
        alone = model(longer, torch.nn.functional.pad(ys, (0, 1), value=9.0))[:, -1]
        torch.testing.assert_close(found[:, i], alone, atol=1e-11, rtol=0)


@torch.no_grad()
def test_ask_without_examples_is_the_first_prediction(model):
    xs, ys = prompts()
    nothing = xs[:, :0], ys[:, :0]
    torch.testing.assert_close(
        ask(model, *nothing, xs[:, :1]), model(xs, ys)[:, :1], atol=1e-12, rtol=0
    )
    if isinstance(model, OneLayerAttention):
        assert torch.equal(ask(model, *nothing, xs), torch.zeros(3, PAIRS).double())


def test_ask_has_the_gradient_of_finite_differences(model):
    xs, ys = prompts(3, 1)
    queries = xs.flip(1).clone()
    assert torch.autograd.gradcheck(
        lambda xs, ys: ask(model, xs, ys, queries), (xs.requires_grad_(), ys.requires_grad_())
    )


@torch.no_grad()
def test_states_end_in_the_predictions_at_every_length(model):
    xs, ys = prompts()
    states = layer_states(model, xs[:, :-1], ys[:, :-1], xs, torch.arange(PAIRS))
    torch.testing.assert_close(states.predictions, model(xs, ys), atol=1e-11, rtol=0)


@torch.no_grad()
def test_states_equal_hugging_face_attention():
    model = gpt2()
    xs, ys = prompts()
    model.backbone.set_attn_implementation("eager")
    eager = model.backbone(
        inputs_embeds=model.embed(xs, ys), output_attentions=True, output_hidden_states=True
    )
    states = layer_states(model, xs[:, :-1], ys[:, :-1], xs, torch.arange(PAIRS))
    scores = states.beta * states.queries @ states.keys.mT
    scores = scores.masked_fill(~states.seen, -torch.inf)
    own = states.beta * (states.queries * states.own_keys).sum(-1, keepdim=True)
    weights = torch.cat((scores, own), dim=-1).softmax(-1)
    for layer in range(3):
        theirs = eager.attentions[layer]  # (B, H, 2 P, 2 P)
        for i in range(PAIRS):
            token = 2 * i
            ours = weights[:, layer, :, i]
            torch.testing.assert_close(
                ours[..., :token], theirs[:, :, token, :token], atol=1e-11, rtol=0
            )
            torch.testing.assert_close(
                ours[..., -1], theirs[:, :, token, token], atol=1e-11, rtol=0
            )
        # HF's last hidden state is after ln_f, the ones before are the residual stream
        hidden = eager.hidden_states[layer][:, ::2]
        torch.testing.assert_close(states.residual[:, layer], hidden, atol=1e-11, rtol=0)


@torch.no_grad()
def test_queries_after_are_asked_from_the_residual_that_attention_wrote():
    model = gpt2()
    xs, ys = prompts(3)
    caught = {}
    block = model.backbone.h[1]
    handle = block.ln_2.register_forward_hook(lambda module, args, out: caught.update(x=args[0]))
    model(xs, ys)
    handle.remove()
    expected = block.attn.c_attn(block.ln_1(caught["x"]))[:, ::2, :24]  # q comes first
    states = layer_states(model, xs[:, :-1], ys[:, :-1], xs, torch.arange(3))
    found = states.queries_after[:, 1].transpose(1, 2).flatten(2)
    torch.testing.assert_close(found, expected, atol=1e-11, rtol=0)


@torch.no_grad()
def test_answers_from_a_prompts_own_memory_are_its_answers(model):
    xs, ys = prompts(batch=1)
    queries = torch.randn(1, 5, D, generator=torch.Generator().manual_seed(4)).double()
    states = layer_states(model, xs, ys, queries)
    found = answer_from(model, states.keys[0], states.values[0], queries[0])
    torch.testing.assert_close(found, ask(model, xs, ys, queries)[0], atol=1e-11, rtol=0)


def test_refusals_say_what_to_do():
    xs, ys = prompts(16, 1)
    with pytest.raises(ValueError, match="at most 15 in-context examples fit, got 16; take fewer"):
        ask(gpt2(), xs, ys, xs)
    with pytest.raises(ValueError, match=r"counts: expected 16 numbers in 0\.\.16"):
        layer_states(one_layer(), xs, ys, xs, torch.arange(1, 18))
