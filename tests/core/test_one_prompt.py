"""One prompt looked at closely, against leaving examples out by hand."""

import numpy as np
import pytest
import torch

from core.one_prompt import look_closely
from core.predictors import LeastSquares, Ridge
from core.prompts import PromptLaw, sample_prompts

LAW = PromptLaw(n_dims=4, corruption="sign flip", accuracy=0.7)


@pytest.fixture(scope="module")
def prompts():
    return sample_prompts(LAW, 3, 13, torch.Generator().manual_seed(5))


def fitted(xs, ys, query):
    return np.linalg.lstsq(xs, ys, rcond=None)[0] @ query


def test_answers_influence_and_harm_are_what_numpy_says(prompts):
    look = look_closely({"ls": LeastSquares()}, prompts, prompt=1, n_pairs=9)
    xs, ys = prompts.xs[1].numpy(), prompts.ys[1].numpy()
    answer = fitted(xs[:9], ys[:9], xs[9])
    assert look.predictions["ls"] == pytest.approx(answer, rel=1e-9)
    assert look.target == pytest.approx(float(prompts.targets[1, 9]))
    for j in range(9):
        kept = np.arange(9) != j
        without = fitted(xs[:9][kept], ys[:9][kept], xs[9])
        assert look.influence["ls"][j] == pytest.approx(answer - without, rel=1e-7, abs=1e-9)
        harm = abs(answer - look.target) - abs(without - look.target)
        assert look.harm["ls"][j] == pytest.approx(harm, rel=1e-7, abs=1e-9)
    j, added = look.worst("ls")
    assert added == look.harm["ls"].max()
    assert look.harm["ls"][j] == added


def test_clean_labels_lie_on_the_line_of_the_task_direction(prompts):
    look = look_closely({"ridge": Ridge(1.0)}, prompts, prompt=0, n_pairs=12)
    np.testing.assert_allclose(look.clean, look.slope * look.along, rtol=1e-9)
    assert look.target == pytest.approx(look.slope * look.query_along, rel=1e-9)
    assert look.corrupted.any()
    np.testing.assert_allclose(look.shown[look.corrupted], -look.clean[look.corrupted])
    np.testing.assert_allclose(look.shown[~look.corrupted], look.clean[~look.corrupted])


def test_a_task_without_direction_is_seen_by_distance_to_the_query():
    law = PromptLaw(task="relu net", n_dims=3, hidden=8, mean1=0.0)
    prompts = sample_prompts(law, 1, 6, torch.Generator().manual_seed(0))
    look = look_closely({}, prompts, prompt=0, n_pairs=5)
    xs = prompts.xs[0].numpy()
    assert look.slope is None
    np.testing.assert_allclose(look.along, np.linalg.norm(xs[:5] - xs[5], axis=1))
    assert not look.corrupted.any()


@pytest.mark.parametrize(
    ("prompt", "n_pairs", "words"),
    [(3, 4, "expected 1 to 3, got 4"), (0, 0, "1 to 12, got 0"), (0, 13, "1 to 12, got 13")],
)
def test_what_is_not_there_is_refused(prompts, prompt, n_pairs, words):
    with pytest.raises(ValueError, match=words):
        look_closely({}, prompts, prompt, n_pairs)
