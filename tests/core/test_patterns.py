import numpy as np
import pytest
import torch

from core.patterns import LAYOUTS, draw_patterns, gaussian
from tests.oracles import generator


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("D", [2, 3, 40])
def test_patterns_have_unit_norm_and_come_from_the_seed_alone(layout, D):
    first = draw_patterns(layout, 9, D, generator(3))
    assert first.shape == (9, D)
    assert first.dtype == torch.float64
    torch.testing.assert_close(first.norm(dim=1), torch.ones(9, dtype=torch.float64))
    assert torch.equal(first, draw_patterns(layout, 9, D, generator(3)))
    assert draw_patterns(layout, 9, D, generator(3), batch=5).shape == (5, 9, D)
    if not (layout == "circle" and D == 2):  # the circle in the plane has nothing to draw
        assert not torch.equal(first, draw_patterns(layout, 9, D, generator(4)))


@pytest.mark.parametrize("count", [1, 15, 16, 17, 100])
def test_draws_do_not_depend_on_how_many_follow(count):
    long = gaussian(333, generator=generator(0))
    assert torch.equal(gaussian(count, generator=generator(0)), long[:count])


def test_adding_a_pattern_leaves_the_others_where_they_were():
    assert torch.equal(
        draw_patterns("random", 6, 7, generator(1)),
        draw_patterns("random", 11, 7, generator(1))[:6],
    )


def test_gaussian_draws_have_the_moments_of_a_normal():
    drawn = gaussian(200_000, generator=generator(0)).numpy()
    assert abs(drawn.mean()) < 0.01  # standard error 0.0022
    assert abs(drawn.std() - 1) < 0.01
    assert abs((drawn**4).mean() - 3) < 0.1


def test_correlated_patterns_have_cosine_one_half():
    Xi = draw_patterns("correlated", 40, 400, generator(0)).numpy()
    cosines = (Xi @ Xi.T)[np.triu_indices(40, 1)]
    assert abs(cosines.mean() - 0.5) < 0.02


def test_clustered_patterns_are_close_within_and_far_between():
    Xi = draw_patterns("clustered", 16, 200, generator(0)).numpy()
    cosines = Xi @ Xi.T
    together = np.equal.outer(np.arange(16) % 4, np.arange(16) % 4)
    assert cosines[together].min() > 0.8
    assert np.abs(cosines[~together]).max() < 0.4


@pytest.mark.parametrize("D", [2, 9])
def test_circle_is_equally_spaced_and_of_rank_two(D):
    Xi = draw_patterns("circle", 7, D, generator(0))
    assert torch.linalg.matrix_rank(Xi) == 2
    following = (Xi * Xi.roll(1, dims=0)).sum(dim=1)
    torch.testing.assert_close(
        following, torch.full((7,), np.cos(2 * np.pi / 7), dtype=torch.float64)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("spiral", 4, 4), "unknown layout 'spiral'; choose one of random, clustered"),
        (("random", 0, 4), "M >= 1"),
        (("random", 4, 1), "D >= 2"),
    ],
)
def test_bad_layouts_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        draw_patterns(*arguments, generator(0))
