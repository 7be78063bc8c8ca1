"""Induction page: its numbers against loops in numpy, every claim, every control, every refusal."""

import re
from urllib.parse import parse_qs

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core import induction as core_induction
from models import zoo
from pages import induction
from pages.ui import charts, controls, frame
from pages.ui.chart_view import pack

DEFAULTS = controls.defaults("induction")
SCENARIOS = {s.name: s for s in induction.SCENARIOS}
VIEWS = list(induction.DRAW)
NUMBER = r"-?\d+(?:\.\d+)?"


def script():
    from pages import induction

    induction.render()


@pytest.fixture
def drawn(monkeypatch):
    """The figures of the last run by key, with their frames."""
    shown = {}

    def view(fig, *, key, frames=None, **rest):
        shown[key.removeprefix("induction-")] = (fig, frames)

    monkeypatch.setattr(frame, "chart_view", view)
    return shown


@pytest.fixture
def visit(drawn):
    def opened(**changes):
        app = AppTest.from_function(script, default_timeout=120)
        known = {row.key: row for row in controls.rows("induction")}
        for key, value in changes.items():
            app.query_params[known[key].name] = known[key].text(value)
        drawn.clear()
        app.run()
        assert not app.exception, app.exception
        return app

    return opened


def load(visit, name):
    return visit(**SCENARIOS[name].values)


def sentence(app):
    return next(m.value for m in app.markdown if "lab-look" in m.value)


def numbers(app):
    return [float(n) for n in re.findall(rf"\*\*({NUMBER})\*\*", sentence(app))]


def trace(fig, name):
    return next(t for t in charts.raw(fig)[0] if t.get("name") == name)


def settings(**changes):
    return induction.Settings(**DEFAULTS | changes)


def by_hand(text, triggers="q", b1=60.0, b2=5.0, gamma=4.0, lam=1.0, odds=10.0):
    """Logits and last attention of the head, position by position."""
    z = [ord(c) - 97 for c in text.replace(" ", "")]
    T, q = len(z), z[-1]
    buffer = []
    for s in range(T):
        scores = [b1 if s and r == s - 1 else 0.0 for r in range(s + 1)]
        weights = np.exp(np.array(scores) - max(scores))
        weights /= weights.sum()
        buffer.append(sum(w for w, letter in zip(weights, z, strict=False) if letter == q))
    weights = np.exp(b2 * np.array(buffer) * (chr(97 + q) in triggers))
    weights /= weights.sum()
    logits = np.zeros(26)
    for w, letter in zip(weights, z, strict=True):
        logits[letter] += gamma * w
    logits[(q + 1) % 26] += lam * np.log(odds)
    return logits, weights


# ---- claims --------------------------------------------------------------------------------------


@pytest.mark.claim("head")
def test_context_wins_by_14(visit):
    app = load(visit, "head")
    logits, weights = by_hand("the quota fell q")
    back, on_u, first, second = numbers(app)
    assert back == 1
    assert on_u == pytest.approx(weights[4], abs=5e-5)
    assert on_u > 0.9
    assert (first, second) == pytest.approx((logits[20], logits[17]), abs=5e-5)
    assert first - second == pytest.approx(1.4, abs=0.05)
    assert "**u** comes out first" in sentence(app)


@pytest.mark.claim("tie")
def test_q_and_o_tie(visit):
    app = load(visit, "tie")
    assert numbers(app)[-1] == 1.99333
    assert "**o** and **q** tie" in sentence(app)


@pytest.mark.claim("takeover")
def test_the_take_over_length_is_110(visit, drawn):
    app = load(visit, "takeover")
    assert numbers(app)[0] == 110.4
    assert "wins up to T = 110 and at no length drawn beyond" in sentence(app)
    fig = drawn["length"][0]
    for name in ("closed form, β₁ → ∞", "the head as set"):
        curve = trace(fig, name)
        wins = curve["y"] > 0
        assert (wins == (curve["x"] <= 110)).all()
        wanted = 4 * np.exp(5) / (np.exp(5) + curve["x"] - 1) - np.log(10)
        np.testing.assert_allclose(curve["y"], wanted, atol=1e-9)
    dots = trace(fig, "matrices")
    np.testing.assert_allclose(
        dots["y"], 4 * np.exp(5) / (np.exp(5) + dots["x"] - 1) - np.log(10), atol=1e-9
    )
    marks = [s["x0"] for s in charts.raw(fig)[1]["shapes"] if s.get("yref") == "y domain"]
    assert marks == pytest.approx([110.4], abs=0.05)


@pytest.mark.claim("positions")
def test_absolute_positions_lose_what_lies_past_t_max(visit, drawn):
    app = load(visit, "positions")
    relative, absolute = numbers(app)
    assert absolute < relative / 10
    fig = drawn["positions"][0]
    weight = trace(fig, "absolute")
    within = weight["x"] < 64  # the output stands one further on
    closed = np.exp(5) / (np.exp(5) + 119)
    # Positions past 64 have seen the trigger once in s letters, the last one twice in 120.
    vague = sum(np.exp(5 / s) for s in range(65, 120)) + np.exp(5 * 2 / 120)
    stored = np.exp(5) / (np.exp(5) + 63 + vague)
    np.testing.assert_allclose(weight["y"][within], stored, atol=1e-9)
    assert (weight["y"][~within] < 0.1 * closed).all()
    np.testing.assert_allclose(trace(fig, "relative")["y"], closed, atol=1e-9)


@pytest.mark.claim("crosstalk")
def test_cross_talk_spreads_as_claimed(visit, drawn):
    app = load(visit, "crosstalk")
    assert numbers(app)[:2] == pytest.approx(
        [np.sqrt(25) / 48, np.sqrt(2 / 48 + 24 / 48**2)], abs=5e-5
    )
    fig = drawn["recall"][0]
    right, wrong = (trace(fig, f"{kind} pairs, formula")["y"] for kind in ("right", "wrong"))
    at = {d: i for i, d in enumerate(induction.DIMENSIONS)}
    assert right[at[96]] == pytest.approx(right[at[48]] / 2)
    assert wrong[at[192]] < wrong[at[48]] / 2 < wrong[at[96]]
    for kind, formula in (("right", right), ("wrong", wrong)):
        measured = trace(fig, f"{kind} pairs, measured")["y"]
        # 20 draws of 26 right pairs: the spread itself is known to about 5 % a dimension.
        np.testing.assert_allclose(measured, formula, rtol=0.2)


@pytest.mark.claim("birth")
def test_a_head_is_born(visit, drawn):
    app = load(visit, "birth")
    start, chance, end, *probes = numbers(app)
    assert start < 2 * chance
    assert end > 0.9
    rows = zoo.card("induction-2")["curve"]
    assert probes[:3] == pytest.approx([rows[-1][k] for k in ("wk0", "wk1", "wo1")], abs=5e-4)
    # Output and trigger memories first, then the look back and the accuracy with it.
    born = next(i for i, row in enumerate(rows) if row["repeated"] > 0.5)
    assert rows[born]["wk1"] == rows[born - 1]["wk1"] == 1
    assert rows[born - 1]["wo1"] > 0.7
    assert rows[born - 1]["repeated"] < 0.25
    assert rows[born]["wk0"] > 1.5 * rows[born - 1]["wk0"]
    (progress, moving), (maps, seen_maps) = drawn["training"], drawn["trained-attention"]
    assert len(moving.data) == len(seen_maps.data) == len(rows)
    assert moving.group == seen_maps.group
    uids = [t.get("uid") for t in charts.raw(progress)[0]]
    assert {uids[i] for i in moving.data[0]} == {"now-share", "now-loss"}
    assert [charts.raw(maps)[0][i]["uid"] for i in seen_maps.data[0]] == ["layer-1", "layer-2"]
    last = seen_maps.data[-1][0]["z"]
    np.testing.assert_array_equal(last, charts.raw(maps)[0][0]["z"])
    first = seen_maps.data[0][1]["z"]  # nothing learnt: even over the past
    np.testing.assert_allclose(first[4, :5], 0.2, atol=1e-6)


# ---- views ---------------------------------------------------------------------------------------


def test_the_maps_are_the_heads(visit, drawn):
    visit(prompt="abqoq", beta1=2.0)
    fig, traces = drawn["attention"][0], charts.raw(drawn["attention"][0])[0]
    A1, A2 = (t["z"] for t in traces)
    assert A1[2, 1] == pytest.approx(np.exp(2) / (np.exp(2) + 2))
    np.testing.assert_allclose(A2[-1], by_hand("abqoq", b1=2.0)[1], atol=1e-12)
    assert np.isnan(A1[np.triu_indices(5, 1)]).all()
    assert charts.raw(fig)[1]["xaxis"]["ticktext"] == list("abqoq")
    buffer = charts.raw(drawn["buffer"][0])[0][0]
    assert buffer["y"] == ["a", "b", "o", "q"]
    assert buffer["z"][3, 3] == pytest.approx((1 + np.exp(2) - 1) / (np.exp(2) + 3))


def test_the_bars_add_up(visit, drawn):
    visit(view="logits", vectors="random", dimension=64)
    fig = drawn["logits"][0]
    logits, _ = by_hand("the quota fell q")
    parts = [trace(fig, name)["y"] for name in ("in-context", "bigram law", "cross-talk")]
    np.testing.assert_allclose(parts[0] + parts[1], logits, atol=1e-9)
    np.testing.assert_allclose(sum(parts), trace(fig, "logit")["y"], atol=1e-9)
    assert np.abs(parts[2]).max() > 0.1


@pytest.mark.parametrize("view", ["attention", "logits"])
def test_the_live_check_holds_to_1e_10(visit, view):
    app = visit(view=view, beta1=3.3, beta2=2.2, positions="absolute", tmax=6)
    caption = next(c.value for c in app.caption if "Live check" in c.value)
    assert float(re.search(r"at most (\S+) \(", caption)[1]) < 1e-10


@pytest.mark.parametrize("emptied", ["previous position", "key", "output"])
def test_without_one_memory_the_favourite_wins(visit, emptied):
    whole = numbers(visit())[1]
    app = visit(ablated=emptied)
    assert "**r** comes out first" in sentence(app)
    if emptied != "output":
        assert numbers(app)[1] < whole / 2


def test_the_energy_is_the_landscapes(visit, drawn):
    app = visit(view="energy")
    _, weights = by_hand("the quota fell q")
    assert numbers(app)[0] == pytest.approx(weights[4], abs=5e-5)
    assert "position 5, whose value is **u**" in sentence(app)
    np.testing.assert_allclose(trace(drawn["energy"][0], "weight")["y"], weights, atol=1e-12)
    link = app.get("link_button")[0].proto.url
    query = parse_qs(link.split("?", 1)[1], keep_blank_values=True)
    read = controls.read_link("landscape", query)
    assert read.notices == ()
    from pages import landscape
    from pages.landscape import Settings

    there = landscape.compute(Settings(**read.values)).before
    # Its memory 0 is the key the head attends to most, and the query lies on it.
    np.testing.assert_allclose(np.sort(there.weights[0]), np.sort(weights), atol=1e-9)
    assert there.weights[0].argmax() == 0


def test_the_query_is_the_unit_vector_also_where_no_key_is(visit, drawn):
    app = visit(view="energy", prompt="abqoq", beta1=2.0)
    weights = by_hand("abqoq", b1=2.0)[1]
    assert numbers(app)[0] == pytest.approx(weights.max(), abs=5e-5)
    assert any("strongest key" in c.value for c in app.caption)
    r = induction.compute(settings(view="energy", prompt="abqoq", beta1=2.0))
    # Keys over a, b, o, q: column q is by_hand's buffer, so the strongest key lies short of (0,0,0,1).
    keys = r.closed.buffer[:, [0, 1, 14, 16]]
    assert r.away == pytest.approx(np.linalg.norm(np.array([0, 0, 0, 1]) - keys[3]))
    moved = np.linalg.norm(np.array([0, 0, 0, 1]) - weights @ keys)
    assert 0 < np.linalg.norm(r.step[1] - r.step[0]) <= moved + 1e-12  # a plane shortens
    assert "key memory emptied" in sentence(visit(view="energy", ablated="key"))


def test_a_long_prompt_has_no_link(visit):
    app = visit(view="energy", prompt="abcdefghijklmnopqrstuvwxyz" * 4 + "q", beta1=1.0)
    assert not app.get("link_button")
    assert any("too long for a link" in c.value for c in app.caption)


def test_a_prompt_may_be_drawn(visit, drawn):
    visit(source="drawn", length=24, triggers="qxz", seed=5)
    text = "".join(charts.raw(drawn["attention"][0])[1]["xaxis"]["ticktext"])
    assert len(text) == 24
    assert text[-1] in "qxz"
    assert text[-1] in text[:-1]
    after = {text[i + 1] for i in range(23) if text[i] == text[-1]}
    assert len(after) == 1  # a trigger has one output a prompt


# ---- what the sentence says of the picture -------------------------------------------------------


def weights_by_hand(length, at, t_max, b1=60.0):
    """Attention of the last position with absolute positions, its pair at `at`, loops only."""
    z = list(induction_prompt(length, at))
    buffer = []
    for s in range(1, length + 1):
        known = 1 < s <= t_max
        scores = [b1 if known and r == s - 1 else 0.0 for r in range(1, s + 1)]
        w = np.exp(np.array(scores) - max(scores))
        buffer.append(sum(w[r] for r in range(s) if z[r] == "q") / w.sum())
    weights = np.exp(5 * np.array(buffer))
    return weights / weights.sum()


def induction_prompt(length, at):
    return "".join("q" if i in (at, length) else "o" if i == at + 1 else "a"
                   for i in range(1, length + 1))  # fmt: skip


def test_a_pair_whose_output_is_not_stored_is_past_t_max(visit, drawn):
    app = visit(view="positions", tmax=118, span=120)
    absolute = trace(drawn["positions"][0], "absolute")
    assert absolute["x"][-1] == 118
    assert absolute["y"][-1] == pytest.approx(weights_by_hand(120, 118, 118)[118], abs=1e-12)
    assert "In 1 of 117 places" in sentence(app)
    assert "are stored" not in sentence(app)
    assert numbers(app)[1] == pytest.approx(absolute["y"][-1], abs=5e-5)
    # 2 / 120 of what position 120 has seen is the trigger, 1 / 119 of what 119 has seen.
    assert "with absolute ones the last q in 1." in sentence(app)
    app = visit(view="positions", tmax=119, span=120)
    assert "not the last position, 120" in sentence(app)
    assert numbers(app)[1] == pytest.approx(weights_by_hand(120, 60, 119)[60], abs=5e-5)


def test_the_weight_is_a_range_where_it_changes_with_the_place(visit, drawn):
    app = visit(view="positions", tmax=128, beta1=3.0)
    y = trace(drawn["positions"][0], "relative")["y"]
    assert "wherever" not in sentence(app)
    assert numbers(app) == pytest.approx([y.min(), y.max()], abs=5e-5)
    assert y[0] == pytest.approx(weights_by_hand(120, 2, 128, b1=3.0)[2], abs=1e-12)


def test_a_tie_of_positions_is_said(visit, drawn):
    said = sentence(visit(view="positions", tmax=20, span=80))
    # The pair's own q, 1/s of what s has seen, against the last one, 2/80: a tie at s = 40. At
    # s = T_max position 20 still looks one back, and 21 is the first to have seen the trigger.
    for words in ("the output in 1", "the pair's own q in 19", "the last q in 38",
                  "one of several equal ones in 1"):  # fmt: skip
        assert words in said
    assert "agree" in sentence(visit(view="positions", tmax=20, ablated="key"))


@pytest.mark.parametrize("rest", [{"bigram": 0.0}, {"odds": 1.0}])
@pytest.mark.parametrize("nothing", [{"gamma": 0.0}, {"ablated": "output"}])
def test_a_margin_of_0_is_a_tie(visit, drawn, nothing, rest):
    said = sentence(visit(view="length", **nothing, **rest))
    assert np.ptp(trace(drawn["length"][0], "the head as set")["y"]) == 0
    assert "the head as set ties at every length drawn, T = 4 to 300" in said
    assert ("has a tie at every length" in said) == ("gamma" in nothing)
    assert ("no memory emptied, has context win" in said) == ("ablated" in nothing)


def test_a_curve_that_ends_above_0_is_not_said_to_cross(visit, drawn):
    app = visit(view="length", beta2=12.0)
    curve = trace(drawn["length"][0], "the head as set")
    assert curve["x"][-1] == 4000
    assert curve["y"][-1] == pytest.approx(
        4 * np.exp(12) / (np.exp(12) + 3999) - np.log(10), abs=1e-9
    )
    assert "wins at every length drawn, T = 4 to 4000" in sentence(app)
    assert numbers(app)[0] == pytest.approx(1 + np.exp(12) * (4 / np.log(10) - 1), abs=0.05)


def test_random_vectors_are_judged_by_their_own_dots(visit, drawn):
    app = visit(view="length", vectors="random", dimension=48)
    fig, said = drawn["length"][0], sentence(app)
    dots = trace(fig, "random vectors, D = 48")
    vectors = core_induction.random_embedding(48, 34, np.random.default_rng(0))
    tokens = core_induction.one_pair_prompt(34, 16, 14)
    logits = core_induction.run(tokens, vectors, core_induction.HeadSettings()).logits[-1]
    assert dots["y"][list(dots["x"]).index(34)] == pytest.approx(logits[14] - logits[17])
    assert f"At T = 5 the margin is **{dots['y'][0]:.4f}**" in said
    np.testing.assert_array_equal(dots["y"] > 0, dots["x"] == 5)
    assert "context wins up to T = 5 and at no length drawn beyond" in said
    assert "in orthonormal vectors wins up to T = 110" in said
    seen = sentence(visit(view="length", vectors="random", dimension=128, seed=8))
    ahead = trace(drawn["length"][0], "random vectors, D = 128")["y"] > 0
    assert list(ahead[3:6]) == [True, False, True]
    assert f"context wins at {ahead.sum()} of 9 lengths drawn" in seen
    assert "for β₁ → ∞, orthonormal vectors, has" in said


def test_the_closed_form_says_that_it_knows_no_emptied_memory(visit, drawn):
    said = sentence(visit(view="length", ablated="previous position"))
    assert trace(drawn["length"][0], "closed form, β₁ → ∞, no memory emptied")["y"][0] > 0
    here = trace(drawn["length"][0], "the head as set")["y"]
    assert (here < 0).all()
    assert "the head as set wins at no length drawn, T = 4 to" in said
    assert "for β₁ → ∞, no memory emptied, has" in said


@pytest.mark.parametrize("beta1", [3.0, 4.5, 6.0])
def test_the_last_length_won_is_the_last_one(visit, drawn, beta1):
    said = sentence(visit(view="length", beta1=beta1))
    last = int(re.search(r"wins up to T = (\d+) and", said)[1])
    for length, ahead in ((last, True), (last + 1, False)):
        others = [c for c in "abcdefghijklmnopqrstuvwxyz" if c not in "qor"]
        z = [others[i % 23] for i in range(length)]
        z[1], z[2], z[-1] = "q", "o", "q"
        logits, _ = by_hand("".join(z), b1=beta1)
        assert (logits[14] > logits[17]) == ahead


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "(previous 100 %, key 100 %, output 100 %)"),
        ({"ablated": "previous position"}, "(previous emptied, key 100 %, output 100 %)"),
        ({"ablated": "output", "positions": "absolute"}, "(previous 100 %, key 100 %, output empt"),
        ({"triggers": ""}, "key without a trigger to ask about, output 100 %)"),
    ],
)
def test_a_memory_without_associations_is_not_said_to_recall(visit, drawn, changes, words):
    said = sentence(visit(view="memories", **changes))
    assert "Every association that is stored" in said
    assert words in said
    titles = [a["text"] for a in charts.raw(drawn["memories"][0])[1]["annotations"]]
    assert not any("0 % right" in title.replace("100 %", "") for title in titles)
    assert any("emptied" in title for title in titles) == ("ablated" in changes)
    random = sentence(visit(view="memories", vectors="random", **changes))
    assert ("emptied" in random) == ("ablated" in changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gamma": 0.0, "bigram": 0.0}, "26 letters tie at ξ = **0.00000**"),
        ({"prompt": "aqbqcqdq", "bigram": 0.0}, "**b**, **c** and **d** tie at ξ"),
        # Position 1 is a q that counts as its own follower, as in the scenario of the tie.
        ({"prompt": "qoxoq"}, "before **o** and **q** with **1.9933**"),
        ({"prompt": "abaqb", "triggers": ""}, "before **a** and **b** with **1.6000**"),
    ],
)
def test_every_letter_of_a_tie_is_named(visit, changes, words):
    assert words in sentence(visit(**changes))


def test_even_attention_is_said_where_it_is_even(visit, drawn):
    for even in ({"beta2": 0.0}, {"ablated": "key"}, {"ablated": "key", "vectors": "random"}):
        assert "every position gets the same" in sentence(visit(**even))
    for even in ({"triggers": "z"}, {"triggers": "", "vectors": "random"}):
        assert "spreads evenly over 13 positions" in sentence(visit(**even))
    app = visit(triggers="z", vectors="random", dimension=48)
    assert "spreads evenly" not in sentence(app)
    last = charts.raw(drawn["attention"][0])[0][1]["z"][-1]
    assert numbers(app)[:2] == pytest.approx([last.min(), last.max()], abs=5e-5)


def test_equal_keys_are_all_named(visit, drawn):
    app = visit(view="energy", prompt="aqbcqdeq")
    assert "each of the positions 3, 6, which tie; their values are **bd**" in sentence(app)
    _, weights = by_hand("aqbcqdeq")
    assert weights[2] == weights[5] == weights.max()
    assert numbers(app)[0] == pytest.approx(weights[2], abs=5e-5)
    app = visit(view="energy", beta2=0.0)
    assert "on each position" in sentence(app)
    assert "shows 0.1" in sentence(app)
    assert "shows 0.1" in sentence(visit(view="energy", beta2=0.0, ablated="key"))


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": "a1"}, "letter 2 is '1'"),
        ({"prompt": "q"}, "2 to 128 letters, got 1"),
        ({"prompt": "ab" * 65}, "2 to 128 letters, got 130"),
        ({"triggers": "qq"}, "each trigger must stand once"),
        ({"triggers": "!"}, "triggers must be letters"),
        ({"view": "length", "triggers": ""}, "Q is empty"),
        ({"view": "energy", "prompt": "aa"}, "two different letters"),
        ({"source": "drawn", "triggers": ""}, "name more triggers"),
        ({"view": "training", "prompt": "ab" * 33}, "trained on 64 positions"),
        ({"view": "training", "prompt": "q"}, "2 to 64 letters, got 1"),
    ],
)
def test_a_bad_setting_is_named_and_the_picture_stays(visit, drawn, changes, message):
    app = visit(**changes)
    assert message in app.warning[0].value
    assert drawn


def test_no_trigger_and_no_favourite_are_said(visit):
    assert "q is no trigger" in sentence(visit(triggers="z"))
    assert "q has not stood before" in sentence(visit(prompt="abq"))
    assert "has no favourite" in sentence(visit(view="length", odds=1.0))
    assert "γ is too small" in sentence(visit(view="length", gamma=1.0))
    assert "is not among them" in sentence(visit(view="training", prompt="ababa"))
    assert "agree" in sentence(visit(view="positions", span=40))


# ---- controls ------------------------------------------------------------------------------------

MOVED = {
    "source": "drawn", "prompt": "q o x o q", "length": 20, "triggers": "qe", "beta1": 2.0,
    "beta2": 2.0, "gamma": 2.0, "bigram": 0.5, "odds": 50.0, "positions": "absolute", "tmax": 4,
    "span": 90, "ablated": "key", "vectors": "random", "dimension": 40, "memories": 40, "seed": 3,
}  # fmt: skip
FIRST = {
    "length": {"source": "drawn", "triggers": "qxz"}, "triggers": {"prompt": "tree e"},
    "gamma": {"view": "logits"},
    "bigram": {"view": "logits"},
    "odds": {"view": "logits"},
    "positions": {"tmax": 4},
    "tmax": {"positions": "absolute"}, "span": {"view": "positions"},
    "dimension": {"vectors": "random"}, "memories": {"view": "memories"},
    "seed": {"vectors": "random"},
}  # fmt: skip


def everything(drawn):
    return {key: pack(fig, {}, frames) for key, (fig, frames) in drawn.items()}


@pytest.mark.parametrize("key", MOVED)
def test_every_control_changes_the_picture(visit, drawn, key):
    visit(**FIRST.get(key, {}))
    before = everything(drawn)
    visit(**FIRST.get(key, {}) | {key: MOVED[key]})
    assert everything(drawn) != before


def test_every_control_is_covered():
    assert set(MOVED) | {"view"} == set(DEFAULTS)


@pytest.mark.parametrize("view", VIEWS)
def test_series_differ_without_colour(visit, drawn, view):
    """Overlaid curves keep their own dash or marker."""
    visit(view=view)
    for fig, _ in drawn.values():
        looks = [
            (t.get("xaxis"), t["mode"], (t.get("line") or {}).get("dash"), (t.get("marker") or {}).get("symbol"))
            for t in charts.raw(fig)[0]
            if t["type"] == "scatter" and t.get("showlegend") is not False
            and "symbol" in (t.get("marker") or {}) and isinstance(t["marker"]["symbol"], str)
        ]  # fmt: skip
        assert len(looks) == len(set(looks))


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_light(visit, drawn, view):
    visit(view=view)
    assert sum(map(len, everything(drawn).values())) < 400_000
