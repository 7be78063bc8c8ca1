"""The one-layer model against its formula, its bounds and a head made by hand."""

import json

import numpy as np
import pytest
import scipy.special
import torch

from core.hidden_concept import softmax_attention
from models.one_layer_attention import OneLayerAttention, OneLayerConfig
from models.pretrain_attention import CHECKPOINTS, RECIPES, AttentionRecipe, pooled_r2, train


def model(normalised: bool = True) -> OneLayerAttention:
    torch.manual_seed(0)
    return OneLayerAttention(OneLayerConfig(5, 4, 6, normalised, 3.0)).double().eval()


def prompts(batch: int = 2, n: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    xs = torch.randn(batch, n, 5, generator=generator, dtype=torch.float64)
    return xs, torch.randn(batch, n, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("normalised", [True, False])
def test_prediction_is_the_formula(normalised):
    net = model(normalised)
    xs, ys = prompts()
    preds = net(xs, ys).detach().numpy()
    p = {name: value.detach().numpy() for name, value in net.named_parameters()}

    def scaled(vector):
        return vector / np.linalg.norm(vector) if normalised else vector

    for b in range(2):
        assert preds[b, 0] == 0
        for i in range(1, 7):
            query = scaled(p["query.weight"] @ xs[b, i].numpy() + p["query.bias"])
            scores, values = [], []
            for j in range(i):
                key = scaled(p["key.weight"] @ xs[b, j].numpy() + p["key.bias"])
                scores.append(np.exp(p["log_beta"]) * query @ key)
                values.append(p["value.weight"] @ np.append(xs[b, j].numpy(), ys[b, j] / 3.0))
            retrieved = scipy.special.softmax(scores) @ np.array(values)
            assert preds[b, i] == pytest.approx(
                3.0 * (p["read_out.weight"] @ retrieved)[0], abs=1e-12
            )


def test_unit_keys_bound_every_score_by_beta():
    net = model()
    xs, _ = prompts(50)
    scores = net.beta * net.queries(1e3 * xs) @ net.keys(xs).mT
    assert scores.abs().max() <= net.beta + 1e-9


def test_order_of_examples_is_nothing_and_later_ones_are_not_seen():
    net = model()
    xs, ys = prompts()
    order = torch.tensor([3, 1, 0, 2])
    mixed_xs, mixed_ys = xs.clone(), ys.clone()
    mixed_xs[:, :4], mixed_ys[:, :4] = xs[:, order], ys[:, order]
    torch.testing.assert_close(net(mixed_xs, mixed_ys)[:, 4:], net(xs, ys)[:, 4:])
    changed = ys.clone()
    changed[:, 4:] += 7
    torch.testing.assert_close(net(xs, changed)[:, :5], net(xs, ys)[:, :5], atol=0, rtol=0)


def test_queries_elsewhere_answer_after_the_same_pairs():
    net = model()
    xs, ys = prompts()
    torch.testing.assert_close(net(xs, ys, xs), net(xs, ys))
    queries = xs.flip(0)
    longer = torch.cat((xs[:, :4], queries[:, 4:5]), 1)
    torch.testing.assert_close(net(xs, ys, queries)[:, 4], net(longer, ys[:, :5])[:, 4])


def test_identity_head_is_softmax_attention():
    """W_K = W_Q = I, values y: the model is Nadaraya-Watson as in `core.hidden_concept`."""
    net = OneLayerAttention(OneLayerConfig(5, 5, 1, False, 1.0)).double()
    with torch.no_grad():
        for layer in (net.key, net.query):
            layer.weight.copy_(torch.eye(5))
            layer.bias.zero_()
        net.value.weight.copy_(torch.tensor([[0, 0, 0, 0, 0, 1.0]]))
        net.read_out.weight.fill_(1)
        net.log_beta.fill_(np.log(0.8))
    xs, ys = prompts()
    expected = softmax_attention(xs, ys[..., None], xs, 0.8)[..., 0]
    torch.testing.assert_close(net(xs, ys), expected)


def test_gradients_are_finite_at_the_empty_softmax():
    net = model()
    xs, ys = prompts(1, 3)
    net(xs.requires_grad_(), ys.requires_grad_()).sum().backward()
    assert xs.grad is not None
    assert xs.grad.isfinite().all()
    assert all(param.grad.isfinite().all() for param in net.parameters())


def test_a_saved_model_comes_back(tmp_path):
    net = model().float()
    net.save(tmp_path / "a")
    again = OneLayerAttention.load(tmp_path / "a")
    xs, ys = (t.float() for t in prompts())
    torch.testing.assert_close(again(xs, ys), net(xs, ys), atol=0, rtol=0)
    assert again.config == net.config
    assert not again.training


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "gpt2"}, 'expected|must be an object with "kind"'),
        ({"n_key": 0}, "n_key must be a whole number"),
        ({"n_key": True}, "n_key must be a whole number"),
        ({"colour": 1}, "unknown keys"),
        ({"normalised": 1}, "normalised must be true or false"),
        ({"target_scale": 0}, "target_scale must be a number in"),
        ({"law": {"task": "poetry"}}, "task must be one of"),
        ({"n_key": 7}, "weights do not fit config.json"),
    ],
)
def test_a_wrong_config_is_refused_by_name(tmp_path, change, message):
    model().float().save(tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=message):
        OneLayerAttention.load(tmp_path)


def test_training_learns_and_repeats_to_the_bit():
    from models.config import TrainingLaw

    law = TrainingLaw(n_examples=20)
    recipe = AttentionRecipe(
        OneLayerConfig(3, 3, 4, True, 3.873, law), steps=200, batch=32, lr=0.02
    )
    first, card = train(recipe, log_every=100)
    again, _ = train(recipe, log_every=100)
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    assert card["held_out"]["r2"]["15"] > 0.5
    assert card["held_out"]["r2_least_squares"]["15"] > 0.999


@pytest.mark.parametrize("name", list(RECIPES))
def test_the_committed_checkpoint_does_what_its_card_says(name):
    from models.pretrain_attention import prompts_of

    net = OneLayerAttention.load(CHECKPOINTS / name)
    card = json.loads((CHECKPOINTS / name / "card.json").read_text())
    assert net.config == RECIPES[name].model
    fresh = prompts_of(net.config, 1024, torch.Generator().manual_seed(5))
    with torch.no_grad():
        r2 = pooled_r2(net(fresh.xs, fresh.ys), fresh.targets)
    for position, stated in card["held_out"]["r2"].items():
        # 1024 prompts: the standard error of a pooled R^2 near 0.85 is about 0.008
        assert float(r2[int(position)]) == pytest.approx(stated, abs=0.04)
