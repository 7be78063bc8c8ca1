"""Baselines at every length in one pass against one fit per prompt and position: numpy, sklearn."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from core.predictors import (
    BASELINES,
    Averaging,
    DecisionTree,
    GradientBoosting,
    LeastSquares,
    NearestNeighbours,
    Predictor,
    Ridge,
    baselines_for,
    influence,
)
from core.prompts import PromptLaw, Prompts, label_noise_variance, sample_prompts
from core.trees import TreeSettings, predict_prefixes


def draw(law: PromptLaw, n_prompts: int = 4, n_points: int = 60, seed: int = 0, **options):
    return sample_prompts(law, n_prompts, n_points, torch.Generator().manual_seed(seed), **options)


def one_by_one(prompts: Prompts, fit) -> torch.Tensor:
    """`fit(X, y) -> f` for every prompt and position, f asked at one query; the slow way."""
    preds = torch.zeros(prompts.ys.shape, dtype=torch.float64)
    for b in range(prompts.n_prompts):
        xs, ys, queries = (t[b].double().numpy() for t in (prompts.xs, prompts.ys, prompts.queries))
        for i in range(1, prompts.n_points):
            preds[b, i] = float(fit(xs[:i], ys[:i])(queries[i]))
    return preds


def lstsq(xs, ys):
    weights = np.linalg.lstsq(xs, ys, rcond=1e-11)[0]
    return lambda query: query @ weights


NOISY = dict(corruption="permuted", accuracy=0.7)
LAWS = {
    "training law": PromptLaw(),
    "wrong labels": PromptLaw(**NOISY),
    "mixture": PromptLaw(w2=0.3, **NOISY),
    "skewed": PromptLaw(covariates="skewed spectrum", **NOISY),
    "subspace": PromptLaw(covariates="half subspace", **NOISY),
    "subspace, asked outside": PromptLaw(covariates="half subspace", free_queries=True, **NOISY),
    "quadrants, asked outside": PromptLaw(
        covariates="random quadrants", free_queries=True, **NOISY
    ),
    "one query": PromptLaw(similarity=0.5, **NOISY),
    "all parallel": PromptLaw(similarity=1.0, **NOISY),
    "more dimensions than pairs": PromptLaw(n_dims=80, **NOISY),
    "one dimension": PromptLaw(n_dims=1, **NOISY),
    "scaled": PromptLaw(input_scale=1e3, **NOISY),
}


# --- Least squares -------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_least_squares_equals_numpy_at_every_position(law):
    prompts = draw(law)
    torch.testing.assert_close(
        LeastSquares()(prompts), one_by_one(prompts, lstsq), rtol=1e-8, atol=1e-8
    )


def test_least_squares_with_repeated_opposite_and_zero_inputs():
    """Dependent inputs anywhere, in some prompts only: the batch splits."""
    prompts = draw(PromptLaw(n_dims=6, **NOISY), n_prompts=6, n_points=20)
    xs = prompts.xs.clone()
    xs[0, 1] = xs[0, 0]
    xs[1, 3] = -2 * xs[1, 1] + xs[1, 0]
    xs[2, 0] = 0
    xs[3, 5:9] = xs[3, 0:4]
    xs[4] = 0
    prompts = replace(prompts, xs=xs, queries=xs)
    expected = one_by_one(prompts, lstsq)
    torch.testing.assert_close(LeastSquares()(prompts), expected, rtol=1e-8, atol=1e-8)
    assert (expected[4] == 0).all()


@pytest.mark.parametrize("closeness", [1e-2, 1e-4, 1e-6])
def test_least_squares_after_a_nearly_singular_start(closeness):
    """The last of D inputs is nearly a combination of the others: later answers keep digits.

    A fit on such inputs loses the digits of its condition number (up to 1e7 here) in any
    algorithm: hence rtol 1e-16 x 1e7 x 10 of the largest prediction, and as little afterwards.
    """
    prompts = draw(PromptLaw(**NOISY), n_prompts=3, n_points=60)
    xs = prompts.xs.clone()
    xs[:, 19] = xs[:, :19].mean(1) + closeness * xs[:, 19]
    prompts = replace(prompts, xs=xs, queries=xs)
    expected = one_by_one(prompts, lstsq)
    atol = 1e-8 * max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(LeastSquares()(prompts), expected, rtol=1e-8, atol=atol)


def test_least_squares_on_float32_prompts_sees_the_subspace():
    """Rounding to float32 leaves 1e-7 outside a subspace: not a new direction."""
    prompts = draw(PromptLaw(covariates="half subspace", **NOISY), dtype=torch.float32)
    expected = one_by_one(
        prompts,
        lambda xs, ys: lambda query: query @ np.linalg.lstsq(xs, ys, rcond=1e-5)[0],
    )
    preds = LeastSquares()(prompts)
    assert preds.dtype == torch.float64
    # the two drop different 1e-7 parts of the inputs; predictions are of order 10 to 100
    torch.testing.assert_close(preds, expected, rtol=1e-3, atol=1e-3)


@settings(max_examples=30, deadline=None)
@given(
    n_dims=st.integers(1, 7),
    n_points=st.integers(1, 14),
    seed=st.integers(0, 10**6),
    noisy=st.booleans(),
    apart=st.booleans(),
)
def test_least_squares_of_any_shape(n_dims, n_points, seed, noisy, apart):
    law = PromptLaw(n_dims=n_dims, covariates="isotropic", **(NOISY if noisy else {}))
    prompts = draw(law, 2, n_points, seed)
    if apart:
        prompts = replace(prompts, queries=draw(law, 2, n_points, seed + 1).xs)
    expected = one_by_one(prompts, lstsq)
    scale = max(1.0, float(expected.abs().max()))  # i = D may be close to singular by chance
    torch.testing.assert_close(LeastSquares()(prompts), expected, rtol=0, atol=1e-7 * scale)


# --- Ridge ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [1e-2, 8.0])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_ridge_equals_scikit_learn_at_every_position(law, penalty):
    prompts = draw(law, n_prompts=1, n_points=45)

    def fit(xs, ys):
        # the primal normal equations in scikit-learn lose cond^2 digits; its "svd" does not
        model = SklearnRidge(alpha=penalty, fit_intercept=False, solver="svd").fit(xs, ys)
        return lambda query: model.predict(query[None])[0]

    torch.testing.assert_close(
        Ridge(penalty)(prompts), one_by_one(prompts, fit), rtol=1e-8, atol=1e-8
    )


def test_ridge_tends_to_least_squares_and_equals_it_at_zero():
    prompts = draw(PromptLaw(**NOISY))
    exact = LeastSquares()(prompts)
    assert torch.equal(Ridge(0.0)(prompts), exact)
    gaps = [float((Ridge(10.0**-k)(prompts) - exact).abs().max()) for k in (4, 6, 8)]
    # the gap is first order in the penalty, with the smallest singular value setting its size
    assert gaps[1] < 0.02 * gaps[0]
    assert gaps[2] < 0.02 * gaps[1]


def test_ridge_at_the_true_noise_is_the_bayes_predictor():
    """Gaussian noise of known variance: its penalty beats others, paired over 2000 tasks."""
    law = PromptLaw(corruption="gaussian", accuracy=0.0, corruption_size=0.3)
    assert Ridge.for_law(law).penalty == pytest.approx(9.0)  # (0.3 x 10)^2 over prior variance 1
    prompts = draw(law, 2000, 26)

    def error(penalty):
        return (Ridge(penalty)(prompts) - prompts.targets)[:, 10:].square().mean(1)

    best = error(9.0)
    for factor in (0.25, 4.0):
        excess = error(9.0 * factor) - best
        assert excess.mean() > 3 * excess.std() / math.sqrt(2000)
    # the posterior variance x'Ax, A = (I + X'X/9)^-1, is the error a Bayes predictor must have
    xs = prompts.xs[:, :25]
    gram = torch.eye(20).double() + xs.mT @ xs / 9.0
    query = prompts.xs[:, 25].unsqueeze(2)
    expected = (query.mT @ torch.linalg.solve(gram, query)).flatten()
    got = (Ridge(9.0)(prompts) - prompts.targets)[:, 25].square()
    assert abs((got - expected).mean()) < 5 * (got - expected).std() / math.sqrt(2000)


def test_ridge_for_a_sparse_law_has_the_prior_variance_of_its_weights():
    law = PromptLaw(task="sparse linear", sparsity=5, **NOISY)
    assert Ridge.for_law(law).penalty == pytest.approx(label_noise_variance(law) / 0.25)


# --- Averaging, neighbours -----------------------------------------------------------------------


@pytest.mark.parametrize("law", [LAWS["wrong labels"], LAWS["one query"]], ids=["same", "one"])
def test_averaging_is_the_mean_of_x_y(law):
    prompts = draw(law)

    def fit(xs, ys):
        weights = (xs * ys[:, None]).mean(0)
        return lambda query: query @ weights

    torch.testing.assert_close(Averaging()(prompts), one_by_one(prompts, fit))


@pytest.mark.parametrize("k", [1, 3, 8, 9, 200])
@pytest.mark.parametrize("law", [LAWS["wrong labels"], LAWS["one query"]], ids=["same", "one"])
def test_neighbours_equal_scikit_learn(law, k):
    prompts = draw(law, n_prompts=2)

    def fit(xs, ys):
        model = KNeighborsRegressor(min(k, len(xs)), algorithm="brute").fit(xs, ys)
        return lambda query: model.predict(query[None])[0]

    torch.testing.assert_close(NearestNeighbours(k)(prompts), one_by_one(prompts, fit))


def test_neighbours_are_named_by_their_number():
    assert NearestNeighbours().name == "3 nearest neighbours"
    assert NearestNeighbours(1).name == "1 nearest neighbour"


# --- Trees ---------------------------------------------------------------------------------------


def agreed(prompts: Prompts, lengths, make) -> tuple[torch.Tensor, torch.Tensor]:
    """scikit-learn's predictions and where three of its random states agree on them.

    Where they differ several splits are equally good and the choice is arbitrary. Small leaves and
    many features make such ties the rule, so leaves of one point are tested with one feature.
    """
    runs = []
    for seed in range(3):
        preds = torch.full(prompts.ys.shape, math.nan).double()
        for b in range(prompts.n_prompts):
            xs, ys = prompts.xs[b].numpy(), prompts.ys[b].numpy()
            for i in lengths:
                model = make(seed).fit(xs[:i], ys[:i])
                preds[b, i] = model.predict(prompts.queries[b, i : i + 1].numpy())[0]
        runs.append(preds)
    same = (runs[0] - runs[1]).abs().maximum((runs[0] - runs[2]).abs()) < 1e-9
    return runs[0], same


TREE_LAW = PromptLaw(
    task="decision tree",
    n_dims=6,
    covariates="isotropic",
    corruption="gaussian",
    accuracy=0.0,
    corruption_size=0.3,
)


@pytest.mark.parametrize(
    ("depth", "min_leaf", "n_dims"), [(2, 4, 6), (4, 4, 6), (6, 5, 6), (1, 1, 1), (4, 1, 1)]
)
def test_tree_equals_scikit_learn_where_splits_are_unique(depth, min_leaf, n_dims):
    prompts = draw(replace(TREE_LAW, n_dims=n_dims), n_prompts=6, n_points=76)
    lengths = (1, 2, 3, 10, 20, 50, 75)
    expected, same = agreed(
        prompts,
        lengths,
        lambda seed: DecisionTreeRegressor(
            max_depth=depth, min_samples_leaf=min_leaf, random_state=seed
        ),
    )
    preds = DecisionTree(depth, min_leaf, lengths=lengths)(prompts)
    torch.testing.assert_close(preds[same], expected[same])
    assert same.sum() >= 0.9 * 6 * len(lengths)
    everywhere = DecisionTree(depth, min_leaf)(prompts)
    assert torch.equal(everywhere[:, lengths], preds[:, lengths])
    assert everywhere.isfinite().all()
    left_out = [i for i in range(76) if i not in lengths]
    assert preds[:, left_out].isnan().all()


def test_tree_with_tied_inputs_splits_between_different_values():
    """Inputs on a grid of three values; one split is far the best and sits halfway."""
    generator = torch.Generator().manual_seed(0)
    xs = torch.randint(0, 3, (2, 40, 3), generator=generator).double()
    ys = 10.0 * (xs[:, :, 1] > 1) + 0.01 * torch.randn(2, 40, generator=generator).double()
    prompts = Prompts(xs, ys, xs, ys)
    expected, same = agreed(
        prompts, (30,), lambda seed: DecisionTreeRegressor(max_depth=1, random_state=seed)
    )
    assert same[:, 30].all()
    torch.testing.assert_close(DecisionTree(1)(prompts)[:, 30], expected[:, 30])


def test_trees_do_not_hang_on_where_the_work_is_cut():
    prompts = draw(TREE_LAW, n_prompts=3, n_points=30)
    xs, ys, lengths = prompts.xs.numpy(), prompts.ys.numpy(), np.arange(30)
    boosted = TreeSettings(3, n_trees=5, learning_rate=0.1)
    whole, alone = (
        predict_prefixes(xs, ys, xs, lengths, boosted, chunk=chunk) for chunk in (10**9, 1)
    )
    np.testing.assert_array_equal(whole, alone)


def test_tree_on_long_prompts():
    """More than 2^9 points no longer fit the small integers that order them."""
    prompts = draw(replace(TREE_LAW, n_dims=1), n_prompts=1, n_points=701)
    expected, same = agreed(
        prompts, (700,), lambda seed: DecisionTreeRegressor(max_depth=4, random_state=seed)
    )
    assert same[0, 700]
    torch.testing.assert_close(DecisionTree(4, lengths=(700,))(prompts)[0, 700], expected[0, 700])


@pytest.mark.parametrize(("min_leaf", "n_dims"), [(1, 1), (8, 2)])
def test_boosting_equals_scikit_learn_where_splits_are_unique(min_leaf, n_dims):
    prompts = draw(replace(TREE_LAW, n_dims=n_dims), n_prompts=4, n_points=76)
    lengths = (20, 75)
    expected, same = agreed(
        prompts,
        lengths,
        lambda seed: GradientBoostingRegressor(
            n_estimators=20, max_depth=2, min_samples_leaf=min_leaf, random_state=seed
        ),
    )
    preds = GradientBoosting(20, 2, min_leaf=min_leaf, lengths=lengths)(prompts)
    torch.testing.assert_close(preds[same], expected[same])
    assert same.sum() >= 0.7 * 4 * len(lengths)


def test_one_boosted_tree_at_full_rate_is_a_tree():
    prompts = draw(TREE_LAW, n_prompts=3, n_points=40)
    torch.testing.assert_close(
        GradientBoosting(1, 3, 1.0, min_leaf=4)(prompts), DecisionTree(3, min_leaf=4)(prompts)
    )


# --- What every predictor promises ---------------------------------------------------------------

EVERY = [
    LeastSquares(),
    Ridge(2.0),
    Ridge(1e-7),
    Averaging(),
    NearestNeighbours(3),
    NearestNeighbours(9),
    DecisionTree(3),
    GradientBoosting(5, 2),
]


@pytest.mark.parametrize("predictor", EVERY, ids=repr)
class TestEveryPredictor:
    law = PromptLaw(n_dims=5, **NOISY)

    def test_sees_earlier_pairs_only(self, predictor):
        prompts = draw(self.law, 3, 30)
        preds = predictor(prompts)
        assert isinstance(predictor, Predictor)
        assert (preds[:, 0] == 0).all()
        for start in (0, 4, 12, 29):
            ys = prompts.ys.clone()
            ys[:, start:] += 1e3
            torch.testing.assert_close(
                predictor(replace(prompts, ys=ys))[:, : start + 1],
                preds[:, : start + 1],
                rtol=1e-9,
                atol=1e-9,
            )
            later = prompts.xs.clone()
            later[:, start + 1 :] = later[:, start + 1 :].flip(1) * 1.5 + 1
            torch.testing.assert_close(
                predictor(replace(prompts, xs=later, queries=later))[:, : start + 1],
                preds[:, : start + 1],
                rtol=1e-9,
                atol=1e-9,
            )

    def test_does_not_care_whether_queries_are_the_same_object(self, predictor):
        prompts = draw(self.law, 3, 30)
        torch.testing.assert_close(
            predictor(replace(prompts, queries=prompts.xs.clone())), predictor(prompts)
        )

    def test_does_not_care_about_other_prompts_or_later_positions(self, predictor):
        prompts = draw(self.law, 5, 30)
        preds = predictor(prompts)
        torch.testing.assert_close(predictor(prompts.take(slice(2, 4))), preds[2:4])
        torch.testing.assert_close(predictor(prompts.first(11)), preds[:, :11])

    def test_does_not_care_about_the_order_of_the_pairs(self, predictor):
        prompts = draw(self.law, 3, 30)
        order = torch.cat(
            [torch.randperm(29, generator=torch.Generator().manual_seed(1)), torch.tensor([29])]
        )
        xs, ys = prompts.xs[:, order], prompts.ys[:, order]
        shuffled = replace(prompts, xs=xs, ys=ys, queries=xs)
        if isinstance(predictor, DecisionTree | GradientBoosting):
            # splits that tie are broken by order; leaves of 4 and more leave no ties here
            predictor = replace(predictor, min_leaf=4)
        torch.testing.assert_close(
            predictor(shuffled)[:, 29], predictor(prompts)[:, 29], rtol=1e-9, atol=1e-9
        )

    def test_leaves_its_prompts_alone(self, predictor):
        prompts = draw(self.law, 2, 12)
        before = [t.clone() for t in (prompts.xs, prompts.ys, prompts.targets)]
        predictor(prompts)
        for tensor, copy in zip((prompts.xs, prompts.ys, prompts.targets), before, strict=True):
            assert torch.equal(tensor, copy)

    def test_answers_the_shortest_prompts(self, predictor):
        for n_points in (1, 2, 3):
            preds = predictor(draw(self.law, 2, n_points))
            assert preds.shape == (2, n_points)
            assert preds.isfinite().all()

    def test_influence_is_the_change_without_a_pair(self, predictor):
        prompts = draw(self.law, 2, 14)
        got = influence(predictor, prompts, 9, batch=4)
        assert got.shape == (2, 9)
        full = predictor(prompts)[:, 9]
        for j in (0, 4, 8):
            keep = torch.tensor([i for i in range(10) if i != j])
            shorter = Prompts(
                prompts.xs[:, keep], prompts.ys[:, keep], prompts.xs[:, keep], prompts.ys[:, keep]
            )
            torch.testing.assert_close(got[:, j], full - predictor(shorter)[:, 8])


def test_influence_of_ridge_is_the_leave_one_out_identity():
    """Linear smoothers: the residual left out is the residual over 1 - leverage."""
    prompts = draw(PromptLaw(n_dims=4, **NOISY), 2, 20)
    got = influence(Ridge(3.0), prompts, 15)
    for b in range(2):
        xs, ys = prompts.xs[b, :15], prompts.ys[b, :15]
        inverse = torch.linalg.inv(xs.T @ xs + 3 * torch.eye(4).double())
        weights = inverse @ xs.T @ ys
        leverage = (xs @ inverse * xs).sum(1)
        gain = (prompts.xs[b, 15] @ inverse @ xs.T) * (ys - xs @ weights) / (1 - leverage)
        torch.testing.assert_close(got[b], gain)


def test_influence_of_a_tree_at_some_lengths_is_not_nan():
    prompts = draw(TREE_LAW, 1, 20)
    assert influence(GradientBoosting(5, lengths=(3,)), prompts, 12).isfinite().all()


def test_influence_asks_the_query_of_its_position():
    prompts = draw(PromptLaw(similarity=0.5, n_dims=4, **NOISY), 2, 20)
    got = influence(LeastSquares(), prompts, 19)
    expected = LeastSquares()(prompts)[:, 19] - LeastSquares()(prompts)[:, 18]
    torch.testing.assert_close(got[:, 18], expected)  # the pair left out is the last


@pytest.mark.parametrize("position", [0, 20, -1])
def test_influence_refuses_a_position_without_pairs(position):
    with pytest.raises(ValueError, match=r"position: expected 1 to 19 .*, got"):
        influence(LeastSquares(), draw(PromptLaw(), 1, 20), position)


# --- The registry --------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["linear", "sparse linear", "decision tree", "relu net"])
def test_every_baseline_of_a_law_answers_it(task):
    law = PromptLaw(task=task, n_dims=5, covariates="isotropic", hidden=20, **NOISY)
    names = baselines_for(law)
    assert set(names) <= set(BASELINES)
    assert ("decision tree" in names) == (task == "decision tree")
    prompts = draw(law, 2, 12)
    for name in BASELINES:
        predictor = BASELINES[name](law)
        assert isinstance(predictor, Predictor)
        preds = predictor(prompts)
        assert preds.shape == prompts.ys.shape
        assert preds[:, 10].isfinite().all()


def test_bad_settings_are_refused():
    for penalty in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"penalty: expected a finite number >= 0"):
            Ridge(penalty)
    with pytest.raises(ValueError, match=r"k: expected a whole number of neighbours >= 1, got 0"):
        NearestNeighbours(0)
    with pytest.raises(ValueError, match=r"max_depth: expected a whole number from 1 to 12, got 0"):
        DecisionTree(0)
    with pytest.raises(ValueError, match=r"learning_rate: expected a number above 0"):
        GradientBoosting(learning_rate=0.0)
    with pytest.raises(ValueError, match=r"lengths: expected whole numbers >= 0"):
        DecisionTree(lengths=(-1,))
