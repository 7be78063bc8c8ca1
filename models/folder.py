"""Read a checkpoint folder that anybody may have written: everything is checked before it is
allocated.

A folder holds `config.json`, the weights (`model.safetensors`, or shards with their index) and
perhaps `card.json`. Only JSON and safetensors are ever read; nothing is unpickled. The order of the
checks: names, sizes, pickle magic, strict JSON, the config's limits, the header of the weights
against the shapes the config implies, then the numbers themselves, and what a small prompt makes
of them.
"""

from __future__ import annotations

import json
import math
import re
import struct
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from models.config import InductionConfig, RegressorConfig, TrainingLaw

if TYPE_CHECKING:
    from torch import Tensor

    from models.gpt2_regressor import GPT2Regressor
    from models.induction_transformer import Training
    from models.one_layer_attention import OneLayerAttention, OneLayerConfig

    Model = GPT2Regressor | OneLayerAttention  # what answers regression prompts

MAX_BYTES = 64 * 2**20  # of a whole folder; 12 layers of 256, the largest we train, take 38 MiB
MAX_JSON_BYTES = 2**20
MAX_HEADER_BYTES = 2**20  # 48 layers need 60 KiB
MAX_FILES = 32
SHARD_BYTES = 15 * 2**20  # weights above this are written in shards
# Of a weight, and of anything inside the network on a prompt of its training law. Trained networks
# stay below 1e3; squares and products of such numbers still fit float32.
LARGEST = 1e6

CONFIG, CARD = "config.json", "card.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_SHARD = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")
_PICKLE_SUFFIXES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt")

# transformers keeps module-level state while it builds a model: two builds at once can clash.
BUILDING = threading.Lock()


class Config(Protocol):
    """What the config of every regressor tells; `to_json` gives `config.json`."""

    @property
    def n_dims(self) -> int: ...
    @property
    def target_scale(self) -> float: ...
    @property
    def law(self) -> TrainingLaw: ...
    @property
    def max_examples(self) -> int: ...
    def to_json(self) -> dict[str, Any]: ...


class CheckpointError(ValueError):
    """A checkpoint that is refused; the message says what was expected, what came and what to
    do."""


def read_folder(files: Path | Mapping[str, bytes]) -> Model:
    """The model in a folder, or in uploaded files (name -> bytes), in eval mode with frozen
    weights.

    Raises CheckpointError for anything that is not such a folder: pickles, unknown or missing
    files, more than MAX_BYTES, JSON that is not UTF-8 or has duplicate keys, sizes past
    `RegressorConfig.LIMITS`, and weights that are truncated, misnamed, of another shape or dtype,
    not finite. Also for a checkpoint that is no regressor, or that cannot answer: no position for an
    example, or numbers past LARGEST on the way to an answer.
    """
    contents = read_files(files) if isinstance(files, Path) else _named(files)
    config = regressor_config(contents)
    read_card(contents)
    if config.max_examples < 2:
        raise CheckpointError(
            f"{CONFIG}: n_positions must be at least 6, two for each of two examples and the query, "
            f"got {getattr(config, 'n_positions', 0)}: this network cannot be asked in context"
        )
    model = build(config, read_weights(contents, config))
    _check_answers(model)
    return model


def read_files(folder: Path) -> dict[str, bytes]:
    """The files of a folder that belong to a checkpoint, sizes checked before anything is read."""
    if not folder.is_dir():
        raise CheckpointError(f"expected a checkpoint folder, {folder.name!r} is none")
    paths = [p for p in sorted(folder.iterdir()) if p.is_file() and _belongs(p.name)]
    if not any(p.suffix == ".safetensors" for p in paths):
        for path in sorted(folder.iterdir()):
            if path.suffix in _PICKLE_SUFFIXES:
                raise CheckpointError(_pickle_message(path.name))
    _check_total(sum(p.stat().st_size for p in paths), len(paths))
    return {p.name: p.read_bytes() for p in paths}


def _named(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Uploaded files by bare name; browsers may put the folder in front."""
    _check_total(sum(len(data) for data in files.values()), len(files))
    contents: dict[str, bytes] = {}
    for given, data in files.items():
        name = re.split(r"[/\\]", given)[-1]
        if name.lower().endswith(_PICKLE_SUFFIXES) or _is_pickle(data):
            raise CheckpointError(_pickle_message(name))
        if not _belongs(name):
            raise CheckpointError(
                f"unexpected file {_short(name)}: a checkpoint holds {CONFIG}, {WEIGHTS} (or its "
                f"shards and {INDEX}) and perhaps {CARD}; leave the other files out"
            )
        if name in contents:
            raise CheckpointError(f"two files are called {name}; give the files of one checkpoint")
        contents[name] = bytes(data)
    return contents


def _belongs(name: str) -> bool:
    return name in (CONFIG, CARD, WEIGHTS, INDEX) or _SHARD.fullmatch(name) is not None


def _check_total(n_bytes: int, n_files: int) -> None:
    if n_bytes > MAX_BYTES or n_files > MAX_FILES:
        raise CheckpointError(
            f"a checkpoint may have {MAX_FILES} files and {MAX_BYTES / 2**20:.0f} MiB in all, got "
            f"{n_files} files and {n_bytes / 2**20:.1f} MiB; give a smaller model"
        )


def _is_pickle(data: bytes) -> bool:
    # torch.save writes a zip of pickles, before version 1.6 a bare pickle of protocol 2.
    return data[:4] == b"PK\x03\x04" or (
        len(data) > 1 and data[0] == 0x80 and data[1] in range(2, 6)
    )


def _pickle_message(name: str) -> str:
    return (
        f"{_short(name)} is a pickle, and a pickle can run code when it is read. Give {CONFIG} and "
        f"{WEIGHTS}; `python -m models.convert` makes them from Garg et al.'s state.pt"
    )


# --- JSON ----------------------------------------------------------------------------------------


def parse_json(name: str, data: bytes, limit: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """The object in a JSON file: UTF-8, unique keys, finite numbers; CheckpointError otherwise."""
    if len(data) > limit:
        raise CheckpointError(f"{name} may have {limit} bytes, got {len(data)}")
    try:
        parsed = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_whole,
        )
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{name} is not UTF-8 text (byte {error.start})") from error
    except RecursionError:
        raise CheckpointError(f"{name} is nested too deeply") from None
    except ValueError as error:  # what json raises, and our three hooks
        raise CheckpointError(f"{name} is not valid JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise CheckpointError(f"{name} must hold an object, got {type(parsed).__name__}")
    try:
        json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:  # an escape such as \\ud800: half of a pair
        raise CheckpointError(
            f"{name} holds {error.object[error.start]!r}, half a character that cannot be shown; "
            "write the text anew as UTF-8"
        ) from error
    return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {_short(next(k for k in keys if keys.count(k) > 1))} stands twice")
    return result


def _no_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")


def _whole(digits: str) -> int:
    if len(digits) > 1000:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def regressor_config(contents: Mapping[str, bytes]) -> Config:
    """The checked config of a checkpoint that answers regression prompts."""
    config = read_config(contents)
    if isinstance(config, InductionConfig):
        raise CheckpointError(
            "expected a checkpoint that answers regression prompts, got the training of an "
            "induction head; the induction page shows those of the zoo"
        )
    return config


def read_config(contents: Mapping[str, bytes]) -> Config | InductionConfig:
    """The checked config of a folder's files; refuses one whose weights could not fit MAX_BYTES."""
    if CONFIG not in contents:
        raise CheckpointError(f"{CONFIG} is missing: it holds the sizes and the training law")
    try:
        raw = parse_json(CONFIG, contents[CONFIG])
        config: Config | InductionConfig
        if raw.get("kind") == InductionConfig.KIND:
            config = InductionConfig.from_json(raw)
        elif raw.get("kind") == "one_layer_attention":
            from models.one_layer_attention import OneLayerConfig

            config = OneLayerConfig.from_json(raw)
        else:
            config = RegressorConfig.from_json(raw)
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    if 4 * n_weights(config) > MAX_BYTES:
        raise CheckpointError(
            f"{CONFIG} describes {n_weights(config):,} weights, at most {MAX_BYTES // 4:,} are "
            "allowed; give a smaller model"
        )
    return config


def read_card(contents: Mapping[str, bytes]) -> dict[str, Any]:
    """The card of a folder's files, empty if there is none."""
    return parse_json(CARD, contents[CARD]) if CARD in contents else {}


# --- Weights -------------------------------------------------------------------------------------


def n_weights(config: Config | InductionConfig) -> int:
    """Numbers in the weights of a checkpoint; nothing is allocated to count them."""
    return sum(math.prod(shape) for shape in expected_shapes(config).values())


def expected_shapes(config: Config | InductionConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor in the weights; equals the model's `state_dict()`."""
    if isinstance(config, RegressorConfig):
        return _gpt2_shapes(config)
    if isinstance(config, InductionConfig):
        return config.shapes()
    from models.one_layer_attention import OneLayerConfig

    if isinstance(config, OneLayerConfig):
        return _one_layer_shapes(config)
    raise TypeError(f"no kind of checkpoint has a {type(config).__name__}")


def _one_layer_shapes(config: OneLayerConfig) -> dict[str, tuple[int, ...]]:
    reads = {"weight": (config.n_key, config.n_dims), "bias": (config.n_key,)}
    return {
        "log_beta": (),
        **{f"{part}.{name}": shape for part in ("key", "query") for name, shape in reads.items()},
        "value.weight": (config.n_value, config.n_dims + 1),
        "read_out.weight": (1, config.n_value),
    }


def _gpt2_shapes(config: RegressorConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor in the weights; equals
    `GPT2Regressor(config).state_dict()`."""
    e = config.n_embd
    shapes: dict[str, tuple[int, ...]] = {
        "read_in.weight": (e, config.n_dims),
        "read_in.bias": (e,),
        "backbone.wte.weight": (1, e),
        "backbone.wpe.weight": (config.n_positions, e),
    }
    for layer in range(config.n_layer):
        block = f"backbone.h.{layer}."
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"{block}{norm}.weight": (e,), f"{block}{norm}.bias": (e,)}
        for name, rows, cols in (
            ("attn.c_attn", e, 3 * e),
            ("attn.c_proj", e, e),
            ("mlp.c_fc", e, 4 * e),
            ("mlp.c_proj", 4 * e, e),
        ):
            shapes |= {f"{block}{name}.weight": (rows, cols), f"{block}{name}.bias": (cols,)}
    shapes |= {"backbone.ln_f.weight": (e,), "backbone.ln_f.bias": (e,)}
    return shapes | {"read_out.weight": (1, e), "read_out.bias": (1,)}


def read_weights(
    contents: Mapping[str, bytes], config: Config | InductionConfig
) -> dict[str, Tensor]:
    """The weights of a folder's files, header by header against the config, then finite."""
    expected = expected_shapes(config)
    weights: dict[str, Tensor] = {}
    for name, keys in _weight_files(contents, expected).items():
        shapes = {key: expected[key] for key in keys}
        check_header(name, contents[name], shapes, config)
        weights |= _tensors(name, contents[name])
    return weights


def _weight_files(
    contents: Mapping[str, bytes], expected: Mapping[str, tuple[int, ...]]
) -> dict[str, list[str]]:
    """File name -> the tensors it must hold: one file, or the shards of the index."""
    shards = sorted(name for name in contents if _SHARD.fullmatch(name))
    if INDEX not in contents:
        if shards:
            raise CheckpointError(f"{INDEX} is missing: it says which shard holds which tensor")
        if WEIGHTS not in contents:
            raise CheckpointError(f"{WEIGHTS} is missing: it holds the weights")
        return {WEIGHTS: list(expected)}
    if WEIGHTS in contents:
        raise CheckpointError(f"both {WEIGHTS} and {INDEX} came; give one file or shards, not both")
    where = parse_json(INDEX, contents[INDEX]).get("weight_map")
    if not isinstance(where, dict):
        raise CheckpointError(f"{INDEX} must hold an object weight_map: tensor name -> file name")
    _same_keys(INDEX, set(where), set(expected))
    files: dict[str, list[str]] = {}
    for key, name in where.items():
        found = _SHARD.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            raise CheckpointError(
                f"{INDEX}: expected names like model-00001-of-00002.safetensors, got {_short(name)}"
            )
        files.setdefault(name, []).append(key)
    count = len(files)
    wanted = [f"model-{i:05d}-of-{count:05d}.safetensors" for i in range(1, count + 1)]
    if sorted(files) != wanted or shards != wanted:
        raise CheckpointError(
            f"the shards do not match {INDEX}: it names {_short(sorted(files))}, the folder holds "
            f"{_short(shards)}; give all of them"
        )
    return files


def check_header(
    name: str,
    data: bytes,
    expected: Mapping[str, tuple[int, ...]],
    config: Config | InductionConfig,
) -> None:
    """Check a safetensors file against the shapes it must hold, reading its header only.

    Layout: 8 bytes n (little endian), n bytes of JSON {tensor: {dtype, shape, data_offsets}}, then
    the data without holes or overlaps. Raises CheckpointError.
    """
    if len(data) < 8:
        raise CheckpointError(f"{name} is truncated: {len(data)} bytes, a header alone takes 8")
    if _is_pickle(data):
        raise CheckpointError(_pickle_message(name))
    (n_header,) = struct.unpack("<Q", data[:8])
    if not 2 <= n_header <= MAX_HEADER_BYTES:
        raise CheckpointError(
            f"{name} is no safetensors file: its first 8 bytes should give the length of its header, "
            f"2 bytes to {MAX_HEADER_BYTES / 2**20:.0f} MiB, and read as {_length(n_header)}. It is "
            f"damaged or of another format; write it anew with safetensors.torch.save_file"
        )
    if 8 + n_header > len(data):
        raise CheckpointError(
            f"{name} is truncated: {len(data)} bytes, its header alone takes {8 + n_header}"
        )
    header = parse_json(f"the header of {name}", data[8 : 8 + n_header], MAX_HEADER_BYTES)
    _check_metadata(name, header.pop("__metadata__", {}), config)
    _same_keys(name, set(header), set(expected))
    spans = []
    for key, shape in expected.items():
        entry = header[key]
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise CheckpointError(f"{name}: {key} must give dtype, shape and data_offsets")
        if entry["dtype"] != "F32":
            raise CheckpointError(
                f"{name}: {key} must be F32, got {_short(entry['dtype'])}; save it as float32"
            )
        if not _is_whole_list(entry["shape"]) or tuple(entry["shape"]) != shape:
            raise CheckpointError(
                f"{name}: {key} must have shape {list(shape)} under this {CONFIG}, got "
                f"{_short(entry['shape'])}"
            )
        offsets = entry["data_offsets"]
        n_bytes = 4 * math.prod(shape)
        if not _is_whole_list(offsets) or len(offsets) != 2 or offsets[1] - offsets[0] != n_bytes:
            raise CheckpointError(f"{name}: {key} takes {n_bytes} bytes, its offsets say otherwise")
        spans.append((offsets[0], offsets[1]))
    end = 0
    for begin, stop in sorted(spans):
        if begin != end:
            raise CheckpointError(f"{name}: its tensors overlap or leave a hole at byte {end}")
        end = stop
    if 8 + n_header + end != len(data):
        short = 8 + n_header + end > len(data)
        raise CheckpointError(
            f"{name} {'is truncated' if short else 'has bytes that belong to no tensor'}: expected "
            f"{8 + n_header + end} bytes, got {len(data)}"
        )


def _length(n_bytes: int) -> str:
    """A length somebody may have made up: not in twenty digits."""
    return f"{n_bytes} bytes" if n_bytes < 2**20 else f"{n_bytes / 2**20:.2g} MiB"


def _check_metadata(name: str, metadata: object, config: Config | InductionConfig) -> None:
    """Shapes cannot tell how many heads share a layer; our exports note it beside the weights."""
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError(f"{name}: __metadata__ must map names to strings")
    for key, value in weights_metadata(config).items():
        if key in metadata and metadata[key] != value:
            raise CheckpointError(
                f"{name} was written with {_short(metadata[key])}, {CONFIG} says {value!r}; give "
                f"the {CONFIG} that belongs to these weights"
            )


def weights_metadata(config: Config | InductionConfig) -> dict[str, str]:
    """What the shapes of the weights leave open, noted in the header of an exported file.

    One entry: safetensors writes several in random order, and equal weights shall be equal bytes.
    """
    if isinstance(config, InductionConfig):
        return {"config": f"steps {list(config.steps)}"}
    noted = f"target_scale {float(config.target_scale)!r}"
    if isinstance(config, RegressorConfig):
        noted = f"n_head {config.n_head}, {noted}"
    return {"config": noted}


def _is_whole_list(value: object) -> bool:
    return isinstance(value, list) and all(type(v) is int and v >= 0 for v in value)


def _same_keys(name: str, got: set[str], expected: set[str]) -> None:
    if got == expected:
        return
    missing, extra = sorted(expected - got), sorted(got - expected)
    hint = ""
    if "wte.weight" in got or "transformer.wte.weight" in got:
        hint = " These are the weights of a GPT-2 language model, not of a regressor."
    elif "_read_in.weight" in got:
        hint = " These are named as Garg et al. do: run models.convert on their state.pt."
    raise CheckpointError(
        f"{name} does not hold the tensors of this {CONFIG}: missing {_some(missing)}, unknown "
        f"{_some(extra)}.{hint}"
    )


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(_short(name) for name in names[:2]) + more


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _tensors(name: str, data: bytes) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(data)
    except SafetensorError as error:  # the format's own reader has the last word
        raise CheckpointError(f"{name} is no safetensors file: {error}") from error
    for key, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise CheckpointError(
                f"{name}: {key} holds NaN or infinite numbers; the training that wrote it diverged"
            )
    return tensors


def build(config: Config, weights: Mapping[str, Tensor]) -> Model:
    """A model in eval mode whose weights do not learn; safe to share between threads that only call
    it."""
    with BUILDING:
        model = _new(config)
        model.load_state_dict(dict(weights))
    return model.eval().requires_grad_(False)


def _check_answers(model: Model) -> None:
    """Refuse a network whose numbers run away on a small prompt of its own training law."""
    import torch

    from core.prompts import sample_prompts
    from models.keys_values import layer_states
    from models.law import training_prompt_law

    config = model.config
    try:
        law, draw = training_prompt_law(config), torch.Generator().manual_seed(0)
        prompts = sample_prompts(law, 4, min(config.max_examples, 8) + 1, draw)
    except ValueError as error:
        raise CheckpointError(f"{CONFIG}: its law gives no prompts: {error}") from error
    found = dict(model.state_dict())
    if all(_largest(t) <= LARGEST for t in found.values()):  # else the pass has nothing to add
        states = layer_states(model, prompts.xs.float(), prompts.ys.float())
        found = {name: value for name, value in vars(states).items() if name != "seen"}
        found["predictions"] = states.predictions / config.target_scale
    for name, value in found.items():
        size = 0.0 if value is None else _largest(torch.as_tensor(value))
        if not size <= LARGEST:
            raise CheckpointError(
                f"{name.replace('_', ' ')} of this network should stay below {LARGEST:g} on a prompt "
                f"of its own training law, got {size:.2g}: its answers would not be finite numbers. "
                "The training that wrote it diverged, or its weights are in other units"
            )


def _largest(tensor: Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def build_training(config: InductionConfig, weights: Mapping[str, Tensor]) -> Training:
    """All snapshots of an induction head's training, frozen."""
    from models.induction_transformer import Training

    training = Training(config)
    training.load_state_dict(dict(weights))
    return training.eval()


def _new(config: Config) -> Model:
    if isinstance(config, RegressorConfig):
        from models.gpt2_regressor import GPT2Regressor

        return GPT2Regressor(config)
    from models.one_layer_attention import OneLayerAttention, OneLayerConfig

    assert isinstance(config, OneLayerConfig)  # expected_shapes has refused all others
    return OneLayerAttention(config)


# --- Writing -------------------------------------------------------------------------------------


def write_folder(
    folder: Path,
    config: Config | InductionConfig,
    weights: Mapping[str, Tensor],
    card: Mapping[str, Any],
    shard_bytes: int | None = None,
) -> None:
    """Write a checkpoint folder; weights above `shard_bytes` go into shards, as Hugging Face names
    them.

    Each file is replaced whole. Files of an earlier layout (one file / other shards) are removed.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    parts = _split(weights, shard_bytes or SHARD_BYTES)
    names = [WEIGHTS]
    if len(parts) > 1:
        names = [f"model-{i:05d}-of-{len(parts):05d}.safetensors" for i in range(1, len(parts) + 1)]
    for name, part in zip(names, parts, strict=True):
        partial = folder / f"{name}.partial"
        save_file(part, partial, metadata=weights_metadata(config))
        partial.replace(folder / name)
    texts: dict[str, Any] = {CONFIG: config.to_json(), CARD: dict(card)}
    if len(parts) > 1:
        where = {key: name for name, part in zip(names, parts, strict=True) for key in part}
        total = sum(t.nbytes for t in weights.values())
        texts[INDEX] = {"metadata": {"total_size": total}, "weight_map": where}
    for name, value in texts.items():
        partial = folder / f"{name}.partial"
        partial.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        partial.replace(folder / name)
    for path in folder.iterdir():
        if _belongs(path.name) and path.name not in (*names, *texts):
            path.unlink()


def _split(weights: Mapping[str, Tensor], shard_bytes: int) -> list[dict[str, Tensor]]:
    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    for key, tensor in weights.items():
        if parts[-1] and size + tensor.nbytes > shard_bytes:
            parts.append({})
            size = 0
        parts[-1][key] = tensor.detach().cpu().contiguous()
        size += tensor.nbytes
    return parts
