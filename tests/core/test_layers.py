"""Readings of heads made by hand, against the Hopfield network that they are."""

import numpy as np
import pytest
import scipy.special
import torch

from core.hopfield import energy_of, retrieve
from core.layers import RANKINGS, SEMANTICS, HeadReadings, LayerReading, distance_moved, read_heads


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


COUNTS = torch.tensor([0, 1, 3, 8])
SEEN = torch.arange(8) < COUNTS[:, None]


def test_every_reading_is_that_of_the_hopfield_network_over_the_keys_seen():
    queries, keys, own = draws(2, 3, 4, 5), draws(2, 3, 8, 5, seed=1), draws(2, 3, 4, 5, seed=2)
    after = draws(2, 3, 4, 5, seed=3)
    found = read_heads(queries, keys, SEEN, 0.6, own, after)
    for i, n in enumerate(COUNTS.tolist()):
        stored = torch.cat((keys[1, 2, :n], own[1, 2, i : i + 1]))
        query = queries[1, 2, i]
        scores = (stored @ query).numpy()
        p = scipy.special.softmax(0.6 * scores)
        before = float(energy_of(stored, query[None], 0.6)[0])
        assert found.energy[1, 2, i] == pytest.approx(before, abs=1e-11)
        one_update = torch.from_numpy(p) @ stored
        fall = before - float(energy_of(stored, one_update[None], 0.6)[0])
        assert found.fall[1, 2, i] == pytest.approx(fall / before, abs=1e-11)
        fall = before - float(energy_of(stored, after[1, 2, i][None], 0.6)[0])
        assert found.own_fall[1, 2, i] == pytest.approx(fall / before, abs=1e-11)
        assert found.effective[1, 2, i] == pytest.approx(np.exp(scipy.stats.entropy(p)))
        assert found.own_weight[1, 2, i] == pytest.approx(p[-1])
        if n:
            assert found.best_weight[1, 2, i] == pytest.approx(p[:-1].max())
            assert found.best[1, 2, i] == p[:-1].argmax()
            assert found.label_weight[1, 2, i] == pytest.approx(p[1:-1:2].sum())
            top = np.sort(scores)[::-1]
            assert found.margin[1, 2, i] == pytest.approx(top[0] - top[1])
        else:
            assert found.best_weight[1, 2, i] == 0
            assert found.best[1, 2, i] == -1
            assert np.isnan(found.margin[1, 2, i])


def test_one_update_is_the_first_step_of_a_retrieval():
    query, keys = draws(1, 5), draws(6, 5, seed=1)
    found = read_heads(query, keys, torch.ones(1, 6, dtype=torch.bool), 0.8)
    steps = retrieve(keys, query[0], 0.8)
    fall = float((steps.energies[0] - steps.energies[1]) / steps.energies[0])
    assert found.fall[0] == pytest.approx(fall, abs=1e-10)
    np.testing.assert_allclose(found.best_weight[0], float(steps.weights[0].max()))


def test_energy_never_rises_in_a_hopfield_update_and_its_share_is_at_most_one():
    queries, keys = 3 * draws(40, 4, 6), 3 * draws(40, 8, 6, seed=1)
    for beta in (0.05, 1.0, 30.0):
        found = read_heads(queries, keys, SEEN, beta, draws(40, 4, 6, seed=2))
        assert (found.energy >= -1e-9).all()
        assert (found.fall >= -1e-9).all()
        assert (found.fall <= 1 + 1e-9).all()


def test_a_head_that_copies_one_key_and_a_head_that_averages():
    keys = 4 * torch.eye(8, dtype=torch.float64)
    sharp = read_heads(10 * keys[2:3], keys, torch.ones(1, 8, dtype=torch.bool), 1.0)
    assert sharp.best[0] == 2
    assert sharp.best_weight[0] == pytest.approx(1)
    assert sharp.effective[0] == pytest.approx(1)
    assert sharp.margin[0] == pytest.approx(160)
    flat = read_heads(torch.zeros_like(keys[:1]), keys, torch.ones(1, 8, dtype=torch.bool), 1.0)
    assert flat.effective[0] == pytest.approx(8)
    assert flat.margin[0] == pytest.approx(0)
    assert flat.label_weight[0] == pytest.approx(0.5)


def test_a_query_that_sees_nothing_is_nan_everywhere():
    found = read_heads(draws(4, 5), draws(8, 5), SEEN, 1.0)
    for name in ("energy", "fall", "margin", "effective", "best_weight", "own_weight"):
        assert np.isnan(getattr(found, name)[0]), name
        assert np.isfinite(getattr(found, name)[3]), name
    assert np.isnan(found.own_fall).all()
    nothing = read_heads(draws(2, 5), draws(0, 5), torch.ones(2, 0, dtype=torch.bool), 1.0)
    assert np.isnan(nothing.energy).all()
    assert (nothing.best == -1).all()


def test_pairs_have_no_label_tokens():
    found = read_heads(draws(4, 5), draws(8, 5), SEEN, 1.0, interleaved=False)
    assert np.isnan(found.label_weight).all()


def test_float32_stays_close_at_large_scores():
    queries, keys = 20 * draws(4, 5), 20 * draws(8, 5, seed=1)
    exact = read_heads(queries, keys, SEEN, 1.0)
    single = read_heads(queries.float(), keys.float(), SEEN, 1.0)
    np.testing.assert_allclose(single.energy[1:], exact.energy[1:], rtol=1e-4)
    np.testing.assert_allclose(single.fall[1:], exact.fall[1:], atol=1e-4)


def test_distance_moved_is_relative_and_per_layer():
    residual = torch.zeros(1, 3, 1, 2, dtype=torch.float64)
    residual[0, :, 0] = torch.tensor([[3.0, 4.0], [3.0, 9.0], [3.0, 9.0]])
    np.testing.assert_allclose(distance_moved(residual), [[[1.0], [0.0]]])


def reading(best_weight: np.ndarray) -> LayerReading:
    """A reading whose heads differ in `best_weight (B, L, H, P)` only."""
    same = np.ones_like(best_weight)
    heads = HeadReadings(
        same, same, same, same, 1 / best_weight, best_weight, same.astype(int), same, same
    )
    n = best_weight.shape[-1]
    return LayerReading(heads, None, np.array([0, 5, 20])[:n], np.zeros((len(same), n)))


def test_ranking_orders_heads_by_the_mean_at_a_length():
    weights = np.full((2, 2, 2, 3), 0.1)
    weights[:, 1, 0, 2], weights[:, 0, 1, 2] = 0.9, 0.5
    weights[:, 0, 0, 1] = 0.8
    found = reading(weights)
    assert [(h.layer, h.head) for h in found.ranked()[:2]] == [(1, 0), (0, 1)]
    assert found.ranked()[0].score == pytest.approx(0.9)
    assert (found.ranked("best weight", 5)[0].layer, found.ranked("best weight", 5)[0].head) == (
        0,
        0,
    )
    fewest = found.ranked("few memories")
    assert (fewest[0].layer, fewest[0].head) == (1, 0)
    assert fewest[0].score < fewest[-1].score
    assert all(found.ranked(by) for by in RANKINGS)


def test_means_ignore_what_is_undefined():
    weights = np.full((3, 1, 1, 2), 0.5)
    weights[0, 0, 0, 0] = np.nan
    found = reading(weights)
    assert found.mean("best_weight")[0, 0, 0] == 0.5
    weights[:, 0, 0, 0] = np.nan
    assert np.isnan(reading(weights).mean("best_weight")[0, 0, 0])
    low, high = reading(np.linspace(0.1, 1, 10).reshape(10, 1, 1, 1)).band("best_weight")
    assert low[0, 0, 0] == pytest.approx(0.19)
    assert high[0, 0, 0] == pytest.approx(0.91)


def test_refusals_and_words():
    found = reading(np.full((1, 1, 1, 3), 0.5))
    with pytest.raises(ValueError, match="by: expected one of best weight"):
        found.ranked("size")
    with pytest.raises(ValueError, match="length: expected one of those read"):
        found.ranked(length=3)
    with pytest.raises(ValueError, match="beta: expected an inverse temperature"):
        read_heads(draws(1, 2), draws(1, 2), torch.ones(1, 1, dtype=torch.bool), 0.0)
    assert "analogy" in SEMANTICS
