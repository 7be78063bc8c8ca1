"""Folders that anybody may have written: each bad one is refused with a message, unallocated."""

import io
import json
import math
import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from models import folder as folders
from models.config import RegressorConfig, TrainingLaw
from models.folder import CheckpointError, expected_shapes, read_folder, write_folder
from models.gpt2_regressor import GPT2Regressor
from models.one_layer_attention import OneLayerAttention, OneLayerConfig

WEIGHTS, CONFIG = "model.safetensors", "config.json"


@pytest.fixture
def files(tiny_folder):
    return {p.name: p.read_bytes() for p in tiny_folder.iterdir()}


def refused(files, message):
    with pytest.raises(CheckpointError, match=message):
        read_folder(files)


def config_of(files, **changes):
    config = json.loads(files[CONFIG]) | changes
    return files | {CONFIG: json.dumps(config).encode()}


def header_of(files, change):
    header, body = split_safetensors(files[WEIGHTS])
    change(header)
    return files | {WEIGHTS: join_safetensors(header, body)}


def split_safetensors(data: bytes) -> tuple[dict, bytes]:
    """Header and body of a safetensors file, taken apart by hand."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def join_safetensors(header: dict | bytes, body: bytes) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + body


# --- What is accepted ----------------------------------------------------------------------------


def test_upload_and_folder_give_the_model_that_was_written(files, tiny_folder, tiny_model):
    for source in (files, tiny_folder, {f"my model/{n}": data for n, data in files.items()}):
        model = read_folder(source)
        assert model.config == tiny_model.config
        assert not model.training
        assert not any(p.requires_grad for p in model.parameters())
        for name, tensor in tiny_model.state_dict().items():
            assert torch.equal(model.state_dict()[name], tensor)


@pytest.mark.parametrize(
    "config",
    [
        RegressorConfig(n_dims=4, n_positions=10, n_embd=12, n_layer=3, n_head=3),
        OneLayerConfig(n_dims=4, n_key=3, n_value=5),
    ],
)
def test_expected_shapes_are_those_of_the_state_dict(config):
    model = GPT2Regressor if isinstance(config, RegressorConfig) else OneLayerAttention
    state = model(config).state_dict()
    assert expected_shapes(config) == {k: tuple(v.shape) for k, v in state.items()}
    assert folders.n_weights(config) == sum(v.numel() for v in state.values())


def test_one_layer_attention_round_trip(tmp_path):
    torch.manual_seed(0)
    model = OneLayerAttention(OneLayerConfig(n_dims=4, n_key=3, n_value=5))
    write_folder(tmp_path, model.config, model.state_dict(), {})
    again = read_folder(tmp_path)
    assert again.config == model.config
    xs, ys = torch.randn(2, 5, 4), torch.randn(2, 5)
    assert torch.equal(again(xs, ys), model(xs, ys))


def test_shards_give_the_same_model_and_replace_the_single_file(tiny_folder, tiny_model):
    def write(shard_bytes):
        write_folder(tiny_folder, tiny_model.config, tiny_model.state_dict(), {}, shard_bytes)
        return sorted(p.name for p in tiny_folder.glob("*.safetensors*"))

    names = write(6000)
    assert len(names) > 3
    assert names[-1] == "model.safetensors.index.json"
    assert max(p.stat().st_size for p in tiny_folder.glob("*.safetensors")) < 16_000
    model = read_folder(tiny_folder)
    assert torch.equal(model.read_out.weight, tiny_model.read_out.weight)
    assert write(2**20) == [WEIGHTS]
    read_folder(tiny_folder)


def test_a_file_without_our_metadata_is_accepted(files, tiny_model):
    read_folder(files | {WEIGHTS: save(dict(tiny_model.state_dict()))})


def test_config_written_before_optional_keys_existed_loads(files):
    """The first checkpoints' config.json, key for key."""
    law = {"task": "linear", "mean": -2.0, "mixed_prompts": 0.0, "mean_spread": 0.0}
    law |= {"n_examples": 50, "positions": "fixed"}
    raw = {"n_dims": 20, "n_positions": 256, "n_embd": 64, "n_layer": 12, "n_head": 2}
    config = RegressorConfig.from_json(raw | {"target_scale": 10.0, "law": law})
    assert config == RegressorConfig()
    assert config.max_examples == 127


# --- Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["state.pt", "pytorch_model.bin", "x.pkl", "a/b.CKPT", "m.pth"])
def test_pickles_are_refused_by_name(files, name):
    refused(files | {name: b"anything"}, "is a pickle")


class Bomb:
    def __reduce__(self):
        return (Path("/tmp/unpickled-by-the-lab").touch, ())


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_are_refused_by_content_and_never_run(files, protocol):
    refused(files | {WEIGHTS: pickle.dumps(Bomb(), protocol)}, "is a pickle")
    assert not Path("/tmp/unpickled-by-the-lab").exists()


def test_renamed_torch_save_is_refused(files, tiny_model):
    buffer = io.BytesIO()
    torch.save(tiny_model.state_dict(), buffer)
    refused(files | {WEIGHTS: buffer.getvalue()}, "is a pickle")


def test_folder_with_a_pickle_alone_says_so(tiny_folder):
    (tiny_folder / WEIGHTS).unlink()
    (tiny_folder / "state.pt").write_bytes(b"PK\x03\x04")
    refused(tiny_folder, r"state\.pt' is a pickle.*models\.convert")


def test_foreign_missing_and_doubled_files(files, tmp_path):
    refused(files | {"notes.txt": b""}, "unexpected file 'notes.txt'")
    refused(files | {f"b/{CONFIG}": files[CONFIG]}, "two files are called config.json")
    refused({CONFIG: files[CONFIG]}, "model.safetensors is missing")
    refused({WEIGHTS: files[WEIGHTS]}, "config.json is missing")
    refused({}, "config.json is missing")
    refused(tmp_path / "nowhere", "expected a checkpoint folder")


def test_over_large_upload_is_refused_by_size_alone(files, monkeypatch):
    monkeypatch.setattr(folders, "MAX_BYTES", 20_000)
    refused(files, "MiB in all")
    many = {f"{i}/{CONFIG}": b"" for i in range(40)}
    refused(many, "32 files")


def test_over_large_folder_is_refused_unread(tiny_folder, monkeypatch):
    with (tiny_folder / WEIGHTS).open("r+b") as file:
        file.truncate(folders.MAX_BYTES + 1)  # sparse: takes no disk
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read before its size"))
    refused(tiny_folder, "64 MiB in all")


# --- config.json ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not valid JSON"),
        (b"[1]", "must hold an object, got list"),
        (b"{'n_dims': 3}", "not valid JSON"),
        (b'{"n_dims": NaN}', "NaN is not a number of JSON"),
        (b'{"n_dims": 3, "n_dims": 4}', "'n_dims' stands twice"),
        (b'{"law": {"mean": 1, "mean": 2}}', "'mean' stands twice"),
        (b'{"a": "\xff\xfe"}', "not UTF-8"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"n_dims": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"a": "' + b"x" * 2**20 + b'"}', "may have 1048576 bytes"),
        (b'{"\\ud800": 1}', "half a character"),
        (b"{}", "missing keys"),
    ],
)
def test_bad_json_is_refused(files, text, message):
    refused(files | {CONFIG: text}, message)
    refused(files | {"card.json": text} if message not in ("unknown keys", "missing keys") else {},
            message if message not in ("unknown keys", "missing keys") else "missing")  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_head": 3}, r"n_embd \(16\) must be a multiple of n_head \(3\)"),
        ({"n_dims": 0}, "n_dims must be a whole number in 1..1024, got 0"),
        ({"n_dims": True}, "n_dims must be a whole number"),
        ({"n_layer": 2.0}, "n_layer must be a whole number"),
        ({"n_layer": 10**9}, "n_layer must be a whole number in 1..48"),
        ({"n_embd": "16"}, "n_embd must be a whole number"),
        ({"n_embd": None}, "n_embd must be a whole number"),
        ({"target_scale": 0}, "target_scale must be a number"),
        ({"target_scale": [1]}, "target_scale must be a number"),
        ({"law": []}, "law must be an object"),
        ({"law": {"mean": "x"}}, "mean must be a number"),
        ({"law": {"mixed_prompts": 2}}, "mixed_prompts must be a number in 0..1"),
        ({"law": {"task": ["linear"]}}, "task must be one of"),
        ({"law": {"task": "x" * 10_000}}, "task must be one of"),
        ({"law": {"positions": {}}}, "positions must be one of"),
        ({"law": {"n_examples": 0}}, "n_examples must be a whole number"),
        ({"law": {"colour": 1}}, r"law: unknown keys \['colour'\]"),
        ({"model_type": "gpt2"}, "a language model's config"),
        ({"kind": "one_layer_attention"}, "unknown keys"),
        ({"kind": "mystery"}, "unknown keys"),
        ({"n_embd": 2048, "n_layer": 48}, r"2,41\d,\d+,\d+ weights, at most 16,777,216"),
        ({"n_positions": 8192, "n_embd": 2048}, "weights, at most"),
    ],
)
def test_bad_config_is_refused(files, changes, message):
    refused(config_of(files, **changes), message)


@pytest.mark.parametrize("changes", [{"target_scale": 10**400}, {"law": {"mean": -(10**400)}}])
def test_a_whole_number_past_all_floats_is_refused(files, changes):
    refused(config_of(files, **changes), "must be a number in")


def test_one_layer_config_past_all_floats_is_refused(tmp_path):
    model = OneLayerAttention(OneLayerConfig(n_dims=4, n_key=3, n_value=5))
    write_folder(tmp_path, model.config, model.state_dict(), {})
    files = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    for bad in (10**400, 1e-320, True, "2"):
        refused(config_of(files, target_scale=bad), "target_scale must be a number in")


def test_a_number_of_thousands_of_digits_is_refused_in_our_words(files):
    card = b'{"steps": ' + b"9" * 5000 + b"}"
    refused(files | {"card.json": card}, r"not valid JSON: a number has 5000 digits$")


def test_half_a_character_in_a_card_is_refused(files):
    card = b'{"machine": "\\ud800 box"}'
    refused(files | {"card.json": card}, "half a character")
    read_folder(files | {"card.json": b'{"machine": "\\ud83d\\ude00 box"}'})  # a whole pair


def test_infinite_config_number_is_refused(files):
    text = files[CONFIG].replace(b'"target_scale": 2.0', b'"target_scale": 1e999')
    refused(files | {CONFIG: text}, "target_scale must be a number")


def test_messages_stay_short(files):
    with pytest.raises(CheckpointError) as caught:
        read_folder(config_of(files, law={"task": "x" * 10_000}))
    assert len(str(caught.value)) < 300


def test_config_bomb_allocates_nothing(files):
    bomb = config_of(files, n_embd=2048, n_layer=48)
    tracemalloc.start()
    refused(bomb, "weights, at most")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 2**20  # the model would take 9 GiB


# --- Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 100, -4, -1])
def test_truncated_weights_are_refused(files, keep):
    refused(files | {WEIGHTS: files[WEIGHTS][:keep]}, "truncated")


def test_appended_bytes_are_refused(files):
    refused(files | {WEIGHTS: files[WEIGHTS] + b"\0" * 4}, "bytes that belong to no tensor")


@pytest.mark.parametrize("size", [0, 1, 2**20 + 1, 2**40, 2**63, 2**64 - 1])
def test_absurd_header_sizes_are_refused(files, size):
    data = struct.pack("<Q", size) + files[WEIGHTS][8:]
    refused(files | {WEIGHTS: data}, "length of its header")


def test_hugging_face_gpt2_weights_are_refused_by_name(files):
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=5, n_embd=16, n_layer=1, n_head=2))
    weights = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}
    refused(files | {WEIGHTS: save(weights)}, "weights of a GPT-2 language model")


def test_renamed_weights_are_refused(files, tiny_model):
    weights = dict(tiny_model.state_dict())
    weights["read_out.wait"] = weights.pop("read_out.weight")
    message = r"missing 'read_out\.weight', unknown 'read_out\.wait'"
    refused(files | {WEIGHTS: save(weights)}, message)
    garg = {f"_{k}": v for k, v in tiny_model.state_dict().items()}
    refused(files | {WEIGHTS: save(garg)}, "named as Garg et al. do")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes_are_refused(files, tiny_model, dtype):
    weights = {k: v.to(dtype) for k, v in tiny_model.state_dict().items()}
    refused(files | {WEIGHTS: save(weights)}, "must be F32")


def test_other_shapes_are_refused(files):
    refused(config_of(files, n_dims=4), r"read_in.weight must have shape \[16, 4\]")
    refused(config_of(files, n_layer=3), "does not hold the tensors")

    def flatten(header):
        header["read_in.weight"]["shape"] = [48]

    refused(header_of(files, flatten), r"must have shape \[16, 3\].*got \[48\]")


def test_wrong_number_of_heads_is_refused(files):
    """Shapes cannot tell 2 heads from 4; the note beside the weights does."""
    refused(config_of(files, n_head=4), "was written with 'n_head 2, .*says 'n_head 4")
    refused(config_of(files, target_scale=3.0), r"was written with .*target_scale 2\.0', .*3\.0")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(files, tiny_model, value):
    weights = {k: v.clone() for k, v in tiny_model.state_dict().items()}
    weights["backbone.h.1.mlp.c_fc.weight"][3, 5] = value
    refused(files | {WEIGHTS: save(weights)}, r"h\.1\.mlp\.c_fc\.weight holds NaN or infinite")


def test_a_network_without_room_for_two_examples_is_refused(tmp_path):
    config = RegressorConfig(n_dims=3, n_positions=5, n_embd=4, n_layer=1, n_head=2)
    write_folder(tmp_path, config, GPT2Regressor(config).state_dict(), {})
    with pytest.raises(CheckpointError, match=r"n_positions must be at least 6, .* got 5"):
        read_folder(tmp_path)


@pytest.mark.parametrize("factor", [1e8, 1e30])
def test_a_network_whose_numbers_run_away_is_refused(files, tiny_model, factor):
    weights = {k: v * factor for k, v in tiny_model.state_dict().items()}
    refused(files | {WEIGHTS: save(weights)}, "should stay below 1e\\+06")


def test_a_sharpness_past_all_floats_is_refused(tmp_path):
    model = OneLayerAttention(OneLayerConfig(n_dims=4, n_key=3, n_value=5))
    weights = dict(model.state_dict()) | {"log_beta": torch.tensor(200.0)}  # e^200 > 1e38
    write_folder(tmp_path, model.config, weights, {})
    with pytest.raises(CheckpointError, match=r"beta .* got inf"):
        read_folder(tmp_path)


@pytest.mark.parametrize("name", ["read_out.weight", "backbone.h.1.attn.c_attn.weight"])
def test_one_large_tensor_is_enough(files, tiny_model, name):
    weights = {k: v.clone() for k, v in tiny_model.state_dict().items()}
    weights[name] *= 4e5  # every weight below the limit, what they make of a prompt not
    assert weights[name].abs().max() < folders.LARGEST
    refused(files | {WEIGHTS: save(weights)}, "should stay below")


def test_untrained_and_silent_networks_are_accepted(files, tiny_model):
    silent = {k: torch.zeros_like(v) for k, v in tiny_model.state_dict().items()}
    read_folder(files | {WEIGHTS: save(silent)})


def test_overlaps_holes_and_false_offsets_are_refused(files):
    def overlap(header):
        header["read_in.bias"]["data_offsets"] = header["read_out.weight"]["data_offsets"]

    def shorter(header):
        header["read_in.bias"]["data_offsets"][1] -= 4

    def negative(header):
        header["read_in.bias"]["data_offsets"] = [-64, 0]

    def floats(header):
        header["read_in.bias"]["shape"] = [16.0]

    def extra(header):
        header["read_in.bias"]["surprise"] = 1

    def metadata(header):
        header["__metadata__"] = {"n_head": 2}

    for change, message in (
        (overlap, "overlap or leave a hole"),
        (shorter, "its offsets say otherwise"),
        (negative, "its offsets say otherwise"),
        (floats, "must have shape"),
        (extra, "must give dtype, shape and data_offsets"),
        (metadata, "must map names to strings"),
    ):
        refused(header_of(files, change), message)


def test_header_must_be_strict_json(files):
    _, body = split_safetensors(files[WEIGHTS])
    for raw, message in (
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'{"\xff": 1}', "not UTF-8"),
        (b'{"a":' * 1000, "nested too deeply|not valid JSON"),
        (b"[]", "must hold an object"),
        (b"  ", "not valid JSON"),
    ):
        refused(files | {WEIGHTS: join_safetensors(raw, body)}, message)


# --- Shards --------------------------------------------------------------------------------------


def test_bad_shards_are_refused(tiny_folder, tiny_model):
    whole = (tiny_folder / WEIGHTS).read_bytes()
    write_folder(tiny_folder, tiny_model.config, tiny_model.state_dict(), {}, shard_bytes=8000)
    files = {p.name: p.read_bytes() for p in tiny_folder.iterdir()}
    index = "model.safetensors.index.json"
    first, second = sorted(n for n in files if n.endswith(".safetensors"))[:2]
    without = {k: v for k, v in files.items() if k != first}
    refused(without, "the shards do not match")
    refused({k: v for k, v in files.items() if k != index}, "says which shard holds which")
    refused(files | {WEIGHTS: whole}, "one file or shards, not both")
    refused(files | {first: files[second]}, "does not hold the tensors")
    refused(files | {index: b"{}"}, "weight_map")
    parsed = json.loads(files[index])
    for name in ("../config.json", "/etc/passwd", 3, "model-00009-of-00009.safetensors"):
        changed = {"weight_map": dict(parsed["weight_map"]) | {"read_in.bias": name}}
        refused(files | {index: json.dumps(changed).encode()}, "expected names like|do not match")


# --- Fuzz ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fuzzed():
    torch.manual_seed(0)
    config = RegressorConfig(
        n_dims=2, n_positions=4, n_embd=4, n_layer=1, n_head=2, law=TrainingLaw(n_examples=1)
    )
    return config, save(dict(GPT2Regressor(config).state_dict()))


def accepts_only_what_the_reference_reader_reads(data, config):
    """Whatever the bytes, the answer is CheckpointError or weights of the shapes expected."""
    try:
        weights = folders.read_weights({WEIGHTS: data}, config)
    except CheckpointError:
        return
    assert {k: tuple(v.shape) for k, v in weights.items()} == expected_shapes(config)
    assert all(np.isfinite(v.numpy()).all() for v in weights.values())


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_fuzzed_bytes(fuzzed, data):
    config, good = fuzzed
    raw = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[place] = data.draw(st.integers(0, 255))
        else:
            del raw[place : place + data.draw(st.integers(1, 50))]
        if not raw:
            break
    accepts_only_what_the_reference_reader_reads(bytes(raw), config)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_fuzzed_header(fuzzed, data):
    config, good = fuzzed
    header, body = split_safetensors(good)
    key = data.draw(st.sampled_from(sorted(header)))
    place = data.draw(st.sampled_from(["entry", "dtype", "shape", "data_offsets", "shape 0"]))
    value = data.draw(json_values)
    if place == "entry":
        header[key] = value
    elif place == "shape 0":
        header[key]["shape"][0] = value
    else:
        header[key][place] = value
    accepts_only_what_the_reference_reader_reads(join_safetensors(header, body), config)


@given(raw=st.dictionaries(st.sampled_from([*RegressorConfig().to_json(), "kind"]), json_values))
@settings(max_examples=100, deadline=None)
def test_fuzzed_config(raw):
    text = json.dumps(RegressorConfig().to_json() | raw).encode()
    try:
        config = folders.read_config({CONFIG: text})
    except CheckpointError:
        return
    assert 4 * folders.n_weights(config) <= folders.MAX_BYTES
