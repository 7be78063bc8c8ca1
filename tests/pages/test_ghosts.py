"""Ghost examples: the page's numbers against plain calls and numpy, every control, every claim."""

import re
import time

import numpy as np
import pytest
import torch

from core.prompts import sample_prompts
from models import zoo
from models.law import training_prompt_law
from pages import ghosts
from pages.ui import cache, charts, controls
from tests.pages.visits import fresh, said, visit, widget

SMALL = {"examples": 3, "restarts": 2, "steps": 20}
NUMBER = r"\*\*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\*\*"


def opened(**values):
    return visit("ghosts", SMALL | values)


def bold(at):
    return [float(x) for x in re.findall(NUMBER, said(at))]


def facts(at):
    (table,) = [h.proto.body for h in at.get("html") if "lab-facts" in h.proto.body]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in table.split("<tr>")[2:]]
    return {re.sub(" <small>.*", "", name): cells for name, *cells in rows}


def control(at, key):
    return widget(at, f"ghosts-{key}")


def trace(fig, name):
    return next(t for t in charts.raw(fig)[0] if t.get("name") == name)


# ---- the search ----------------------------------------------------------------------------------


def test_errors_are_those_of_asking_the_model_one_query_at_a_time(figures):
    found = facts(opened())
    model = zoo.load("attention-1")
    law, draw = training_prompt_law(model.config), torch.Generator().manual_seed(0)
    start = sample_prompts(law, 2, 3, draw, dtype=torch.float64)
    queries = sample_prompts(law, 128, 1, draw).queries[:, 0].float()
    for r in range(2):
        xs = torch.cat([start.xs[r].float().expand(128, -1, -1), queries[:, None]], 1)
        for column, ys in ((0, start.ys[r].float()), (1, torch.zeros(3))):
            answers = model(xs, torch.cat([ys, torch.zeros(1)]).expand(128, -1))[:, -1]
            expected = float(answers.double().square().mean())  # alone, one layer answers 0
            assert float(found[f"restart {r + 1}"][column]) == pytest.approx(expected, rel=1e-3)
        sizes = np.linalg.svd(trace_inputs(r), compute_uv=False)
        assert float(found[f"restart {r + 1}"][5]) == pytest.approx(sizes[0] / sizes[-1], rel=1e-3)


def trace_inputs(r):
    """The ghosts that the page has found, out of the search it keeps."""
    s = ghosts.Settings(**controls.defaults("ghosts") | SMALL)
    config = zoo.config("attention-1")
    search = cache.ghost_search("attention-1", ghosts.search_of(s, config, 3))
    return search.advance(None).ghosts.xs[r].double().numpy()


def test_the_sentence_and_the_pictures_show_the_best_restart(figures):
    at = opened()
    table = facts(at)
    errors = [float(table[f"restart {r}"][2]) for r in (1, 2)]
    start = np.median([float(table[f"restart {r}"][0]) for r in (1, 2)])
    low, high, began, _ = bold(at)
    assert (low, high) == (min(errors), max(errors))
    assert began == pytest.approx(start, rel=1e-3)
    best = trace(figures["losses"], f"best restart ({1 + int(np.argmin(errors))})")
    assert len(best["y"]) == 20
    before = trace(figures["labels"], "label at the start")["y"]
    law = training_prompt_law(zoo.config("attention-1"))
    drawn = sample_prompts(law, 2, 3, torch.Generator().manual_seed(0), dtype=torch.float64)
    np.testing.assert_allclose(before, drawn.ys[int(np.argmin(errors))], rtol=1e-5)


def test_slices_end_where_one_go_ends(figures, monkeypatch):
    whole = facts(opened(seed=5))
    cache._ghost_search.clear()
    monkeypatch.setattr(ghosts, "SLICE", 0.0)  # a report a run
    runs = []
    original = ghosts.compute
    monkeypatch.setattr(ghosts, "compute", lambda *a: runs.append(1) or original(*a))
    assert facts(opened(seed=5)) == whole
    assert len(runs) >= 2


def test_stopping_keeps_what_was_found_and_going_on_ends_the_search(figures):
    at = fresh("ghosts")
    settings = ghosts.Settings(**controls.defaults("ghosts") | SMALL | {"seed": 6, "steps": 200})
    at.session_state["ghosts~stopped"] = ghosts.work(settings)
    for key, value in (SMALL | {"seed": 6, "steps": 200}).items():
        at.query_params[f"ghosts-{key}"] = str(value)
    at.run()
    assert not at.exception
    assert len(trace(figures["losses"], best_of(figures))["y"]) == 10
    at.button(key="ghosts~go").click().run()
    assert not at.exception
    assert len(trace(figures["losses"], best_of(figures))["y"]) == 200
    assert not [b for b in at.button if b.key in ("ghosts~go", "ghosts~stop")]


def best_of(figures):
    names = [t.get("name", "") for t in charts.raw(figures["losses"])[0]]
    return next(name for name in names if name.startswith("best restart"))


def test_the_stop_button_holds_this_search_only():
    s = ghosts.Settings(**controls.defaults("ghosts"))
    other = ghosts.Settings(**controls.defaults("ghosts") | {"steps": 20})
    shown = ghosts.Settings(**controls.defaults("ghosts") | {"prompt": 2, "view": "reshaped"})
    assert ghosts.work(s) != ghosts.work(other)
    assert ghosts.work(s) == ghosts.work(shown)  # the same search, shown in another way


def test_a_search_that_fails_begins_anew():
    calls = []

    class Done:
        step, of = 1, 1

        class ghosts:
            finished = True

    def begin():
        def steps():
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("once")
            yield Done

        return steps()

    search = cache.Search(begin)
    with pytest.raises(ValueError, match="once"):
        search.advance(time.monotonic())
    assert search.share == 0
    assert search.advance(time.monotonic()) is Done
    assert search.share == 1
    assert search.advance(time.monotonic() + 1) is Done


# ---- reshaping -----------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [12, 21])
def test_reshaped_attention_is_numpys(figures, t):
    at = opened(view="reshaped", examples=t)
    model = zoo.load("attention-1").double()
    law = training_prompt_law(model.config)
    start = sample_prompts(law, 2, t, torch.Generator().manual_seed(0), dtype=torch.float64)
    true = sample_prompts(law, 1, t + 64, torch.Generator().manual_seed(1))
    xs, ys, queries = true.xs[0, :t], true.ys[0, :t], true.xs[0, t:]
    K, V, q = (a.numpy() for a in (model.keys(xs), model.values(xs, ys), model.queries(queries)))
    s = ghosts.Settings(**controls.defaults("ghosts") | SMALL | {"examples": t})
    search = cache.ghost_search("attention-1", ghosts.search_of(s, model.config, t))
    best = search.advance(None).ghosts.best
    # The page's column "not searched": the prompt that the best search began from, as float32.
    gx, gy = start.xs[best].float().double(), start.ys[best].float().double()
    GK, GV = model.keys(gx).numpy(), model.values(gx, gy).numpy()
    K2 = GK @ (np.linalg.pinv(GK) @ K)  # rows: (W1 K~)^T = K~^T (K~^T)^+ K^T
    V2 = GV @ (np.linalg.pinv(GV) @ V)

    def attend(keys, values):
        weights = np.exp(float(model.beta) * q @ keys.T)
        return weights / weights.sum(1, keepdims=True) @ values

    o, o2 = attend(K, V), attend(K2, V2)
    error = np.linalg.norm(o2 - o) / np.linalg.norm(o)
    answers, answers2 = (model.read(torch.from_numpy(a)).numpy() for a in (o, o2))
    end = np.sqrt(((answers2 - answers) ** 2).mean() / (answers**2).mean())
    table = facts(at)
    got_head = float(table["Error of a head's attention"][1])
    got_end = float(table["Error of the answers, end to end"][1])
    if t <= 20:
        assert max(error, end, got_head, got_end) < 1e-10
    else:
        assert got_head == pytest.approx(error, rel=2e-3)
        assert got_end == pytest.approx(end, rel=2e-3)
        assert got_end == pytest.approx(bold(at)[3], rel=1e-3)
        shown = trace(figures["answers"], "reshaped ghosts")
        np.testing.assert_allclose(shown["x"], answers, rtol=1e-9)


def test_rank_limit_counts_tokens_and_heads():
    assert ghosts.rank_limit(zoo.config("attention-1"), False) == 20
    assert ghosts.rank_limit(zoo.config("linear-d5"), False) == 16  # 64 / 2 heads / 2 tokens
    assert ghosts.rank_limit(zoo.config("linear-d5"), True) == 32


def test_one_map_for_all_heads_is_exact_for_twice_as_many(figures):
    base = {"view": "reshaped", "checkpoint": "linear-d5", "examples": 17, "steps": 10}
    alone, together = (bold(opened(**base, across=across)) for across in (False, True))
    assert alone[1] > 1e-4
    assert together[1] < 1e-8


# ---- controls, refusals --------------------------------------------------------------------------

CHANGED = {
    "search": {
        "checkpoint": "attention-1-raw", "examples": 5, "restarts": 3, "seed": 1, "steps": 30,
        "rate": 0.1, "queries": 64,
    },
    "reshaped": {"prompt": 2, "ridge": 1.0, "tolerance": 0.1},
}  # fmt: skip


@pytest.mark.parametrize("view", CHANGED)
def test_every_control_is_answered(figures, view):
    at = opened(view=view, examples=12 if view == "reshaped" else 3)

    def shown():
        return {key: fig.to_json() for key, fig in figures.items()}

    before = shown()
    for key, value in CHANGED[view].items():
        old = control(at, key).value
        control(at, key).set_value(value).run()
        assert not at.exception, key
        assert shown() != before, key
        control(at, key).set_value(old).run()
        assert shown() == before, key


def test_all_rows_are_covered_here():
    rows = {row.key for row in controls.rows("ghosts")}
    assert rows == set().union(*CHANGED.values()) | {"view", "across"}


def test_more_ghosts_than_positions_are_refused(stand_ins):
    at = opened(checkpoint="linear-d20", examples=60)
    assert "positions for 39 examples" in at.warning[0].value


def test_longer_than_in_training_is_said():
    at = opened(examples=60)
    assert any("in training at most 50" in c.value for c in at.caption)


# ---- scenarios -----------------------------------------------------------------------------------


def scenario(name):
    (chosen,) = [s for s in ghosts.SCENARIOS if s.name == name]
    return opened(**chosen.settings("ghosts"))


@pytest.mark.claim("labels")
def test_claim_labels():
    table = facts(scenario("labels"))
    for start, silent, found, *_ in table.values():
        assert float(found) < 1e-3 * float(start)
        assert float(silent) < 1e-3


@pytest.mark.claim("gpt")
def test_claim_gpt():
    table = facts(scenario("gpt"))
    rows = sorted(([float(x) for x in row[:3]] for row in table.values()), key=lambda r: r[2])
    best, worst = rows[0], rows[-1]
    assert best[2] < 1e-3 * best[0]
    assert best[2] < min(silent for _, silent, _ in rows)
    assert worst[2] > worst[1]


@pytest.mark.claim("exact", "past")
def test_claim_exact_and_past():
    exact, past = bold(scenario("exact")), bold(scenario("past"))
    assert max(exact[0], exact[1], exact[3]) < 1e-10
    assert min(past[1], past[3]) > 0.01


@pytest.mark.claim("deep")
def test_claim_deep():
    at = scenario("deep")
    head, end, as_they_are, unsearched = bold(at)
    assert max(head, end, unsearched) < 1e-9
    assert as_they_are > 0.1


@pytest.mark.claim("along")
def test_claim_along(figures):
    at = scenario("along")
    assert "under way" not in str(bold(at))
    for name in ("reshaped ghosts", "reshaped, without a search"):
        curve = trace(figures["reshaped-along"], name)
        t, error = np.array(curve["x"]), np.array(curve["y"])
        assert list(t) == [1, 2, 5, 10, 20, 21, 30, 50, 75]
        assert (error[t <= 20] < 1e-10).all()
        assert (error[t > 20] > 0.01).all()
