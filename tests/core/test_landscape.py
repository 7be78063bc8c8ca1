import dataclasses
import math

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from core import landscape as module
from core.hopfield import ENERGIES, energy_of, retrieve, retrieve_batch, update
from core.landscape import (
    SEMANTICS,
    Landscape,
    LandscapeSettings,
    Side,
    energy_slice,
    landscape,
    plane_through,
    principal_plane,
    stationary_points,
)
from core.patterns import LAYOUTS, draw_patterns
from core.reshape import reshaping_map
from core.separation import separation
from tests import oracles

SMALL = LandscapeSettings(grid=31, starts=7)


def tensor(array):
    return torch.tensor(array, dtype=torch.float64)


# ---- the plane -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["query", "pca"])
@pytest.mark.parametrize("D", [2, 3, 30])
def test_planes_are_orthonormal_and_project(kind, D):
    points = oracles.normal(3 if kind == "query" else 8, D, seed=0)
    plane = plane_through(points) if kind == "query" else principal_plane(points)
    torch.testing.assert_close(plane.basis.mT @ plane.basis, torch.eye(2, dtype=torch.float64))
    others = oracles.normal(6, D, seed=1)
    # Oracle: the nearest point of the plane by least squares.
    expected, *_ = np.linalg.lstsq(plane.basis.numpy(), (others - plane.origin).numpy().T)
    np.testing.assert_allclose(plane.project(others), expected.T, atol=1e-12)
    rest = (others - plane.origin).numpy().T - plane.basis.numpy() @ expected
    np.testing.assert_allclose(plane.off_plane(others), np.linalg.norm(rest, axis=0), atol=1e-12)
    coordinates = oracles.normal(6, 2, seed=2)
    torch.testing.assert_close(plane.project(plane.lift(coordinates)), coordinates)
    if kind == "query":
        assert plane.off_plane(points).max() < 1e-12


def test_two_dimensions_are_shown_as_they_are():
    points = oracles.normal(3, 2, seed=0)
    for plane in (plane_through(points), principal_plane(points)):
        assert plane.kind == "identity"
        assert torch.equal(plane.project(points), points)


def test_principal_plane_equals_scikit_learn_up_to_signs():
    points = oracles.normal(12, 7, seed=0)
    expected = PCA(2).fit(points.numpy())
    plane = principal_plane(points)
    np.testing.assert_allclose(plane.origin, expected.mean_, atol=1e-12)
    np.testing.assert_allclose(
        np.abs(plane.basis.numpy().T @ expected.components_.T), np.eye(2), atol=1e-9
    )
    assert (plane.basis.gather(0, plane.basis.abs().argmax(dim=0, keepdim=True)) > 0).all()


@pytest.mark.parametrize("D", [2, 3, 9])
def test_points_that_span_less_than_a_plane_still_get_one(D):
    point = oracles.normal(1, D, seed=0)
    for points in (point.expand(3, -1), torch.cat([point, 2 * point, 3 * point]), 0 * point):
        points = points.expand(3, -1)
        for plane in (plane_through(points), principal_plane(points)):
            torch.testing.assert_close(
                plane.basis.mT @ plane.basis, torch.eye(2, dtype=torch.float64)
            )


# ---- energies on the grid --------------------------------------------------------------------


@pytest.mark.parametrize("name", ENERGIES)
@pytest.mark.parametrize("beta", [0.01, 1.0, 8.0, 50.0, 300.0, 1000.0])
@pytest.mark.parametrize("norm", [1.0, 100.0])
def test_slice_equals_the_energy_of_every_grid_point(name, beta, norm):
    """Both sides of the block-size threshold of the log-sum-exp grid, and far into overflow."""
    Xi = norm * oracles.normal(17, 6, seed=0) / math.sqrt(6)
    plane = plane_through(Xi[:3])
    xs = torch.linspace(-1.5 * norm, 2.0 * norm, 53, dtype=torch.float64)
    ys = torch.linspace(-2.2 * norm, 1.3 * norm, 41, dtype=torch.float64)
    points = torch.stack([xs.repeat(41), ys.repeat_interleave(53)], dim=1)
    states = plane.lift(points)
    expected = energy_of(Xi, states, beta, name).reshape(41, 53)
    found = energy_slice(Xi, plane, xs, ys, beta, name)
    size = Xi.square().sum(dim=1).max() + states.square().sum(dim=1).max()
    tolerance = 1e-5 if name in ("polynomial", "sparse") else 1e-12  # float32 scores, as documented
    assert (found - expected).abs().max() <= tolerance * size


def test_float32_grids_keep_their_tolerance_at_the_size_of_the_page():
    """M = D = 64 at 201 x 201: error far below one of 256 colour steps. Every 7th point checked."""
    Xi = draw_patterns("random", 64, 64, oracles.generator(0))
    plane = plane_through(Xi[:3])
    axis = torch.linspace(-1.3, 1.3, 201, dtype=torch.float64)
    points = torch.stack([axis.repeat(201), axis.repeat_interleave(201)], dim=1)[::7]
    for name in ("polynomial", "sparse"):
        for beta in (1.0, 8.0, 50.0):
            expected = energy_of(Xi, plane.lift(points), beta, name)
            found = energy_slice(Xi, plane, axis, axis, beta, name).flatten()[::7]
            span = float(expected.max() - expected.min())
            assert float((found - expected).abs().max()) < 2e-6 * max(span, 1)


def test_a_new_energy_needs_no_fast_path(monkeypatch):
    row = dataclasses.replace(ENERGIES["sparse"], name="other")
    monkeypatch.setitem(ENERGIES, "other", row)
    Xi = oracles.normal(5, 4, seed=0)
    plane, axis = plane_through(Xi[:3]), torch.linspace(-1, 1, 11, dtype=torch.float64)
    torch.testing.assert_close(
        energy_slice(Xi, plane, axis, axis, 3.0, "other"),
        energy_slice(Xi, plane, axis, axis, 3.0, "sparse"),
        rtol=0,
        atol=1e-5,
    )
    settings = dataclasses.replace(SMALL, energy="other", grid=9, starts=3)
    assert np.isfinite(landscape(settings).after.energy).all()


# ---- stationary points -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ENERGIES)
@pytest.mark.parametrize("beta", [1.0, 4.0, 12.0, 60.0])
def test_stationary_points_are_stationary_and_starts_end_in_them(name, beta):
    Xi = draw_patterns("random", 8, 3, oracles.generator(1))
    plane = plane_through(Xi[:3])
    axis = torch.linspace(-1.2, 1.2, 6, dtype=torch.float64)
    starts = plane.lift(torch.cartesian_prod(axis, axis))
    found, basins = stationary_points(Xi, starts, beta, name, plane)
    states = tensor(found.states)
    slope = torch.func.vmap(torch.func.grad(ENERGIES[name].function, argnums=1), (None, 0, None))(
        Xi, states, beta
    )
    assert slope.norm(dim=1).max() < 1e-7
    np.testing.assert_allclose(found.energies, energy_of(Xi, states, beta, name))
    assert (np.diff(found.energies) >= 0).all()
    np.testing.assert_allclose(found.points, plane.project(states))
    np.testing.assert_allclose(found.off_plane, plane.off_plane(states))
    apart = torch.cdist(states, states) + 10 * torch.eye(len(states), dtype=torch.float64)
    assert apart.min() > 1e-3
    counts = np.bincount(basins[basins >= 0], minlength=len(states))
    np.testing.assert_allclose(found.share, counts / len(starts))
    # Starts end where retrieval in float64 takes them, unless one sits on a ridge, where rounding
    # chooses the side.
    paths = retrieve_batch(Xi, starts, beta, name, max_steps=4000)
    agree = (paths.states - states[basins]).norm(dim=1) < 1e-3
    assert float(agree.double().mean()) >= 0.9
    assert (basins >= 0).mean() >= 0.9


@pytest.mark.parametrize("name", ["polynomial", "sparse"])
@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_slow_starts_that_go_on_together_end_where_each_would_alone(name, beta):
    """At the size of the page, where retrieval takes hundreds of steps."""
    Xi = draw_patterns("random", 64, 64, oracles.generator(3))
    plane = plane_through(Xi[:3])
    axis = torch.linspace(-1.2, 1.2, 9, dtype=torch.float64)
    starts = plane.lift(torch.cartesian_prod(axis, axis))
    found, basins = stationary_points(Xi, starts, beta, name, plane)
    alone = retrieve_batch(Xi, starts, beta, name, max_steps=5000)
    known = torch.from_numpy(basins >= 0) & alone.converged
    assert known.double().mean() >= 0.9
    ends = tensor(found.states)[basins]
    agree = (alone.states - ends).norm(dim=1)[known] < 2e-3
    assert agree.double().mean() >= 0.97


def test_the_deepest_point_is_never_above_a_descent_from_the_lowest_point_of_the_slice():
    for energy in ENERGIES:
        for beta in (1.0, 8.0):
            settings = dataclasses.replace(
                SMALL, energy=energy, beta=beta, memories=9, dimension=20
            )
            result = landscape(settings)
            side, memories = result.after, tensor(result.after.memories)
            bottom = result.plane.lift(tensor(side.slice_minimum)[None])[0]
            end = retrieve(memories, bottom, beta, energy, max_steps=5000)
            assert side.space_energy <= float(end.energies[-1]) + 1e-9


@pytest.mark.parametrize("stiffness", [0.5, 1.1, 3.0])
def test_two_opposite_patterns_minima_and_the_saddle_between(stiffness):
    a = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    Xi = torch.stack([a, -a])
    starts = torch.stack([0.9 * a, -0.9 * a, 0 * a])  # the last is on the ridge, exactly
    found, basins = stationary_points(Xi, starts, stiffness)
    amplitude = oracles.two_pattern_amplitude(stiffness)
    if stiffness < 1:
        assert found.kinds == ("minimum",)
        assert basins.tolist() == [0, 0, 0]
        np.testing.assert_allclose(found.states, [[0, 0, 0]], atol=1e-8)
    else:
        assert found.kinds == ("minimum", "minimum", "saddle")
        assert basins[2] == 2
        expected = sorted([amplitude, -amplitude])
        np.testing.assert_allclose(sorted(found.states[:2, 0]), expected, atol=1e-8)
        np.testing.assert_allclose(found.states[2], 0, atol=1e-12)


def test_outcome_words_of_stationary_points():
    Xi = oracles.orthogonal_rows(4, 6, seed=0)
    found, _ = stationary_points(Xi, Xi, 40.0)
    assert sorted(found.outcome) == [f"retrieved {mu}" for mu in range(4)]
    assert stationary_points(Xi, Xi, 0.1)[0].outcome == ("global average",)


# ---- the whole page --------------------------------------------------------------------------


@pytest.mark.parametrize("energy", ENERGIES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("plane", ["query", "pca"])
@pytest.mark.parametrize(("D", "M", "t"), [(2, 5, 5), (12, 6, 3), (12, 3, 7), (6, 9, 12)])
def test_everything_a_page_draws_is_there_and_finite(energy, layout, plane, D, M, t):
    settings = dataclasses.replace(
        SMALL, energy=energy, layout=layout, plane=plane, dimension=D, memories=M, examples=t
    )
    result = landscape(settings)
    assert result.plane.kind == ("identity" if D == 2 else plane)
    assert result.query.shape == (D,)
    assert result.examples.shape == (t, D)
    assert result.pairs.tolist() == [j % M for j in range(t)]
    for side in (result.before, result.after):
        steps = len(side.path)
        assert side.energy.shape == (31, 31)
        assert side.memories.shape == (M, D)
        assert side.points.shape == (M, 2)
        assert side.weights.shape == (steps, M)
        assert side.path_energies.shape == side.path_off_plane.shape == (steps,)
        assert (np.diff(side.path_energies) <= 1e-12).all()
        np.testing.assert_allclose(side.path[0], result.query_point)
        assert side.basins.shape == (7, 7)
        for field in dataclasses.fields(Side):
            value = getattr(side, field.name)
            if isinstance(value, np.ndarray | float) and not field.name.startswith("bound_"):
                assert np.isfinite(value).all(), field.name
        assert np.isfinite(side.bound_ramsauer) == side.bounds_apply
        assert side.slice_energy == side.energy.min()
        # The slice lies in the space: its minimum cannot be lower than that of the space.
        assert side.space_energy <= side.slice_energy + 1e-6
        low, high = result.colour_range
        assert low <= side.energy.min()
        assert side.energy.max() <= high
        for points in (side.points, result.example_points, result.query_point[None]):
            assert (points[:, 0] > result.xs[0]).all()
            assert (points[:, 0] < result.xs[-1]).all()
            assert (points[:, 1] > result.ys[0]).all()
            assert (points[:, 1] < result.ys[-1]).all()
    np.testing.assert_array_equal(result.difference, result.after.energy - result.before.energy)


def test_numbers_equal_the_functions_they_come_from():
    settings = dataclasses.replace(SMALL, strength=0.7, ridge=0.1, beta=6.0)
    result = landscape(settings)
    Xi, query = tensor(result.before.memories), tensor(result.query)
    W1 = reshaping_map(tensor(result.examples), Xi[result.pairs], ridge=0.1)
    np.testing.assert_allclose(result.after.memories, 0.3 * Xi + 0.7 * Xi @ W1.mT, atol=1e-12)
    for side in (result.before, result.after):
        memories = tensor(side.memories)
        np.testing.assert_allclose(side.delta, separation(memories))
        assert side.margin == pytest.approx(oracles.margin(side.memories, result.query, 0))
        error = (update(memories, query, 6.0) - memories[0]).norm()
        assert side.error == pytest.approx(float(error))
        path = retrieve(memories, query, 6.0, target=0)
        np.testing.assert_allclose(side.path_energies, path.energies, atol=1e-12)
        assert side.outcome == path.outcome
        centre = result.plane.lift(tensor([[result.xs[20], result.ys[4]]]))
        expected = float(energy_of(memories, centre, 6.0)[0])
        assert side.energy[4, 20] == pytest.approx(expected, abs=1e-12)


# ---- semantics -------------------------------------------------------------------------------


def test_with_as_many_examples_as_memories_reshaping_is_exact():
    result = landscape(dataclasses.replace(SMALL, dimension=10, memories=6, examples=6))
    np.testing.assert_allclose(result.after.memories, result.examples, atol=1e-10)
    assert result.reshaping.keys.exact
    assert result.reshaping.values.exact


def test_strength_zero_leaves_the_landscape_and_never_touches_the_left_side():
    none = landscape(dataclasses.replace(SMALL, strength=0.0))
    full = landscape(dataclasses.replace(SMALL, strength=1.0))
    np.testing.assert_allclose(none.after.energy, none.before.energy, atol=1e-12)
    np.testing.assert_array_equal(none.before.energy, full.before.energy)
    np.testing.assert_array_equal(none.xs, full.xs)


def test_memories_without_an_example_lose_what_lies_off_the_ghosts():
    result = landscape(dataclasses.replace(SMALL, dimension=20, memories=5, examples=2))
    ghosts, examples = result.before.memories[:2], result.examples
    np.testing.assert_allclose(result.after.memories[:2], examples, atol=1e-10)
    coefficients = np.linalg.lstsq(ghosts.T, result.before.memories[4])[0]
    np.testing.assert_allclose(result.after.memories[4], coefficients @ examples, atol=1e-10)


def test_examples_that_share_a_ghost_pull_it_to_their_mean():
    result = landscape(dataclasses.replace(SMALL, dimension=20, memories=3, examples=6))
    for mu in range(3):
        mean = result.examples[result.pairs == mu].mean(axis=0)
        np.testing.assert_allclose(result.after.memories[mu], mean, atol=1e-10)
    assert not result.reshaping.keys.exact
    assert result.reshaping.keys.rank == 3
    assert "6 examples" in result.reshaping.keys.reason


def test_lemma_22_as_a_preset():
    """shift 0 and the query as an example: only the target's memory moves, onto the query."""
    settings = dataclasses.replace(SMALL, shift=0.0, noise=0.6, query_as_example=True)
    result = landscape(settings)
    np.testing.assert_allclose(result.after.memories[0], result.query, atol=1e-10)
    np.testing.assert_allclose(result.after.memories[1:], result.before.memories[1:], atol=1e-10)
    gain = result.after.margin - result.before.margin
    assert gain == pytest.approx(result.margin_gain_predicted, abs=1e-9)


def test_a_query_as_example_finds_a_place_when_its_memory_has_none():
    settings = dataclasses.replace(SMALL, memories=5, examples=2, query_as_example=True)
    base = landscape(settings)
    click = tuple(base.before.points[3].tolist())
    result = landscape(dataclasses.replace(settings, query_at=click))
    assert result.target in result.pairs
    row = int(np.flatnonzero(result.pairs == result.target)[0])
    np.testing.assert_array_equal(result.examples[row], result.query)


def test_a_click_sets_the_query_and_moves_nothing_else():
    base = landscape(SMALL)
    result = landscape(dataclasses.replace(SMALL, query_at=(0.1, -0.2)))
    np.testing.assert_allclose(result.query_point, [0.1, -0.2], atol=1e-12)
    assert result.query_off_plane < 1e-12
    assert torch.equal(base.plane.basis, result.plane.basis)
    np.testing.assert_array_equal(base.before.memories, result.before.memories)
    np.testing.assert_array_equal(base.examples, result.examples)
    assert result.target == int((result.before.memories @ result.query).argmax())


def test_one_slider_leaves_the_other_draws_alone():
    base = landscape(SMALL)
    more = landscape(dataclasses.replace(SMALL, memories=7, examples=7))
    np.testing.assert_array_equal(more.before.memories[:4], base.before.memories)
    np.testing.assert_array_equal(more.examples[:4], base.examples)
    np.testing.assert_array_equal(more.query, base.query)
    louder = landscape(dataclasses.replace(SMALL, noise=0.6))
    memory = base.before.memories[0]
    np.testing.assert_allclose(louder.query - memory, 2 * (base.query - memory), atol=1e-12)
    other = landscape(dataclasses.replace(SMALL, seed=1))
    assert not np.array_equal(other.query, base.query)


def test_results_come_from_the_seed_alone():
    torch.manual_seed(0)
    first = landscape(SMALL)
    torch.manual_seed(1)
    np.testing.assert_array_equal(first.after.energy, landscape(SMALL).after.energy)


def test_uploaded_patterns_replace_the_layout():
    table = ((1.0, 2.0, 0.0), (0.0, -3.0, 1.0), (4.0, 0.0, 0.5))
    result = landscape(dataclasses.replace(SMALL, patterns=table, examples=3))
    np.testing.assert_array_equal(result.before.memories, table)
    assert result.examples.shape == (3, 3)
    np.testing.assert_allclose(
        np.linalg.norm(result.examples, axis=1), np.linalg.norm(table, axis=1)
    )


@pytest.mark.parametrize(
    "table",
    [((0.0, 0.0), (0.0, 0.0)), ((1.0, 1.0), (1.0, 1.0)), ((1e6, -1e6), (1e-9, 0.0))],
)
@pytest.mark.parametrize("energy", ENERGIES)
def test_degenerate_uploads_still_give_a_picture(table, energy):
    result = landscape(dataclasses.replace(SMALL, patterns=table, examples=2, energy=energy))
    for side in (result.before, result.after):
        assert np.isfinite(side.energy).all()
        assert np.isfinite(side.path).all()


@pytest.mark.parametrize("energy", ENERGIES)
@pytest.mark.parametrize("change", [{"memories": 1, "examples": 1}, {"noise": 0.0, "shift": 0.0}])
def test_corner_settings(energy, change):
    result = landscape(dataclasses.replace(SMALL, energy=energy, **change))
    assert isinstance(result, Landscape)
    assert result.before.outcome == "retrieved 0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 0.0}, "beta must be a positive"),
        ({"energy": "x"}, "unknown energy"),
        ({"layout": "x"}, "unknown layout"),
        ({"plane": "x"}, "plane must be 'query' or 'pca'"),
        ({"dimension": 1}, r"dimension must be in 2..256, got 1"),
        ({"memories": 0}, r"memories must be in 1..512"),
        ({"examples": 600}, r"examples must be in 1..512"),
        ({"grid": 1000}, r"grid must be in 3..401"),
        ({"noise": math.inf}, "noise must be a number in 0..1e"),
        ({"seed": -3}, "seed must be a whole number"),
        ({"query_at": (0.0, 1e300)}, "two coordinates of size"),
        ({"strength": 2.0}, r"strength must be in \[0, 1\]"),
        ({"query_at": (math.nan, 0.0)}, "two coordinates of size at most"),
        ({"patterns": ((1.0, 2.0), (1.0,))}, "rows of one length"),
        ({"patterns": ((1.0, math.nan), (1.0, 2.0))}, "NaN or infinite"),
        ({"patterns": ((1.0,), (2.0,))}, "2..256 columns"),
    ],
)
def test_bad_settings_are_refused_with_a_reason(change, message):
    with oracles.run_time_types_off(), pytest.raises(ValueError, match=message):
        landscape(dataclasses.replace(SMALL, **change))


def test_settings_are_hashable_and_semantics_are_marked():
    assert hash(LandscapeSettings()) == hash(LandscapeSettings())
    assert "(ours)" in SEMANTICS
    assert module.__doc__


# ---- points moved by hand ------------------------------------------------------------------------


def test_a_moved_point_lies_where_it_was_put_and_takes_nothing_along():
    drawn = dataclasses.replace(SMALL, dimension=2, memories=5, examples=3)
    free = landscape(drawn)
    put = (("memory", 1, 0.3, -0.2), ("example", 2, -0.1, 0.4), ("memory", 77, 9.0, 9.0))
    moved = landscape(dataclasses.replace(drawn, moved=put))
    memories, examples = free.before.memories.copy(), free.examples.copy()
    memories[1], examples[2] = (0.3, -0.2), (-0.1, 0.4)
    np.testing.assert_array_equal(moved.before.memories, memories)
    np.testing.assert_array_equal(moved.examples, examples)
    np.testing.assert_array_equal(moved.query, free.query)
    W = examples.T @ np.linalg.pinv(memories[:3].T)
    np.testing.assert_allclose(moved.after.memories, memories @ W.T, atol=1e-12)


def test_the_window_stays_until_a_point_leaves_it():
    drawn = dataclasses.replace(SMALL, dimension=2, memories=6, examples=6, strength=0.0, shift=0.0)
    free = landscape(drawn)
    inside = landscape(dataclasses.replace(drawn, query_at=(0.1, 0.2)))
    np.testing.assert_array_equal(inside.xs, free.xs)
    outside = landscape(dataclasses.replace(drawn, query_at=(40.0, 0.2)))
    assert outside.xs[-1] > 40
    assert outside.xs[0] <= free.xs[0]


@pytest.mark.parametrize(
    "entry", [("ghost", 0, 0.0, 0.0), ("memory", -1, 0.0, 0.0), ("memory", 0, math.nan, 0.0)]
)  # fmt: skip
def test_a_moved_point_that_cannot_be_is_refused(entry):
    with pytest.raises(ValueError, match="moved must hold entries"):
        dataclasses.replace(SMALL, moved=(entry,))
