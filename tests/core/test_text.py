"""Tasks, prompts and measures of text: against scikit-learn, counts and files made by hand."""

import contextlib
import io
import zipfile

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from sklearn.metrics.pairwise import cosine_similarity

from core import text
from core.text import Prompting, Scores, TaskError, questions

LABELLED = text.bundled("sentiment")
WORDS = text.bundled("capitals")


def folder(**changes):
    files = {
        "mapping.txt": b"0\tnot-hate\n1\thate\n",
        "train_text.txt": b"one two\nthree\n\nfour\n",
        "train_labels.txt": b"0\n1\n1\n0\n",
        "test_text.txt": "a\u2028b\n \nc".encode(),
        "test_labels.txt": b"1\n0\n0\n",
    }
    for name, data in changes.items():
        files[name.replace("__", ".")] = data
    return {name: data for name, data in files.items() if data is not None}


# --- Tasks ----------------------------------------------------------------------------------------


def test_tweeteval_drops_blank_lines_with_their_labels():
    task = text.read_tweeteval(folder(), "t")
    assert [(i.text, i.right) for i in task.pool] == [("one two", 0), ("three", 1), ("four", 0)]
    # A line separator inside a tweet is no end of line.
    assert [(i.text, i.answer) for i in task.asked] == [("a b", "hate"), ("c", "not-hate")]
    assert task.labels == ("not-hate", "hate")
    assert not task.one_set


def test_tweeteval_takes_the_splits_there_are():
    only_train = text.read_tweeteval(folder(test_text__txt=None, test_labels__txt=None))
    assert only_train.one_set
    val = folder(test_text__txt=None, test_labels__txt=None, val_text__txt=b"v\n",
                 val_labels__txt=b"1\n")  # fmt: skip
    assert [i.text for i in text.read_tweeteval(val).asked] == ["v"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mapping__txt": None}, "mapping.txt is missing"),
        ({"mapping__txt": b"0 hate\n"}, "line 1: expected a new number, a tab and a name"),
        ({"mapping__txt": b"0\ta\n0\tb\n"}, "line 2"),
        ({"mapping__txt": b"0\ta\n"}, "2 to 64 labels"),
        ({"mapping__txt": b"9" * 5000 + b"\ta\n1\tb\n"}, "line 1: expected a new number"),
        ({"train_labels__txt": b"0\n" + b"9" * 5000 + b"\n1\n0\n"}, "line 2: expected one of 0, 1"),
        ({"train_labels__txt": None}, "train_labels.txt is missing"),
        ({"train_labels__txt": b"0\n1\n"}, "4 lines and train_labels.txt 2"),
        ({"train_labels__txt": b"0\n7\n1\n0\n"}, "line 2: expected one of 0, 1, got '7'"),
        ({"train_text__txt": b"\xff\n\n\n\n"}, "not UTF-8 text (byte 0)"),
        ({"train_text__txt": b"x\n\n\n\n"}, "at least 2 texts to learn from"),
    ],
)
def test_other_files_are_refused_in_words(changes, words):
    with pytest.raises(TaskError) as refused:
        text.read_tweeteval(folder(**changes))
    assert words in str(refused.value)


def test_a_folder_is_read_by_its_names_only(tmp_path):
    for name, data in folder().items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "secrets.txt").write_bytes(b"\xff")
    assert len(text.read_tweeteval_folder(tmp_path).pool) == 3
    with pytest.raises(TaskError, match="expected a folder"):
        text.read_tweeteval_folder(tmp_path / "secrets.txt")


def packed(method=zipfile.ZIP_DEFLATED):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in folder().items():
            archive.writestr(f"mine/{name}", content * 40 if "text" in name else content)
    return data.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("place", range(0, 600, 7))
def test_a_damaged_zip_is_refused_in_words(method, place):
    data = bytearray(packed(method))
    data[place % len(data)] ^= 0xFF
    with contextlib.suppress(TaskError):  # some bytes do not matter
        text.read_tweeteval_zip(bytes(data))


def test_small_zips_of_many_lines_are_refused_before_they_are_taken_apart():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in folder().items():
            archive.writestr(name, b"0\n" * 100_001 if name.startswith("train") else content)
    with pytest.raises(TaskError, match=r"train_text\.txt has more than 100,000 lines"):
        text.read_tweeteval_zip(data.getvalue())


def test_all_files_of_a_zip_count_together(monkeypatch):
    monkeypatch.setattr(text, "MAX_ALL_BYTES", 60)
    with pytest.raises(TaskError, match="the zip unpacks to more than"):
        text.read_tweeteval_zip(packed())


def test_what_cannot_be_read_or_leads_out_is_refused(tmp_path, monkeypatch):
    inside = tmp_path / "mine"
    inside.mkdir()
    for name, data in folder().items():
        (inside / name).write_bytes(data)
    (tmp_path / "secret").write_text("x\n")
    (inside / "train_text.txt").unlink()
    (inside / "train_text.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(TaskError, match=r"train_text\.txt is a link"):
        text.read_tweeteval_folder(inside)

    def locked(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(inside), "iterdir", locked)  # tests may run as root, who reads all
    with pytest.raises(TaskError, match="mine or a file of it cannot be read here"):
        text.read_tweeteval_folder(inside)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(method):
    with pytest.raises(TaskError, match="is not packed by deflate"):
        text.read_tweeteval_zip(packed(method))


def test_a_name_that_is_not_utf8_is_refused_in_our_words():
    data = bytearray(packed())
    entry = data.index(b"PK\x01\x02")
    data[entry + 8 : entry + 10] = (0x800).to_bytes(2, "little")  # "this name is UTF-8"
    data[entry + 46] = 0xFF
    with pytest.raises(TaskError, match=r"is damaged, or needs a password\. Pack it anew"):
        text.read_tweeteval_zip(bytes(data))


@pytest.mark.parametrize("name", text.bundled_names())
def test_the_labs_tasks_are_sound(name):
    task = text.bundled(name)
    assert 60 <= len(task.pool) <= 80
    assert task.one_set
    texts = [item.text for item in task.pool]
    assert len(set(texts)) == len(texts)
    for item in task.pool:
        assert len(set(item.options)) == len(item.options) >= 2
        assert all(o == o.strip() and o for o in item.options)
        if not task.labels:  # an answer that stands among the texts would be told by an example
            assert item.answer not in texts
    if task.labels:
        assert np.bincount([i.right for i in task.pool]).std() == 0


def test_label_words_are_exchanged_and_checked():
    made_up = text.with_words(LABELLED, ("foo", "bar"))
    assert [i.right for i in made_up.pool] == [i.right for i in LABELLED.pool]
    assert made_up.pool[0].options == ("foo", "bar")
    assert made_up.one_set
    for words in (("foo",), ("foo", "foo"), ("foo", " ")):
        with pytest.raises(TaskError, match="expected 2 different words"):
            text.with_words(LABELLED, words)
    with pytest.raises(TaskError, match="no labels to rename"):
        text.with_words(WORDS, ("a", "b"))


# --- Prompts --------------------------------------------------------------------------------------


def test_a_prompt_reads_as_its_format_says():
    task = text.read_tweeteval(folder())
    (q, *_) = questions(task, 1, Prompting(format="input and output", seed=3), 2)
    (e,) = q.examples
    assert q.prompt == f"Input: {e.text}\nOutput: {e.answer}\n\nInput: {q.item.text}\nOutput:"
    assert q.continuations == (" not-hate", " hate")
    assert questions(task, 0, Prompting(), 1)[0].prompt == f"{q.item.text} ->"


@pytest.mark.parametrize("task", [LABELLED, WORDS], ids=["labels", "words"])
@pytest.mark.parametrize("right", [0.0, 0.3, 0.75, 1.0])
@pytest.mark.parametrize("outside", [0.0, 0.5, 1.0])
def test_shares_are_met_exactly(task, right, outside):
    truth = {item.text: item.answer for item in task.pool}
    everywhere = {item.answer for item in task.pool}
    for k in (1, 4, 7, 16):
        for q in questions(task, k, Prompting(right=right, outside=outside, seed=k), 6):
            away = [e for e in q.examples if e.text not in truth]
            home = [e for e in q.examples if e.text in truth]
            assert len(away) == round(outside * k)
            assert all(e.text in text.outside_texts() for e in away)
            assert len({e.text for e in q.examples}) == k
            wrong = [e for e in home if e.answer != truth[e.text]]
            assert len(wrong) == round((1 - right) * len(home))
            assert {e.answer for e in q.examples} <= everywhere
            assert q.item.text not in {e.text for e in q.examples}
            kinds = [e.kind for e in q.examples]
            assert (kinds.count("outside"), kinds.count("wrong")) == (len(away), len(wrong))


@pytest.mark.parametrize("selection", ["random", "one draw for all"])
def test_prompts_are_nested_in_k_and_in_n(selection):
    how = Prompting(selection, seed=5)
    many = questions(LABELLED, 8, how, 20)
    few = questions(LABELLED, 3, how, 20)
    assert [q.item for q in many] == [q.item for q in few]
    assert all(a.examples[:3] == b.examples for a, b in zip(many, few, strict=True))
    assert questions(LABELLED, 8, how, 20, start=12) == many[12:]
    drawn = {q.examples for q in many}
    assert len(drawn) == (20 if selection == "random" else 1)


def test_one_draw_keeps_examples_out_of_the_questions():
    many = questions(LABELLED, 16, Prompting("one draw for all"), 1000)
    assert len(many) == len(LABELLED.pool) - text.MOST_EXAMPLES
    assert not {q.item.text for q in many} & {e.text for q in many for e in q.examples}


def test_similar_examples_are_scikit_learns():
    how = Prompting("most similar", seed=1)
    texts = [i.text for i in LABELLED.pool]
    fit = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), sublinear_tf=True).fit(texts)
    for q in questions(LABELLED, 4, how, 8):
        near = cosine_similarity(fit.transform([q.item.text]), fit.transform(texts))[0]
        near[texts.index(q.item.text)] = -1
        best = np.sort(near)[-4:]
        shown = [near[texts.index(e.text)] for e in q.examples]
        np.testing.assert_allclose(shown, best, atol=1e-12)  # the most similar last


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="0 to 32 examples, got 33"):
        questions(LABELLED, 33, Prompting(), 1)
    with pytest.raises(ValueError, match="only 3 items"):
        questions(text.read_tweeteval(folder()), 4, Prompting(), 1)
    with pytest.raises(ValueError, match="selection: expected one of"):
        Prompting("best")
    with pytest.raises(ValueError, match="right: expected a share"):
        Prompting(right=1.2)
    with pytest.raises(TaskError, match="expected one of"):
        text.bundled("../capitals")


# --- Measures -------------------------------------------------------------------------------------


def made_scores(task, n, n_labels, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    right = rng.integers(n_labels, size=n)
    log_probs = rng.normal(size=(n, n_labels)) - 5
    log_probs[np.arange(n), right] += 0.7
    if ties:
        log_probs = np.round(log_probs)
    return Scores(log_probs, right)


def labelled(n_labels):
    names = tuple("abcdef"[:n_labels])
    items = tuple(text.Item(f"t{i}", names, i % n_labels) for i in range(12))
    return text.Task("made", items, items, names)


@pytest.mark.parametrize("n_labels", [2, 3, 5])
@pytest.mark.parametrize("ties", [False, True])
def test_measures_are_scikit_learns(n_labels, ties):
    task, n = labelled(n_labels), 60
    scores = made_scores(task, n, n_labels, ties=ties)
    found = text.measure(task, scores)
    p, right = scores.probabilities, scores.right
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_allclose(
        np.log(p[:, 0] / p[:, 1]), scores.log_probs @ ([1, -1] + [0] * (n_labels - 2))
    )
    answers = p.argmax(1)
    auc = roc_auc_score(right, p[:, 1] if n_labels == 2 else p, multi_class="ovr")
    f1 = {"average": "macro", "zero_division": 0, "labels": range(n_labels)}
    assert found["accuracy"].value == pytest.approx(accuracy_score(right, answers), abs=1e-12)
    assert found["AUC"].value == pytest.approx(auc, abs=1e-12)
    assert found["macro-F1"].value == pytest.approx(f1_score(right, answers, **f1), abs=1e-12)
    always = np.full(n, np.argmax([(right == c).sum() for c in range(n_labels)]))
    assert found["accuracy"].baseline == pytest.approx(accuracy_score(right, always))
    assert found["macro-F1"].baseline == pytest.approx(f1_score(right, always, **f1))
    assert found["AUC"].baseline == 0.5


def test_bands_are_those_of_resampled_questions():
    """Against one call of scikit-learn a resample, on resamples drawn elsewhere."""
    task, n = labelled(3), 50
    scores = made_scores(task, n, 3, seed=4)
    found = text.measure(task, scores, seed=9, n_resamples=4000)
    rng = np.random.default_rng(123)
    p, right = scores.probabilities, scores.right
    values = {"accuracy": [], "AUC": [], "macro-F1": []}
    for _ in range(400):
        at = rng.integers(n, size=n)
        if len(set(right[at])) < 3:
            continue
        values["accuracy"].append(accuracy_score(right[at], p[at].argmax(1)))
        values["AUC"].append(roc_auc_score(right[at], p[at], multi_class="ovr"))
        values["macro-F1"].append(f1_score(right[at], p[at].argmax(1), average="macro"))
    for name, sample in values.items():
        low, high = np.quantile(sample, [0.025, 0.975])
        # The 2.5 % quantile of 400 values with s.d. 0.07 is itself known to 0.009 (one s.d.).
        assert found[name].low == pytest.approx(low, abs=0.03)
        assert found[name].high == pytest.approx(high, abs=0.03)


def test_a_word_task_has_accuracy_alone_and_guesses():
    asked = questions(WORDS, 0, Prompting(), 5)
    rows = [np.array([-1.0, -2.0, -3.0]) for _ in asked]
    rows[0] = np.array([-2.0, -1.0])  # an item with fewer answers
    scores = Scores.of(asked, rows)
    assert scores.answers.tolist() == [1, 0, 0, 0, 0]
    assert scores.probabilities[0].tolist() == pytest.approx([0.26894, 0.73106, 0.0], abs=1e-5)
    found = text.measure(WORDS, scores)
    assert found["accuracy"].value == 0.8
    assert found["accuracy"].baseline == pytest.approx((1 / 2 + 4 / 3) / 5)
    assert np.isnan(found["AUC"].value)
    assert np.isnan(found["macro-F1"].value)


def test_resamples_with_one_label_only_have_no_auc():
    scores = Scores(np.log([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]]), np.array([0, 0, 1]))
    auc = text.measure(labelled(2), scores)["AUC"]
    assert np.isfinite([auc.value, auc.low, auc.high]).all()
    alone = Scores(scores.log_probs, np.array([1, 1, 1]))
    auc = text.measure(labelled(2), alone)["AUC"]
    assert np.isnan([auc.value, auc.low, auc.high]).all()
