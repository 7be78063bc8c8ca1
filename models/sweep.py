"""The command line of sweeps: names of checkpoints and settings of laws in, a tidy table out.

    python -m models.sweep --checkpoint linear-d20,linear-d20-wide --baselines least_squares \\
        --w2 0,0.1,0.3 --accuracy 1,0.8 --length 15,30 --seeds 0,1,2 --out sweep.parquet

Every combination becomes rows `predictor, settings, n_examples, metric, value, low, high`. A killed
sweep goes on when the same command runs again; a grid can grow in the same file. With `--jobs 2`
local processes share the work, with `--scheduler tcp://host:8786` a Dask cluster does (its workers
need this project on their path and the same checkpoints).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from core.predictors import BASELINES, Predictor
from core.prompts import PromptLaw
from core.sweep import (
    SweepFailed,
    SweepPoint,
    SweepProgress,
    baseline_factory,
    evaluate_point,
    grid,
    run_sweep,
)
from models import zoo
from models.law import training_prompt_law

# Settings of PromptLaw that can be swept, and how their text is read: as the type of the default.
SWEPT: dict[str, Callable[[str], Any]] = {
    field.name: type(field.default)
    for field in fields(PromptLaw)
    if isinstance(field.default, str | int | float) and field.name not in ("n_dims", "free_queries")
}
SWEPT["similarity"] = lambda text: None if text == "none" else float(text)


def predictor_factory(name: str, law: PromptLaw, checkpoints: Path = zoo.CHECKPOINTS) -> Predictor:
    """A baseline of `core.predictors`, or the checkpoint of that name; importable by workers."""
    return baseline_factory(name, law) if name in BASELINES else _loaded(name, checkpoints)


@lru_cache(maxsize=4)  # a worker evaluates many points of few checkpoints
def _loaded(name: str, checkpoints: Path) -> Predictor:
    return zoo.predictor(name, checkpoints)


def base_law(
    checkpoints: Sequence[str], swept: Sequence[str], root: Path = zoo.CHECKPOINTS
) -> PromptLaw:
    """The law around which settings are swept: the training law, without its random shares.

    Raises ValueError when the checkpoints were trained on different ones, apart from what is swept.
    """
    laws = [
        replace(training_prompt_law(zoo.config(name, root)), random_share=0.0, mean_spread=0.0)
        for name in checkpoints
    ]
    for name, law in zip(checkpoints, laws, strict=True):
        differing = [
            f.name
            for f in fields(PromptLaw)
            if f.name not in swept
            and not (f.name == "mean2" and "w2" not in swept)
            and getattr(law, f.name) != getattr(laws[0], f.name)
        ]
        if differing:
            raise ValueError(
                f"{checkpoints[0]} and {name} differ in {', '.join(differing)}; give "
                f"{' and '.join('--' + d for d in differing if d in SWEPT) or 'them'} or sweep "
                "them one by one"
            )
    return laws[0] if laws else PromptLaw()


def plan(args: argparse.Namespace) -> list[SweepPoint]:
    """The points of a command line. Raises ValueError for names and settings that do not exist."""
    checkpoints = args.checkpoint or []
    baselines = [name.replace("_", " ") for name in args.baselines or []]
    for name in baselines:
        if name not in BASELINES:
            raise ValueError(f"--baselines: expected some of {', '.join(BASELINES)}; got {name!r}")
    if not checkpoints and not baselines:
        raise ValueError("nothing to evaluate: give --checkpoint or --baselines")
    axes = {name: values for name in SWEPT if (values := getattr(args, name)) is not None}
    corrupted = min(axes.get("accuracy", [1.0])) < 1
    if corrupted and "corruption" not in axes:
        axes["corruption"] = ["permuted"]  # the paper's reading of response accuracy
    law = base_law(checkpoints, tuple(axes), args.checkpoints)
    if args.n_dims and not checkpoints:
        law = replace(law, n_dims=args.n_dims)
    for name in checkpoints:
        limit = zoo.config(name, args.checkpoints).max_examples
        if max(args.length) > limit:
            raise ValueError(
                f"--length: {name} answers after at most {limit} examples, got {max(args.length)}"
            )
    return grid(
        [*checkpoints, *baselines],
        axes,
        law=law,
        seeds=args.seeds,
        versions={name: zoo.version(name, args.checkpoints) for name in checkpoints},
        lengths=tuple(args.length),
        n_prompts=args.prompts,
        exact=corrupted,  # the share of right labels is exact at every length
    )


def show(progress: SweepProgress) -> None:
    """One line, rewritten on a terminal, printed at tenths elsewhere."""
    left = "" if progress.seconds_left is None else f", {progress.seconds_left:.0f} s left"
    failed = f", {progress.failed} failed" if progress.failed else ""
    text = f"{progress.done}/{progress.total} points ({progress.resumed} resumed){failed}{left}"
    finished = progress.done + progress.failed == progress.total
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="\n" if finished else "", file=sys.stderr, flush=True)
    elif finished or progress.done % max(1, progress.total // 10) == 0:
        print(text, file=sys.stderr, flush=True)


def _list(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def values(text: str) -> list[Any]:
        return [read(part.strip()) for part in text.split(",")]

    values.__name__ = f"list of {getattr(read, '__name__', 'value')}"  # argparse names it
    return values


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="All lists are separated by commas.",
    )
    result.add_argument("--checkpoint", type=_list(str), help="names of checkpoints")
    result.add_argument("--baselines", type=_list(str), help="such as least_squares,ridge")
    for name, read in SWEPT.items():
        result.add_argument(f"--{name}", type=_list(read), metavar="LIST", help="swept setting")
    result.add_argument("--n_dims", type=int, help="dimensions, where no checkpoint says")
    result.add_argument(
        "--length", type=_list(int), default=[15, 30, 45], help="in-context examples"
    )
    result.add_argument("--seeds", type=_list(int), default=[0], help="seeds of the prompts")
    result.add_argument("--prompts", type=int, default=256, help="prompts per point")
    result.add_argument("--out", type=Path, required=True, help="FILE.parquet or FILE.csv")
    result.add_argument("--jobs", type=int, default=1, help="local processes, -1: one per core")
    result.add_argument("--scheduler", help="tcp://host:port of a Dask scheduler")
    result.add_argument("--checkpoints", type=Path, default=zoo.CHECKPOINTS, help="their folder")
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    args = parser().parse_args(arguments)
    args.checkpoints = args.checkpoints.resolve()  # workers may stand elsewhere
    try:
        table = run_sweep(
            plan(args),
            partial(
                evaluate_point, factory=partial(predictor_factory, checkpoints=args.checkpoints)
            ),
            args.out,
            args.scheduler,
            args.jobs,
            show,
        )
    except (ValueError, SweepFailed) as error:
        raise SystemExit(f"models.sweep: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit(f"models.sweep: stopped; {args.out} has what is finished") from None
    pooled = table[table["metric"] == "pooled R2"]
    varied = [c for c in SWEPT if c in pooled and pooled[c].nunique(dropna=False) > 1]
    means = pooled.pivot_table("value", ["predictor", *varied], "n_examples", dropna=False)
    print(f"pooled R^2 after n examples, mean over {len(args.seeds)} seeds\n")
    print(means.dropna(how="all").round(4).to_string())
    print(f"\n{len(table)} rows in {args.out}")


if __name__ == "__main__":
    main()
