"""Letters with triggers: the law against counting, prompts against their promise."""

import itertools

import numpy as np
import pytest

from core.bigrams import (
    LETTERS,
    TriggerLaw,
    V,
    bigram_law,
    bigram_log_odds,
    decode,
    draw_prompt,
    encode,
    least_losses,
    repeated_triggers,
    sample,
)

LAW = TriggerLaw("qxz", 10.0)


def test_text_goes_to_tokens_and_back():
    assert encode("a q O\nz").tolist() == [0, 16, 14, 25]
    assert decode(encode(LETTERS)) == LETTERS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ab1", "letter 3 is '1'"),
        ("é", "letters a to z"),
        ("a", "2 to 5 letters, got 1. Type more"),
        ("abcdef", "got 6. Shorten"),
    ],
)
def test_a_bad_prompt_says_what_to_do(text, message):
    with pytest.raises(ValueError, match=message):
        encode(text, most=5)


@pytest.mark.parametrize("changes", [{"triggers": "aa"}, {"triggers": "A"}, {"triggers": LETTERS},
                                     {"odds": 0.5}, {"odds": float("nan")}])  # fmt: skip
def test_a_bad_law_is_refused(changes):
    with pytest.raises(ValueError, match=r"trigger|odds"):
        TriggerLaw(**changes)


@pytest.mark.parametrize("odds", [1.0, 10.0, 300.0])
def test_the_bigram_law_has_its_odds_and_common_letters(odds):
    law = bigram_law(odds)
    assert law.sum(axis=0) == pytest.approx(np.ones(V))
    assert law.sum(axis=1) == pytest.approx(np.ones(V))
    assert law[16, 17] / law[16, 3] == pytest.approx(odds)
    assert law[25, 0] / law[25, 1] == pytest.approx(odds)
    assert np.log(law) - np.log(law).min(1, keepdims=True) == pytest.approx(bigram_log_odds(odds))


def test_samples_follow_the_law_letter_by_letter():
    tokens, outputs = sample(LAW, 3000, 40, np.random.default_rng(0))
    assert ((outputs >= 0) == np.isin(np.arange(V), LAW.trigger_ids)).all()
    assert not np.isin(outputs[:, LAW.trigger_ids], LAW.trigger_ids).any()
    follows = np.zeros((V, V))
    for prompt, output in zip(tokens, outputs, strict=True):
        for u, v in itertools.pairwise(prompt):
            if output[u] >= 0:
                assert v == output[u]
            follows[u, v] += 1
    for u in np.setdiff1d(np.arange(V), LAW.trigger_ids):
        share, n = follows[u] / follows[u].sum(), follows[u].sum()
        wanted = bigram_law(10.0)[u]
        assert (abs(share - wanted) < 5 * np.sqrt(wanted / n)).all()


def test_the_same_seed_draws_the_same():
    one, two = (sample(LAW, 4, 30, np.random.default_rng(7))[0] for _ in range(2))
    assert (one == two).all()


def test_a_drawn_prompt_ends_in_a_trigger_that_came_before():
    for seed in range(20):
        prompt = draw_prompt(LAW, 24, np.random.default_rng(seed))
        assert len(prompt) == 24
        assert prompt[-1] in LAW.trigger_ids
        assert prompt[-1] in prompt[:-1]
    with pytest.raises(ValueError, match=r"longer or name more triggers"):
        draw_prompt(TriggerLaw(""), 24, np.random.default_rng(0))


def test_repeated_triggers_by_a_loop():
    tokens = sample(LAW, 50, 40, np.random.default_rng(1))[0]
    found = repeated_triggers(tokens, LAW)
    for prompt, row in zip(tokens, found, strict=True):
        for t, letter in enumerate(prompt):
            assert row[t] == (letter in LAW.trigger_ids and letter in prompt[:t])


def test_least_losses_are_entropies():
    tokens = encode("a q o q o")[None]
    p = 10 / 35
    entropy = -(p * np.log(p) + 25 / 35 * np.log(1 / 35))
    assert least_losses(tokens, LAW)[0] == pytest.approx(
        [entropy, np.log(23), entropy, 0.0, entropy]
    )
