"""The induction head: equations.md section 7 fact by fact, loops in Python as oracles."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core import induction
from core.bigrams import V, bigram_law, encode, favourite
from core.hopfield import attention
from core.induction import HeadSettings, head

Q, OUT, FAVOURITE = (int(token) for token in encode("qor"))
SHARP = HeadSettings()
PROMPTS = st.text("qoxrab", min_size=2, max_size=24)
SETTINGS = st.builds(
    HeadSettings,
    triggers=st.sampled_from(["", "q", "qa"]),
    beta1=st.floats(0, 60),
    beta2=st.floats(0, 12),
    gamma=st.floats(0, 8),
    bigram_weight=st.floats(0, 3),
    odds=st.floats(1, 100),
    positions=st.sampled_from(induction.POSITIONS),
    t_max=st.integers(1, 30),
    ablated=st.sampled_from(induction.ABLATIONS),
)


def by_loops(tokens, s):
    """Attention, buffer and in-context logits, written out letter by letter."""
    T = len(tokens)
    A1, A2 = np.zeros((T, T)), np.zeros((T, T))
    c, xi = np.zeros((T, V)), np.zeros((T, V))
    for t in range(T):
        known = t > 0 and s.ablated != "previous"
        known &= s.positions == "relative" or t + 1 <= s.t_max
        score = [s.beta1 if known and r == t - 1 else 0.0 for r in range(t + 1)]
        total = sum(math.exp(x - max(score)) for x in score)
        for r in range(t + 1):
            A1[t, r] = math.exp(score[r] - max(score)) / total
            c[t, tokens[r]] += A1[t, r]
    for t in range(T):
        asks = tokens[t] in s.trigger_ids and s.ablated != "key"
        score = [s.beta2 * c[r, tokens[t]] if asks else 0.0 for r in range(t + 1)]
        total = sum(math.exp(x) for x in score)
        for r in range(t + 1):
            A2[t, r] = math.exp(score[r]) / total
            xi[t, tokens[r]] += (s.ablated != "output") * s.gamma * A2[t, r]
    return A1, c, A2, xi


@given(text=PROMPTS, s=SETTINGS)
@settings(max_examples=60, deadline=None)
def test_the_closed_form_equals_loops_and_matrices(text, s):
    tokens = encode(text)
    h, exact = head(tokens, s), induction.run(tokens, induction.orthonormal(len(tokens)), s)
    A1, c, A2, xi = by_loops(tokens, s)
    for found in (h, exact):
        np.testing.assert_allclose(found.attention1, A1, atol=1e-12)
        np.testing.assert_allclose(found.buffer, c, atol=1e-12)
        np.testing.assert_allclose(found.attention2, A2, atol=1e-11)
        np.testing.assert_allclose(found.in_context, xi, atol=1e-10)
    np.testing.assert_allclose(h.logits, exact.logits, atol=1e-10)
    np.testing.assert_allclose(induction.last_attention(tokens, s), A2[-1], atol=1e-11)
    ours, law = induction.last_logits(tokens, s)
    np.testing.assert_allclose(ours + law, h.logits[-1], atol=1e-10)


@given(text=PROMPTS, s=SETTINGS)
@settings(max_examples=30, deadline=None)
def test_the_bigram_part_is_log_pi_up_to_a_constant(text, s):
    h = head(encode(text), s)
    wanted = s.bigram_weight * np.log(bigram_law(s.odds))[h.tokens]
    np.testing.assert_allclose(h.bigram - wanted, (h.bigram - wanted)[:, :1] + np.zeros((1, V)),
                               atol=1e-9)  # fmt: skip


@given(text=PROMPTS, s=SETTINGS)
@settings(max_examples=40, deadline=None)
def test_sharp_logits_are_the_limit(text, s):
    tokens = encode(text)
    s = replace(s, beta1=60.0, positions="relative", ablated="none")
    np.testing.assert_allclose(
        head(tokens, s).in_context[-1], induction.sharp_in_context(tokens, s), atol=1e-12
    )


def test_attention_to_the_previous_position_has_its_formula():
    s = replace(SHARP, beta1=2.0)
    A1 = induction.previous_attention(9, s)
    assert A1[0, 0] == 1
    for t in range(2, 10):
        assert A1[t - 1, t - 2] == pytest.approx(math.exp(2) / (math.exp(2) + t - 1), abs=1e-15)
    absolute = induction.previous_attention(9, replace(s, positions="absolute", t_max=5))
    np.testing.assert_array_equal(absolute[:5], A1[:5])
    for t in range(6, 10):
        np.testing.assert_allclose(absolute[t - 1, :t], 1 / t)


def test_the_tie_of_qoxoq_is_199333():
    logits = head(encode("q o x o q"), SHARP).in_context[-1]
    wanted = 4 * (math.exp(5) + 1) / (2 * math.exp(5) + 3)
    assert wanted == pytest.approx(1.99333, abs=5e-6)
    assert logits[[Q, OUT]] == pytest.approx([wanted, wanted], abs=1e-12)


@pytest.mark.parametrize("length", [4, 20, 111, 500])
def test_one_pair_has_its_closed_form(length):
    tokens = induction.one_pair_prompt(length, Q, OUT)
    assert tokens[-1] == Q
    assert (tokens == Q).sum() == 2
    assert (tokens == OUT).sum() == 1
    assert (tokens != favourite(Q)).all()
    logits = head(tokens, SHARP).in_context[-1]
    assert logits[OUT] == pytest.approx(4 * math.exp(5) / (math.exp(5) + length - 1), abs=1e-12)


def test_context_wins_up_to_length_110():
    assert induction.take_over_length(SHARP) == pytest.approx(110.4, abs=0.05)
    lengths = range(4, 400)
    margins = induction.margins(lengths, SHARP, Q, OUT)
    np.testing.assert_allclose(margins, induction.sharp_margins(lengths, SHARP), atol=1e-12)
    assert [T for T, m in zip(lengths, margins, strict=True) if m > 0][-1] == 110
    assert induction.take_over_length(replace(SHARP, odds=1.0)) == math.inf
    assert induction.take_over_length(replace(SHARP, gamma=2.0)) < 0  # context never wins


@pytest.mark.parametrize("at", [40, 60, 80])
@pytest.mark.parametrize("length", [90, 110, 150])
def test_past_t_max_absolute_positions_find_the_trigger_or_themselves(at, length):
    s = replace(SHARP, t_max=30)
    study = induction.position_study(length, [at], s, Q, OUT)
    if length != 2 * at:
        assert study.strongest["absolute"] == [at if length > 2 * at else length]
    assert study.strongest["relative"] == [at + 1]
    closed = math.exp(5) / (math.exp(5) + length - 1)
    assert study.on_output["relative"] == pytest.approx([closed], abs=1e-12)
    assert study.on_output["absolute"] < 0.1 * closed


def test_absolute_positions_within_t_max_are_as_good():
    study = induction.position_study(60, range(2, 50), replace(SHARP, t_max=64), Q, OUT)
    np.testing.assert_allclose(study.on_output["absolute"], study.on_output["relative"])
    half = induction.position_study(60, range(2, 50), replace(SHARP, t_max=32), Q, OUT)
    assert ((half.strongest["absolute"] == half.at + 1) == (half.at + 1 <= 32)).all()


def test_each_memory_is_needed():
    tokens = encode("a b q o d e q")
    assert head(tokens, SHARP).logits[-1].argmax() == OUT
    for gone in ("previous", "key", "output"):
        assert head(tokens, replace(SHARP, ablated=gone)).logits[-1].argmax() == FAVOURITE


@pytest.mark.parametrize("d", [16, 64])
@pytest.mark.parametrize("M", [8, 26])
def test_recall_of_random_memories_has_its_spread(d, M):
    draws = 800
    rng = np.random.default_rng(3)
    study = induction.recall_study(M, [d], draws, rng)
    diagonal, off = induction.recall_spread(M, [d])
    assert diagonal[0] == pytest.approx(math.sqrt(M - 1) / d)
    # The pooled values are weakly dependent; 5 % is five standard errors of either spread.
    assert study.diagonal[0] == pytest.approx(1, abs=5 * diagonal[0] / math.sqrt(draws * M / 2))
    assert study.diagonal_std[0] == pytest.approx(diagonal[0], rel=0.05)
    assert study.off_std[0] == pytest.approx(off[0], rel=0.05)


def test_recall_study_equals_the_outer_products():
    rng, again = np.random.default_rng(5), np.random.default_rng(5)
    study = induction.recall_study(6, [9], 1, rng)
    u, v = (induction.unit_rows(6, 9, again) for _ in range(2))
    W = sum(np.outer(a, b) for a, b in zip(u, v, strict=True))
    table = np.array([[a @ W @ b for b in v] for a in u])
    assert study.diagonal[0] == pytest.approx(np.diag(table).mean())
    assert study.diagonal_std[0] == pytest.approx(np.diag(table).std())
    assert study.off_std[0] == pytest.approx(table[~np.eye(6, dtype=bool)].std())
    assert study.right[0] == np.mean(table.argmax(0) == np.arange(6))


@pytest.mark.parametrize("positions", induction.POSITIONS)
def test_exact_memories_recall_exactly(positions):
    s = replace(SHARP, triggers="qaz", positions=positions, t_max=12)
    for name, r in induction.recalls(induction.orthonormal(20), s, 20).items():
        wanted = np.zeros_like(r.table)
        wanted[np.arange(len(r.right)), r.right] = 1
        np.testing.assert_allclose(r.table, wanted, atol=1e-12, err_msg=name)
        assert r.share == 1
        emptied = induction.recalls(induction.orthonormal(20), replace(s, ablated=name), 20)
        assert emptied[name].share == 0


def test_cross_talk_of_random_embeddings_falls_with_the_dimension():
    tokens = encode("a b q o d e q")
    exact = head(tokens, SHARP).logits[-1]
    worst = []
    for d in (64, 256, 1024):
        rng = np.random.default_rng(0)
        found = induction.run(tokens, induction.random_embedding(d, 8, rng), SHARP)
        worst.append(abs(found.logits[-1] - exact).max())
    assert worst[0] > worst[1] > worst[2]


def test_layer_2_is_a_hopfield_retrieval():
    h = head(encode("a b q o d e q o q"), replace(SHARP, beta1=3.0))
    patterns, letters = induction.hopfield_patterns(h)
    query = torch.from_numpy((letters == Q).astype(float)[None])
    weights = attention(torch.from_numpy(patterns), query, 5.0, "lse_dot").numpy()
    np.testing.assert_allclose(weights[0], h.attention2[-1], atol=1e-14)


@pytest.mark.parametrize(
    "changes",
    [{"beta1": -1.0}, {"beta2": float("nan")}, {"gamma": 1e4}, {"odds": 0.0}, {"t_max": 0},
     {"positions": "rotary"}, {"ablated": "all"}, {"triggers": "Q"}],
)  # fmt: skip
def test_bad_settings_are_named(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        HeadSettings(**changes)
