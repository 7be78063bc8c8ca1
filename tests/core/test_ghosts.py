"""Prompt tuning on models whose answer is known, and reshaped attention on keys made by hand."""

import itertools

import numpy as np
import pytest
import torch

from core.ghosts import Ghosts, GhostSettings, attend, construct, reshaped_attention
from core.prompts import PromptLaw, label_scale, sample_prompts

LAW = PromptLaw(n_dims=3)


def averaging(xs, ys, queries):
    """`w = mean of x y`; without examples it answers the constant 5 (a model with a bias)."""
    if not xs.shape[1]:
        return torch.full(queries.shape[:2], 5.0)
    weights = (xs * ys[..., None]).mean(1, keepdim=True)
    return 5 + (weights * queries).sum(-1)


def last(settings: GhostSettings, ask=averaging) -> Ghosts:
    *_, progress = construct(ask, settings)
    return progress.ghosts


def test_ghosts_reach_the_answer_without_examples():
    """For this model exactly the ghosts with sum x y = 0 do; the search has to find some."""
    ghosts = last(GhostSettings(examples=4, law=LAW, steps=400, learning_rate=0.1))
    assert (ghosts.mse < 1e-4 * ghosts.start_mse).all()
    weights = (ghosts.xs * ghosts.ys[..., None]).mean(1)
    # the held-out error in closed form: E (w . c)^2 with c ~ N(-2, I)
    expected = weights.square().sum(-1) + 4 * weights.sum(-1).square()
    np.testing.assert_allclose(ghosts.mse, expected.numpy(), rtol=0.3, atol=1e-9)
    assert ghosts.reference == pytest.approx(25.0)
    assert ghosts.finished


def test_every_restart_is_the_search_it_would_be_alone():
    """Replayed one restart at a time with plain Adam on the queries that were drawn."""
    settings = GhostSettings(examples=2, restarts=3, law=LAW, steps=12, every=12)
    calls = []

    def watching(xs, ys, queries):
        calls.append((xs.detach().clone(), ys.detach().clone(), queries.detach().clone()))
        return averaging(xs, ys, queries)

    found = last(settings, watching)
    tuned = [call for call in calls if call[0].shape[1] and call[2].shape[1] == settings.queries]
    assert len(tuned) == 12
    scale = label_scale(LAW)
    for r in range(3):
        xs = tuned[0][0][r].clone().requires_grad_()
        ys = (tuned[0][1][r] / scale).clone().requires_grad_()
        adam = torch.optim.Adam([xs, ys], lr=0.05, betas=(0.9, 0.98))
        for step, (_, _, queries) in enumerate(tuned):
            for group in adam.param_groups:
                group["lr"] = 0.05 * 0.5 * (1 + np.cos(np.pi * step / 12))
            loss = (averaging(xs[None], scale * ys[None], queries[r : r + 1]) - 5).square().mean()
            assert found.losses[step, r] == pytest.approx(float(loss.detach()), rel=1e-3)
            adam.zero_grad()
            (loss / scale**2).backward()
            adam.step()
        torch.testing.assert_close(found.xs[r], xs.detach(), atol=1e-3, rtol=0)


def test_losses_are_those_of_the_step():
    progress = next(
        iter(construct(averaging, GhostSettings(examples=2, law=LAW, every=1, steps=3)))
    )
    assert progress.ghosts.losses.shape == (1, 4)
    # before the first update the expected loss is that of the start on other queries
    ratio = progress.ghosts.losses[0] / progress.ghosts.start_mse
    np.testing.assert_allclose(ratio, 1, atol=0.6)


def test_progress_comes_on_time_and_a_search_can_be_left():
    settings = GhostSettings(examples=2, law=LAW, steps=23, every=10)
    reports = list(construct(averaging, settings))
    assert [report.step for report in reports] == [10, 20, 23]
    assert [report.ghosts.finished for report in reports] == [False, False, True]
    assert all(report.of == 23 and report.seconds_left >= 0 for report in reports)
    search = construct(averaging, settings)
    kept = next(search).ghosts
    search.close()
    assert kept.xs.shape == (4, 2, 3)
    assert not kept.finished
    assert next(search, None) is None


def test_reports_are_not_changed_by_later_steps():
    search = construct(averaging, GhostSettings(examples=2, law=LAW, steps=40, every=5))
    first = next(search).ghosts
    before = first.xs.clone()
    list(itertools.islice(search, 3))
    assert torch.equal(first.xs, before)


def test_the_same_seed_gives_the_same_ghosts():
    settings = GhostSettings(examples=3, law=LAW, steps=15, seed=4)
    torch.testing.assert_close(last(settings).xs, last(settings).xs, atol=0, rtol=0)
    other = last(GhostSettings(examples=3, law=LAW, steps=15, seed=5))
    assert not torch.equal(other.xs, last(settings).xs)


def test_model_parameters_collect_no_gradient():
    weight = torch.ones(3, requires_grad=True)

    def ask(xs, ys, queries):
        return averaging(xs * weight, ys, queries) if xs.shape[1] else queries.sum(-1) * 0

    last(GhostSettings(examples=2, law=LAW, steps=3), ask)
    assert weight.grad is None


def test_where_the_search_began_and_what_labels_of_0_do():
    ghosts = last(GhostSettings(examples=2, law=LAW, steps=5))
    draw = torch.Generator().manual_seed(0)
    start = sample_prompts(LAW, 4, 2, draw, dtype=torch.float64)
    torch.testing.assert_close(ghosts.start_xs, start.xs.float(), atol=0, rtol=0)
    torch.testing.assert_close(ghosts.start_ys, start.ys.float())
    # averaging gives labels of 0 the weight 0: it answers 5, as without any example
    assert (ghosts.silent_mse == 0).all()
    held_out = sample_prompts(LAW, 256, 1, draw).queries[:, 0]
    answers = averaging(ghosts.start_xs, ghosts.start_ys, held_out.expand(4, -1, -1).float())
    np.testing.assert_allclose(ghosts.start_mse, (answers - 5).square().mean(1), rtol=1e-4)


def test_rank_condition_spread_and_best():
    ghosts = last(GhostSettings(examples=2, law=LAW, steps=5))
    sizes = np.linalg.svd(ghosts.xs.double().numpy(), compute_uv=False)
    np.testing.assert_allclose(ghosts.condition, sizes[:, 0] / sizes[:, -1], rtol=1e-9)
    assert (ghosts.rank == 2).all()
    assert ghosts.spread == (ghosts.mse.min(), np.median(ghosts.mse), ghosts.mse.max())
    assert ghosts.mse[ghosts.best] == ghosts.mse.min()
    np.testing.assert_allclose(ghosts.relative, ghosts.mse / label_scale(LAW) ** 2)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"examples": 0}, "examples: expected a whole number in"),
        ({"restarts": True}, "restarts: expected a whole number in"),
        ({"learning_rate": 0.0}, "learning_rate: expected a number in"),
        ({"examples": 500, "queries": 1000}, "lower one of them"),
    ],
)
def test_bad_settings_name_their_field(bad, message):
    with pytest.raises(ValueError, match=message):
        GhostSettings(**bad)


# ---- reshaped attention ------------------------------------------------------------------------


def heads(t: int, seed: int = 0, d: int = 6, v: int = 5) -> list[torch.Tensor]:
    """Ghost keys and values, keys, values, queries, own keys and values: 2 layers, 3 heads."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(t, d), (t, v), (t, d), (t, v), (4, d), (4, d), (4, v)]
    return [torch.randn(2, 3, *s, generator=generator, dtype=torch.float64) for s in shapes]


@pytest.mark.parametrize("own", [True, False])
def test_exact_maps_reproduce_attention(own):
    gk, gv, k, v, q, ok, ov = heads(5)
    found = reshaped_attention(gk, gv, k, v, q, 0.7, *((ok, ov) if own else ()))
    assert found.exact.all()
    assert found.error.max() < 1e-10
    assert found.moved_weight.max() < 1e-10
    assert found.error_ghosts.min() > 0.1
    assert (found.rank_keys == 5).all()
    torch.testing.assert_close(found.keys, k, atol=1e-9, rtol=0)


def test_inexact_maps_have_the_residual_of_the_projection():
    gk, gv, k, v, q, _, _ = heads(20)
    found = reshaped_attention(gk, gv, k, v, q, 0.7)
    assert not found.exact.any()
    ghosts, rows = gk[1, 2].numpy(), k[1, 2].numpy()
    projected = ghosts @ np.linalg.lstsq(ghosts, rows)[0]
    expected = np.linalg.norm(projected - rows) / np.linalg.norm(rows)
    assert found.residual_keys[1, 2] == pytest.approx(expected)
    np.testing.assert_allclose(found.expected_residual, np.sqrt(1 - 6 / 20))
    np.testing.assert_allclose(found.keys[1, 2].numpy(), projected, atol=1e-10)
    assert found.error.min() > 1e-3


def test_errors_are_of_the_outputs_at_the_queries():
    gk, gv, k, v, q, ok, ov = heads(9)
    found = reshaped_attention(gk, gv, k, v, q, 0.7, ok, ov)
    o, p = attend(k[0, 1], v[0, 1], q[0, 1], 0.7, ok[0, 1], ov[0, 1])
    new, moved = attend(found.keys[0, 1], found.values[0, 1], q[0, 1], 0.7, ok[0, 1], ov[0, 1])
    assert found.error[0, 1] == pytest.approx(float((new - o).norm() / o.norm()))
    assert found.moved_weight[0, 1] == pytest.approx(float((moved - p).abs().sum(-1).mean() / 2))
    left, _ = attend(gk[0, 1], gv[0, 1], q[0, 1], 0.7, ok[0, 1], ov[0, 1])
    assert found.error_ghosts[0, 1] == pytest.approx(float((left - o).norm() / o.norm()))


def test_attend_equals_scaled_dot_product_attention_over_memory_and_own_token():
    _, _, k, v, q, ok, ov = heads(7)
    out, weights = attend(k, v, q, 0.3, ok, ov)
    for i in range(4):
        keys, values = (
            torch.cat((k, ok[:, :, i : i + 1]), 2),
            torch.cat((v, ov[:, :, i : i + 1]), 2),
        )
        expected = torch.nn.functional.scaled_dot_product_attention(
            q[:, :, i : i + 1], keys, values, scale=0.3
        )
        torch.testing.assert_close(out[:, :, i : i + 1], expected)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4).double())


def test_one_map_across_heads_is_exact_for_more_ghosts():
    gk, gv, k, v, q, _, _ = heads(14)
    alone = reshaped_attention(gk, gv, k, v, q, 0.7)
    together = reshaped_attention(gk, gv, k, v, q, 0.7, across_heads=True)
    assert not alone.exact.any()
    assert together.exact.all()  # 14 ghosts in 3 x 6 key and 3 x 5 value dimensions
    assert (together.rank_keys == 14).all()
    torch.testing.assert_close(together.keys, k, atol=1e-9, rtol=0)
    torch.testing.assert_close(together.values, v, atol=1e-9, rtol=0)


def test_ridge_and_tolerance_reach_the_maps():
    gk, gv, k, v, q, _, _ = heads(5)
    ridged = reshaped_attention(gk, gv, k, v, q, 0.7, ridge=1.0)
    assert ridged.residual_keys.min() > 1e-3
    cut = reshaped_attention(gk, gv, k, v, q, 0.7, tolerance=0.9)
    assert (cut.rank_keys < 5).all()


def test_shapes_that_differ_are_refused():
    gk, gv, k, v, q, _, _ = heads(5)
    with pytest.raises(ValueError, match="construct ghosts of the prompt's length"):
        reshaped_attention(gk[..., :4, :], gv[..., :4, :], k, v, q, 0.7)
    with pytest.raises(ValueError, match="across_heads"):
        reshaped_attention(gk[0, 0], gv[0, 0], k[0, 0], v[0, 0], q[0, 0], 0.7, across_heads=True)
