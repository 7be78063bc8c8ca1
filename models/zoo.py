"""The committed checkpoints: name -> folder, checked against sha256 sums, ready to predict.

    python -m models.zoo                    # list them
    python -m models.zoo --write-manifest   # after a training: note the sums of what lies there

Importing this module imports neither torch nor transformers; `load` and `predictor` do.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models import folder as files
from models.config import InductionConfig
from models.folder import CheckpointError, Config

if TYPE_CHECKING:
    from models.folder import Model
    from models.induction_transformer import Training
    from models.predictor import TransformerPredictor

CHECKPOINTS = Path(__file__).resolve().parent / "checkpoints"
MANIFEST = "MANIFEST.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def names(checkpoints: Path = CHECKPOINTS) -> tuple[str, ...]:
    """Checkpoints in the manifest that answer regression prompts, sorted."""
    return tuple(n for n in _all_names(checkpoints) if not _is_training(n, checkpoints))


def trainings(checkpoints: Path = CHECKPOINTS) -> tuple[str, ...]:
    """Trainings of an induction head in the manifest, sorted."""
    return tuple(n for n in _all_names(checkpoints) if _is_training(n, checkpoints))


def config(name: str, checkpoints: Path = CHECKPOINTS) -> Config:
    """Sizes and training law of a regressor, without its weights."""
    return files.regressor_config(_text_files(name, checkpoints))


def training_config(name: str, checkpoints: Path = CHECKPOINTS) -> InductionConfig:
    """Sizes, law and kept steps of the training of an induction head, without its weights."""
    return _training_config(_text_files(name, checkpoints))


def card(name: str, checkpoints: Path = CHECKPOINTS) -> dict[str, Any]:
    """The card of a checkpoint: law, steps, seconds, machine, curve, R^2 on held-out prompts."""
    return files.read_card(_text_files(name, checkpoints))


def load(name: str, checkpoints: Path = CHECKPOINTS) -> Model:
    """A checkpoint in eval mode with frozen weights; the bytes that are hashed are those that are
    read.

    Raises CheckpointError if the name is unknown, a file differs from the manifest or is not what
    `models.folder` accepts.
    """
    contents = _checked(name, checkpoints)
    settings = files.regressor_config(contents)
    return files.build(settings, files.read_weights(contents, settings))


def training(name: str, checkpoints: Path = CHECKPOINTS) -> Training:
    """The training of an induction head with all its snapshots, under the same checks as `load`."""
    contents = _checked(name, checkpoints)
    settings = _training_config(contents)
    return files.build_training(settings, files.read_weights(contents, settings))


def _checked(name: str, checkpoints: Path) -> dict[str, bytes]:
    contents = files.read_files(_folder(name, checkpoints))
    expected = _manifest(checkpoints)[name]
    found = _sums(contents)
    changed = sorted(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
    if changed:
        raise CheckpointError(
            f"{name}: {', '.join(changed)} differ from {MANIFEST}. Restore the file, or if it was "
            "meant to change run `python -m models.zoo --write-manifest`"
        )
    return contents


def _training_config(contents: dict[str, bytes]) -> InductionConfig:
    found = files.read_config(contents)
    if not isinstance(found, InductionConfig):
        raise CheckpointError(
            "expected the training of an induction head, got a checkpoint that answers regression "
            "prompts"
        )
    return found


def predictor(
    name: str,
    checkpoints: Path = CHECKPOINTS,
    gate: Callable[[], AbstractContextManager] = nullcontext,
) -> TransformerPredictor:
    """A checkpoint as a `core.predictors.Predictor` of the same name."""
    from models.predictor import TransformerPredictor

    return TransformerPredictor(load(name, checkpoints), name, gate)


def version(name: str, checkpoints: Path = CHECKPOINTS) -> str:
    """A short sum that changes with the weights or the config: for keys of caches and sweeps."""
    _folder(name, checkpoints)
    noted = json.dumps(_manifest(checkpoints)[name], sort_keys=True)
    return hashlib.sha256(noted.encode()).hexdigest()[:16]


def sums(checkpoints: Path = CHECKPOINTS) -> dict[str, dict[str, str]]:
    """sha256 of config and weights by checkpoint, as noted; `load` refuses files that differ."""
    return _manifest(checkpoints)


def write_manifest(checkpoints: Path = CHECKPOINTS) -> dict[str, dict[str, str]]:
    """Note the sha256 of config and weights of every folder that lies there; returns the notes.

    Each folder must be readable, so a broken one is refused before it is registered.
    """
    folders = sorted(path for path in checkpoints.iterdir() if path.is_dir())
    return _write(checkpoints, {folder.name: _checked_sums(folder) for folder in folders})


def register(name: str, checkpoints: Path = CHECKPOINTS) -> None:
    """Note one folder in the manifest and leave the others as they are noted."""
    noted = {k: v for k, v in _manifest(checkpoints).items() if (checkpoints / k).is_dir()}
    _write(checkpoints, dict(sorted((noted | {name: _checked_sums(checkpoints / name)}).items())))


def _checked_sums(folder: Path) -> dict[str, str]:
    if not _NAME.fullmatch(folder.name):
        raise CheckpointError(_name_message(folder.name))
    contents = files.read_files(folder)
    files.read_card(contents)
    files.read_weights(contents, files.read_config(contents))
    return _sums(contents)


def _write(checkpoints: Path, manifest: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    partial = checkpoints / f"{MANIFEST}.partial"
    partial.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    partial.replace(checkpoints / MANIFEST)
    return manifest


def _sums(contents: dict[str, bytes]) -> dict[str, str]:
    """sha256 by file name; the card is prose and stays out."""
    return {
        name: hashlib.sha256(data).hexdigest()
        for name, data in sorted(contents.items())
        if name != files.CARD
    }


def _all_names(checkpoints: Path) -> list[str]:
    return sorted(_manifest(checkpoints))


def _is_training(name: str, checkpoints: Path) -> bool:
    path = checkpoints / name / files.CONFIG
    try:
        stamp = path.stat()
    except OSError:  # `load` says what is missing
        return False
    return _kind(path, stamp.st_mtime_ns, stamp.st_size) == InductionConfig.KIND


@functools.lru_cache(maxsize=256)
def _kind(path: Path, changed: int, size: int) -> str:
    """What config.json says it is; kept, since every list of names asks."""
    try:
        return str(files.parse_json(files.CONFIG, path.read_bytes()).get("kind", ""))
    except CheckpointError:
        return ""


def _manifest(checkpoints: Path) -> dict[str, dict[str, str]]:
    path = checkpoints / MANIFEST
    return files.parse_json(MANIFEST, path.read_bytes()) if path.exists() else {}


def _name_message(name: object) -> str:
    return (
        "a checkpoint's name has at most 64 lower-case letters, digits and hyphens, got "
        f"{str(name)[:80]!r}"
    )


def _folder(name: str, checkpoints: Path) -> Path:
    if not isinstance(name, str) or not _NAME.fullmatch(name):  # also keeps `..` and `/` out
        raise CheckpointError(_name_message(name))
    known = _all_names(checkpoints)
    if name not in known:
        raise CheckpointError(f"no checkpoint {name!r}; there are: {', '.join(known) or 'none'}")
    return checkpoints / name


def _text_files(name: str, checkpoints: Path) -> dict[str, bytes]:
    folder = _folder(name, checkpoints)
    paths = [folder / file for file in (files.CONFIG, files.CARD)]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="List the checkpoints, or note their sums.")
    parser.add_argument("--write-manifest", action="store_true", help="note what lies there now")
    parser.add_argument("--checkpoints", type=Path, default=CHECKPOINTS)
    args = parser.parse_args(arguments)
    if args.write_manifest:
        write_manifest(args.checkpoints)
    for name in names(args.checkpoints):
        settings, noted = config(name, args.checkpoints), card(name, args.checkpoints)
        sizes = f"{files.n_weights(settings):,} weights"
        r2 = noted.get("held_out", {}).get("r2", {})
        print(f"{name:24s} {sizes:20s} R^2 " + "  ".join(f"{k}: {v}" for k, v in r2.items()))
    for name in trainings(args.checkpoints):
        kept, noted = training_config(name, args.checkpoints), card(name, args.checkpoints)
        sizes = f"{files.n_weights(kept):,} weights"
        accuracy = noted.get("held_out", {}).get("repeated")
        print(f"{name:24s} {sizes:20s} accuracy after a repeated trigger: {accuracy}")


if __name__ == "__main__":
    main()
