"""Prompt laws against their definitions: moments in closed form, corruptions by construction."""

import json
import math
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from core import prompts as prompts_module
from core.prompts import (
    CORRUPTIONS,
    COVARIATES,
    TASKS,
    PromptLaw,
    departures,
    label_noise_variance,
    label_scale,
    random_cycle,
    sample_prompts,
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(law: PromptLaw, n_prompts: int = 64, n_points: int = 76, seed: int = 0, **options):
    return sample_prompts(law, n_prompts, n_points, seeded(seed), **options)


EVERY_LAW = [
    *(PromptLaw(covariates=name) for name in COVARIATES),
    *(PromptLaw(task=name, covariates="isotropic", n_dims=8) for name in TASKS),
    *(PromptLaw(corruption=name, accuracy=0.7) for name in CORRUPTIONS),
    PromptLaw(w2=0.3),
    PromptLaw(w2=0.3, mixing="prompt"),
    PromptLaw(random_share=0.7),
    PromptLaw(mean_spread=0.5),
    PromptLaw(similarity=0.5),
    PromptLaw(covariates="half subspace", free_queries=True),
    PromptLaw(covariates="random quadrants", free_queries=True),
    PromptLaw(input_scale=3.0),
]


# --- The law as a whole --------------------------------------------------------------------------


@pytest.mark.parametrize("law", EVERY_LAW, ids=repr)
def test_shapes_dtypes_and_one_generator(law):
    before = torch.get_rng_state()
    prompts = draw(law, 5, 7)
    assert torch.equal(torch.get_rng_state(), before), "the global generator was used"
    assert prompts.xs.shape == prompts.queries.shape == (5, 7, law.n_dims)
    assert prompts.ys.shape == prompts.targets.shape == prompts.clean_ys.shape == (5, 7)
    assert (prompts.n_prompts, prompts.n_points, prompts.n_dims) == (5, 7, law.n_dims)
    again = draw(law, 5, 7)
    assert torch.equal(prompts.xs, again.xs)
    assert torch.equal(prompts.ys, again.ys)
    single = draw(law, 5, 7, dtype=torch.float32)
    assert {t.dtype for t in (single.xs, single.ys, single.queries, single.targets)} == {
        torch.float32
    }
    elsewhere = law.similarity is not None or law.free_queries
    assert (prompts.queries is prompts.xs) == (not elsewhere)


def test_the_defaults_are_the_training_law_of_the_paper():
    prompts = draw(PromptLaw(), 2000, 20)
    flat = prompts.xs.flatten(0, 1)
    # standard error of a mean of 4e4 draws is 0.005, of a covariance entry up to 0.007
    torch.testing.assert_close(flat.mean(0), torch.full((20,), -2.0).double(), atol=0.03, rtol=0)
    torch.testing.assert_close(flat.T.cov(), torch.eye(20).double(), atol=0.04, rtol=0)
    weights = prompts.task_weights
    expected = torch.einsum("bpd,bd->bp", prompts.xs, weights)
    torch.testing.assert_close(prompts.ys, expected, rtol=1e-12, atol=1e-12)
    assert abs(weights.mean()) < 5 / math.sqrt(40_000)
    assert abs(weights.var() - 1) < 5 * math.sqrt(2 / 40_000)
    assert label_scale(PromptLaw()) == pytest.approx(10.0)


def test_a_law_survives_json():
    law = PromptLaw(task="sparse linear", similarity=0.25, corruption="heavy tail", accuracy=0.5)
    assert PromptLaw(**json.loads(json.dumps(asdict(law)))) == law
    assert asdict(PromptLaw(w2=1)) == asdict(PromptLaw(w2=1.0))


def test_settings_move_the_same_prompts():
    """Common random numbers: one seed, and only what a setting says changes."""
    base = draw(PromptLaw())
    shifted = draw(PromptLaw(w2=0.3))
    moved = (shifted.xs - base.xs).mean(2)
    assert torch.equal(base.task_weights, shifted.task_weights)
    assert ((moved.abs() < 1e-9) | ((moved - 4).abs() < 1e-9)).all()
    more = draw(PromptLaw(w2=0.5))
    assert ((more.xs - base.xs)[moved > 2].mean(1) > 2).all(), "w2 only adds inputs at +2"
    some, half = (draw(PromptLaw(corruption="gaussian", accuracy=a)) for a in (0.8, 0.5))
    assert torch.equal(some.clean_ys, half.clean_ys)
    assert (some.corrupted <= half.corrupted).all(), "accuracy only adds wrong labels"


def test_prompts_keep_shared_queries_when_cut_or_cast():
    prompts = draw(PromptLaw(corruption="permuted", accuracy=0.5), 6, 9)
    for cut in (
        prompts.take(slice(1, 4)),
        prompts.take(torch.tensor([0, 3])),
        prompts.first(5),
        prompts.to(torch.float32),
    ):
        assert cut.queries is cut.xs
        assert cut.targets is cut.clean_ys
    assert prompts.first(5).ys.shape == (6, 5)
    assert prompts.first(5).task_weights.shape == (6, 20)
    assert prompts.take(slice(1, 4)).corrupted.shape == (3, 9)
    assert prompts.to(torch.float32).corrupted.dtype == torch.bool
    elsewhere = draw(PromptLaw(similarity=0.5), 6, 9).first(4)
    assert elsewhere.queries is not elsewhere.xs


# --- Covariate laws ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "law",
    [
        PromptLaw(),
        PromptLaw(w2=0.3),
        PromptLaw(w2=0.3, mean1=-1.0, mean2=3.0, mixing="prompt"),
        PromptLaw(random_share=0.7, w2=0.1),
        PromptLaw(mean_spread=1.5),
        *(PromptLaw(covariates=name) for name in COVARIATES),
        PromptLaw(input_scale=3.0, w2=0.5),
    ],
    ids=repr,
)
def test_closed_form_moments_of_the_inputs(law):
    xs = draw(law, 4000, 12).xs / law.input_scale
    covariates = COVARIATES[law.covariates]
    per_prompt = xs.square().sum(2).mean(1)
    error = 5 * per_prompt.std() / math.sqrt(4000) + 1e-12
    assert abs(per_prompt.mean() - covariates.mean_square(law)) < error
    within = xs.var(1).sum(1)  # unbiased
    assert abs(within.mean() - covariates.spread(law)) < 5 * within.std() / math.sqrt(4000)


def test_a_mixture_picks_a_component_for_every_input_or_for_every_prompt():
    at_two = draw(PromptLaw(w2=0.3), 2000, 30).xs.mean(2) > 0  # means are 18 standard errors apart
    shares = at_two.double().mean(1)
    assert abs(shares.mean() - 0.3) < 5 * math.sqrt(0.21 / 60_000)
    assert shares.var() == pytest.approx(0.21 / 30, rel=0.2)
    per_prompt = draw(PromptLaw(w2=0.3, mixing="prompt"), 2000, 30).xs.mean(2) > 0
    assert (per_prompt.all(1) | (~per_prompt).all(1)).all()
    assert abs(per_prompt[:, 0].double().mean() - 0.3) < 5 * math.sqrt(0.21 / 2000)


def test_a_random_share_is_uniform_in_the_chosen_part_of_the_prompts():
    law = PromptLaw(random_share=0.7, n_dims=10)  # means are 12 standard errors apart
    shares = (draw(law, 4000, 50).xs.mean(2) > 0).double().mean(1)
    pure = (shares == 0).double().mean()
    # a uniform share leaves all 50 inputs at -2 with probability 1/51, any other count as well
    assert abs(pure - (0.3 + 0.7 / 51)) < 5 * math.sqrt(0.21 / 4000)
    mixed = shares[shares > 0]
    assert abs(mixed.mean() - 51 / 100) < 5 * math.sqrt(1 / 12 / len(mixed))


def test_skewed_spectrum_has_its_eigenvalues_in_a_basis_of_each_prompt():
    prompts = draw(PromptLaw(covariates="skewed spectrum", n_dims=5), 3, 40_000)
    expected = torch.arange(5, 0, -1).double().pow(-2)
    expected *= 5 / expected.sum()
    bases = []
    for xs in prompts.xs:
        values, vectors = torch.linalg.eigh(xs.T.cov())
        # relative standard error of a variance of 4e4 draws is 0.7 %
        torch.testing.assert_close(values, expected, rtol=0.05, atol=0)
        bases.append(vectors[:, -1])
    assert abs(bases[0] @ bases[1]) < 0.99


def test_half_subspace_spans_half_the_dimensions():
    prompts = draw(PromptLaw(covariates="half subspace", n_dims=9), 4, 30)
    assert (torch.linalg.matrix_rank(prompts.xs) == 4).all()
    free = draw(PromptLaw(covariates="half subspace", n_dims=9, free_queries=True), 4, 30)
    assert (torch.linalg.matrix_rank(free.xs) == 4).all()
    assert (torch.linalg.matrix_rank(free.queries) == 9).all()
    torch.testing.assert_close(
        free.targets, torch.einsum("bpd,bd->bp", free.queries, free.task_weights)
    )


def test_random_quadrants_keep_every_sign_within_a_prompt():
    signs = draw(PromptLaw(covariates="random quadrants")).xs.sign()
    assert (signs == signs[:, :1]).all()
    assert not (signs[0] == signs[1]).all()
    free = draw(PromptLaw(covariates="random quadrants", free_queries=True))
    assert torch.equal(free.queries.abs(), free.xs.abs())
    assert (free.queries.sign() != free.xs.sign()).any()


def test_input_scale_multiplies_inputs():
    base, scaled = draw(PromptLaw()), draw(PromptLaw(input_scale=0.5))
    torch.testing.assert_close(scaled.xs, 0.5 * base.xs)
    torch.testing.assert_close(scaled.ys, 0.5 * base.ys)


def test_active_dimensions_are_cut_before_labelling():
    base, cut = draw(PromptLaw()), draw(PromptLaw(), active_dims=3)
    assert (cut.xs[:, :, 3:] == 0).all()
    assert torch.equal(cut.xs[:, :, :3], base.xs[:, :, :3])
    torch.testing.assert_close(cut.ys, torch.einsum("bpd,bd->bp", cut.xs, base.task_weights))
    assert cut.queries is cut.xs


# --- Similarity ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cosine", [-1.0, -0.3, 0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("covariates", ["mixture", "isotropic"])
def test_similarity_is_exact_and_keeps_the_norms_of_the_law(cosine, covariates):
    law = PromptLaw(similarity=cosine, covariates=covariates)
    prompts = draw(law, 200, 40)
    query = prompts.queries[:, :1]
    assert (prompts.queries == query).all()
    assert (prompts.targets == prompts.targets[:, :1]).all()
    measured = torch.cosine_similarity(prompts.xs, prompts.queries, dim=2)
    torch.testing.assert_close(measured, torch.full_like(measured, cosine), atol=1e-12, rtol=0)
    plain = draw(replace(law, similarity=None), 200, 40)
    torch.testing.assert_close(prompts.xs.norm(dim=2), plain.xs.norm(dim=2))
    assert torch.equal(query[:, 0], plain.xs[:, -1]), "the query is a draw of the law"


def test_similarity_is_uniform_around_the_query():
    """In three dimensions the angle around the query is uniform: Kolmogorov-Smirnov."""
    prompts = draw(PromptLaw(similarity=0.4, n_dims=3, covariates="isotropic"), 1, 4000)
    unit = prompts.queries[0, 0] / prompts.queries[0, 0].norm()
    one = torch.linalg.cross(unit, torch.tensor([1.0, 0, 0]).double())
    one = one / one.norm()
    two = torch.linalg.cross(unit, one)
    angle = torch.atan2(prompts.xs[0] @ two, prompts.xs[0] @ one) / (2 * math.pi) + 0.5
    assert stats.kstest(angle.numpy(), "uniform").pvalue > 1e-3


# --- Tasks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n_dims", [5, 20])
def test_label_scale_is_the_root_mean_square_of_labels(task, n_dims):
    law = PromptLaw(task=task, n_dims=n_dims, covariates="isotropic", hidden=30)
    per_prompt = draw(law, 4000, 10).targets.square().mean(1)
    error = 5 * per_prompt.std() / math.sqrt(4000)
    assert abs(per_prompt.mean() - label_scale(law) ** 2) < error


def test_sparse_linear_has_its_number_of_weights():
    weights = draw(PromptLaw(task="sparse linear", sparsity=3), 3000, 2).task_weights
    assert ((weights != 0).sum(1) == 3).all()
    used = (weights != 0).double().mean(0)
    assert (abs(used - 3 / 20) < 5 * math.sqrt(0.1275 / 3000)).all()


@pytest.mark.parametrize("depth", [1, 4, 6])
def test_a_tree_task_is_a_walk_from_the_root(depth):
    law = PromptLaw(task="decision tree", tree_depth=depth, n_dims=6, covariates="isotropic")
    prompts = draw(law, 4, 20)
    coordinates, leaves = TASKS["decision tree"].draw(law, 4, seeded(), torch.float64)
    for b in range(4):
        for i in range(20):
            node = 0
            for _ in range(depth):
                node = 2 * node + (2 if prompts.xs[b, i, coordinates[b, node]] > 0 else 1)
            assert prompts.ys[b, i] == leaves[b, node - (2**depth - 1)]


def test_a_relu_net_task_is_the_formula_of_garg_et_al():
    law = PromptLaw(task="relu net", n_dims=6, hidden=50)
    prompts = draw(law, 3, 10)
    first, second = TASKS["relu net"].draw(law, 3, seeded(), torch.float64)
    for b in range(3):
        hidden = np.maximum(prompts.xs[b].numpy() @ first[b].numpy(), 0)
        expected = math.sqrt(2 / 50) * hidden @ second[b, :, 0].numpy()
        np.testing.assert_allclose(prompts.ys[b].numpy(), expected, rtol=1e-12, atol=1e-12)


# --- Corruptions ---------------------------------------------------------------------------------


@given(mask=st.lists(st.booleans(), min_size=1, max_size=40), seed=st.integers(0, 2**31))
def test_a_random_cycle_deranges_what_is_masked_and_nothing_else(mask, seed):
    mask = torch.tensor([mask])
    cycle = random_cycle(mask, seeded(seed))[0]
    own = torch.arange(mask.shape[1])
    assert torch.equal(cycle.sort().values, own), "a permutation"
    assert torch.equal(cycle[~mask[0]], own[~mask[0]])
    if mask.sum() > 1:
        assert (cycle[mask[0]] != own[mask[0]]).all(), "a derangement"
        start = place = int(own[mask[0]][0])
        visited = 0
        while visited == 0 or place != start:
            place, visited = int(cycle[place]), visited + 1
        assert visited == int(mask.sum()), "one cycle"


def test_random_cycles_are_uniform():
    """Four elements have 3! = 6 cycles; chi-square over 6000 draws."""
    cycles = random_cycle(torch.ones(6000, 4, dtype=torch.bool), seeded())
    kinds, counts = np.unique(cycles.numpy(), axis=0, return_counts=True)
    assert len(kinds) == 6
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("kind", [name for name in CORRUPTIONS if name != "none"])
def test_corruption_leaves_targets_clean_labels_and_the_last_position_alone(kind):
    law = PromptLaw(corruption=kind, accuracy=0.6)
    prompts, clean = draw(law), draw(PromptLaw())
    assert torch.equal(prompts.targets, clean.targets)
    assert torch.equal(prompts.clean_ys, clean.targets)
    assert torch.equal(prompts.ys[~prompts.corrupted], prompts.clean_ys[~prompts.corrupted])
    assert (prompts.ys[prompts.corrupted] != prompts.clean_ys[prompts.corrupted]).all()
    assert not prompts.corrupted[:, -1].any()
    assert (prompts.corrupted.sum(1) == 30).all()  # 0.4 of 75 pairs


def test_permuted_labels_are_the_same_labels():
    prompts = draw(PromptLaw(corruption="permuted", accuracy=0.2))
    for b in range(8):
        where = prompts.corrupted[b]
        assert torch.equal(
            prompts.ys[b, where].sort().values, prompts.clean_ys[b, where].sort().values
        )


def test_bias_flip_and_noise_are_what_they_say():
    def shown(kind, size=0.5, n=64):
        prompts = draw(PromptLaw(corruption=kind, accuracy=0.6, corruption_size=size), n_prompts=n)
        where = prompts.corrupted
        return prompts.ys[where], prompts.clean_ys[where]

    ys, clean = shown("constant bias")
    torch.testing.assert_close(ys - clean, torch.full_like(ys, 5.0))  # 0.5 x label_scale 10
    ys, clean = shown("sign flip")
    assert torch.equal(ys, -clean)
    ys, clean = shown("gaussian", n=300)
    assert stats.kstest((ys - clean).numpy() / 5, "norm").pvalue > 1e-3
    ys, clean = shown("heavy tail", n=300)
    unit_variance_t = stats.t(3, scale=1 / math.sqrt(3)).cdf
    assert stats.kstest((ys - clean).numpy() / 5, unit_variance_t).pvalue > 1e-3


@pytest.mark.parametrize("kind", [name for name in CORRUPTIONS if name != "heavy tail"])
@pytest.mark.parametrize(
    "law", [PromptLaw(), PromptLaw(w2=0.3), PromptLaw(task="sparse linear", input_scale=2.0)]
)
def test_label_noise_variance_is_the_mean_square_error_of_labels(kind, law):
    law = replace(law, corruption=kind, accuracy=0.6, corruption_size=0.5)
    prompts = draw(law, 4000, 26)
    per_prompt = (prompts.ys - prompts.clean_ys)[:, :-1].square().mean(1)
    expected = label_noise_variance(law)
    error = 5 * per_prompt.std() / math.sqrt(4000)
    assert abs(per_prompt.mean() - expected) <= error + 1e-9 * expected


def test_a_heavy_tail_has_the_variance_of_the_gaussian():
    """By closed form only: squares of t with 3 degrees of freedom have no variance."""
    heavy, gaussian = (
        label_noise_variance(PromptLaw(corruption=kind, accuracy=0.6, corruption_size=0.5))
        for kind in ("heavy tail", "gaussian")
    )
    assert heavy == gaussian == pytest.approx(0.4 * 25)
    assert stats.t(3, scale=1 / math.sqrt(3)).var() == pytest.approx(1)  # the law it is drawn from


@pytest.mark.parametrize("kind", ["permuted", "gaussian"])
@pytest.mark.parametrize(
    ("n_pairs", "accuracy"),
    [(30, 0.8), (75, 0.8), (7, 0.8), (15, 0.9), (4, 0.7), (2, 0.6), (40, 0)],
)
def test_every_prefix_has_the_share_in_expectation_and_the_whole_exactly(kind, n_pairs, accuracy):
    corrupted = draw(PromptLaw(corruption=kind, accuracy=accuracy), 4000, n_pairs + 1).corrupted
    counts = corrupted.sum(1)
    expected = (1 - accuracy) * n_pairs
    allowed = {math.floor(expected + 1e-9), math.ceil(expected - 1e-9)}
    if kind == "permuted" and 1 in allowed:
        allowed = (allowed - {1}) | {0, 2}
    assert set(counts.tolist()) <= allowed
    for prefix in range(1, n_pairs + 1):
        share = corrupted[:, :prefix].double().mean(1)
        error = 5 * share.std() / math.sqrt(4000)
        assert abs(share.mean() - (1 - accuracy)) <= error + 1e-12, prefix


def test_one_pair_cannot_be_permuted():
    assert not draw(PromptLaw(corruption="permuted", accuracy=0.0), 50, 2).corrupted.any()


# --- Departures from a training law --------------------------------------------------------------


def test_departures_name_what_matters_and_nothing_else():
    trained = PromptLaw()
    assert departures(trained, trained) == ()
    assert departures(PromptLaw(w2=0.3), trained) == ("w2",)
    assert departures(PromptLaw(mean2=5.0), trained) == ()  # no input is at mean2
    assert departures(PromptLaw(corruption_size=3.0), trained) == ()
    assert departures(PromptLaw(corruption="permuted"), trained) == ()  # every label is right
    wrong = departures(PromptLaw(corruption="permuted", accuracy=0.8), trained)
    assert wrong == ("corruption", "accuracy")
    assert departures(PromptLaw(covariates="isotropic", w2=0.5), trained) == ("covariates",)
    assert departures(PromptLaw(w2=0.3), PromptLaw(random_share=0.7)) == ()
    assert departures(PromptLaw(similarity=0.0), trained) == ("similarity",)
    assert departures(PromptLaw(n_dims=5), trained) == ("n_dims",)


# --- Refusals ------------------------------------------------------------------------------------

NUMBERS = [f.name for f in fields(PromptLaw) if isinstance(f.default, float)]
WHOLE = ["n_dims", "sparsity", "tree_depth", "hidden"]


@settings(max_examples=60)
@given(
    field=st.sampled_from([*NUMBERS, "similarity"]),
    value=st.sampled_from([math.nan, math.inf, -math.inf, 1e9, -1e9, True]),
)
def test_bad_numbers_are_refused_by_name(field, value):
    with pytest.raises(ValueError, match=rf"^{field}: expected a number from .*, got"):
        PromptLaw(**{field: value})


@given(field=st.sampled_from(WHOLE), value=st.sampled_from([0, -1, True, 10**9]))
def test_bad_counts_are_refused_by_name(field, value):
    with pytest.raises(ValueError, match=rf"^{field}: expected a whole number from .*, got"):
        PromptLaw(**{field: value})


@pytest.mark.parametrize("value", ["0.5", None, [1], 2 + 1j])
def test_other_types_are_refused_too(value):
    """The checks themselves: under these tests a type checker would step in before them."""
    with pytest.raises(ValueError, match="w2: expected a number from 0 to 1, got"):
        prompts_module._between("w2", value, 0.0, 1.0)
    with pytest.raises(ValueError, match="n_dims: expected a whole number from 1 to 9, got"):
        prompts_module._whole("n_dims", value, 1, 9)


@given(
    w2=st.floats(0, 1),
    accuracy=st.floats(0, 1),
    mean1=st.floats(-10, 10),
    similarity=st.none() | st.floats(-1, 1),
    corruption=st.sampled_from(list(CORRUPTIONS)),
    covariates=st.sampled_from(list(COVARIATES)),
    task=st.sampled_from(list(TASKS)),
    n_points=st.integers(1, 12),
)
@settings(max_examples=60, deadline=None)
def test_every_allowed_law_draws_finite_prompts(n_points, **values):
    law = PromptLaw(n_dims=4, hidden=7, tree_depth=2, **values)
    prompts = draw(law, 3, n_points)
    for tensor in (prompts.xs, prompts.ys, prompts.queries, prompts.targets):
        assert tensor.isfinite().all()


@pytest.mark.parametrize("field", ["task", "covariates", "corruption", "mixing"])
def test_unknown_names_are_refused_with_the_known_ones(field):
    with pytest.raises(ValueError, match=rf"^{field}: expected one of .*; got 'nonsense'"):
        PromptLaw(**{field: "nonsense"})


def test_settings_that_contradict_each_other_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match="Lower sparsity or raise n_dims"):
        PromptLaw(task="sparse linear", n_dims=2)
    with pytest.raises(ValueError, match="Raise n_dims"):
        PromptLaw(n_dims=1, similarity=0.5)
    with pytest.raises(ValueError, match="Raise n_dims"):
        PromptLaw(n_dims=1, covariates="half subspace")
    with pytest.raises(ValueError, match=r"^n_points: expected"):
        draw(PromptLaw(), 1, 0)
    with pytest.raises(ValueError, match=r"^n_prompts: expected"):
        draw(PromptLaw(), 0, 1)
    with pytest.raises(ValueError, match=r"^active_dims: expected a whole number from 1 to 20"):
        draw(PromptLaw(), 1, 1, active_dims=21)
