"""Grids of settings over any predictor factory, to a tidy table on disk.

`grid` makes the points, `evaluate_point` turns one into rows, `run_sweep` runs them: in this
process, on local processes (joblib) or on a Dask cluster. A point's rows depend on the point alone
(its own seed, one thread of arithmetic), so the table is the same for any number of workers.

On disk: `OUT` (Parquet or CSV by its suffix) always holds a whole table, replaced in one step;
while a sweep runs, finished points are appended to `OUT.journal`, one line of JSON each. A killed
sweep started again reads both, drops a line that was cut short, and goes on with what is missing.
"""

import hashlib
import itertools
import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from core.curves import METRICS, curve
from core.predictors import BASELINES, Predictor
from core.prompts import PromptLaw, sample_prompts

__all__ = [
    "SweepFailed",
    "SweepPoint",
    "SweepProgress",
    "baseline_factory",
    "evaluate_point",
    "grid",
    "point_key",
    "read_sweep",
    "run_sweep",
]

Row = dict[str, Any]
Factory = Callable[[str, PromptLaw], Predictor]


@dataclass(frozen=True)
class SweepPoint:
    """One evaluation: a predictor on fresh prompts of one law, read off after some lengths."""

    law: PromptLaw
    predictor: str  # the factory's name for it
    lengths: tuple[int, ...] = (15, 30, 45)  # numbers of in-context examples
    n_prompts: int = 256
    seed: int = 0
    exact: bool = False  # own prompts for every length, so that `accuracy` is exact at each
    n_resamples: int = 1000
    version: str = ""  # what else the result hangs on, such as the sum of a checkpoint's weights

    def __post_init__(self) -> None:
        if not self.lengths or any(not isinstance(n, int) or n < 0 for n in self.lengths):
            raise ValueError(
                f"lengths: expected whole numbers of examples >= 0, at least one; "
                f"got {self.lengths!r}."
            )
        if not isinstance(self.n_prompts, int) or self.n_prompts < 2:
            raise ValueError(
                f"n_prompts: expected a whole number >= 2 (bands resample prompts), "
                f"got {self.n_prompts!r}."
            )


def point_key(point: SweepPoint) -> str:
    """A sum of all settings of a point: the same in every process and on every machine."""
    text = json.dumps(asdict(point), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def grid(
    predictors: Sequence[str],
    axes: Mapping[str, Sequence[Any]] | None = None,
    *,
    law: PromptLaw = PromptLaw(),
    seeds: Sequence[int] = (0,),
    versions: Mapping[str, str] | None = None,
    **settings: Any,
) -> list[SweepPoint]:
    """Every combination of predictors, values of law settings (`axes`: field -> values) and seeds.

    `settings` are further fields of `SweepPoint`; `versions` gives a predictor its `version`.
    Raises ValueError for an unknown field and for values that a law refuses.
    """
    axes = dict(axes or {})
    known = {field.name for field in fields(PromptLaw)}
    for name, values in axes.items():
        if name not in known:
            raise ValueError(f"axes: {name!r} is no setting of PromptLaw ({', '.join(known)}).")
        if isinstance(values, str) or not len(values):
            raise ValueError(f"axes: {name} needs a list of values, got {values!r}.")
    return [
        SweepPoint(
            law=replace(law, **dict(zip(axes, values, strict=True))),
            predictor=predictor,
            seed=seed,
            version=(versions or {}).get(predictor, ""),
            **settings,
        )
        for values in itertools.product(*axes.values())
        for predictor in predictors
        for seed in seeds
    ]


def baseline_factory(name: str, law: PromptLaw) -> Predictor:
    """The factory of `core.predictors.BASELINES`."""
    if name not in BASELINES:
        raise ValueError(f"predictor: expected one of {', '.join(BASELINES)}; got {name!r}.")
    return BASELINES[name](law)


def evaluate_point(point: SweepPoint, factory: Factory = baseline_factory) -> list[Row]:
    """Rows of one point: `n_examples, metric, value, low, high`, one per length and metric.

    Predictors at one seed see the same prompts. Without `exact` all lengths are read off one draw
    of prompts as long as the longest.
    """
    predictor = factory(point.predictor, point.law)
    rows: list[Row] = []
    for lengths in [(n,) for n in point.lengths] if point.exact else [point.lengths]:
        generator = torch.Generator().manual_seed(point.seed)
        prompts = sample_prompts(point.law, point.n_prompts, max(lengths) + 1, generator)
        preds = predictor(prompts)
        for metric in METRICS:
            if metric == "within-task R2" and prompts.n_points < 2:
                continue
            measured = curve(
                predictor.name,
                preds,
                prompts,
                metric,
                generator=torch.Generator().manual_seed(point.seed),
                n_resamples=point.n_resamples,
            )
            for n in lengths:
                value, low, high = measured.at(n)
                rows.append(
                    {"n_examples": n, "metric": metric, "value": value, "low": low, "high": high}
                )
    return rows


@dataclass(frozen=True)
class SweepProgress:
    """What is done, counted in points; `seconds_left` is None until something was measured."""

    done: int
    total: int
    resumed: int  # of `done`, found on disk
    failed: int
    seconds: float
    seconds_left: float | None


class SweepFailed(RuntimeError):
    """Some points raised; the others are in the file, and running again retries only these."""

    def __init__(self, failures: Mapping[str, str], out: Path) -> None:
        self.failures = dict(failures)
        first = "\n  ".join(itertools.islice(self.failures.values(), 5))
        super().__init__(
            f"{len(self.failures)} points failed, all others are in {out.name}; run again to "
            f"retry them. First errors:\n  {first}"
        )


def run_sweep(
    points: Sequence[SweepPoint],
    evaluate: Callable[[SweepPoint], list[Row]] = evaluate_point,
    out: Path | str = "sweep.parquet",
    scheduler: str | None = None,
    n_jobs: int = 1,
    progress: Callable[[SweepProgress], None] | None = None,
    cancel: threading.Event | None = None,
) -> pd.DataFrame:
    """Evaluates every point that is not on disk yet and returns the table of all `points`.

    `scheduler` is the address of a Dask scheduler ("tcp://host:8786"), else `n_jobs` local
    processes (joblib's convention, -1 for all cores) do the work. `evaluate` must be importable by
    the workers. Rows of other points already in `out` are kept, so a grid can grow. Setting
    `cancel`, or Ctrl-C, stops early with all finished points saved. Raises SweepFailed at the end
    if points raised, ValueError for a bad `out` and for a scheduler that does not answer.
    """
    out = Path(out)
    _check_path(out)
    if not isinstance(n_jobs, int) or n_jobs == 0:
        raise ValueError(f"n_jobs: expected a number of processes or -1 for all, got {n_jobs!r}.")
    stopped = cancel or threading.Event()
    keyed = {point_key(point): point for point in points}
    out.parent.mkdir(parents=True, exist_ok=True)
    with _Journal(_journal_of(out)) as journal:
        finished = _finished(out)
        todo = {key: point for key, point in keyed.items() if key not in finished}
        resumed, failures, started = len(keyed) - len(todo), dict[str, str](), time.monotonic()

        def report(fresh: int) -> None:
            if progress is not None:
                seconds = time.monotonic() - started
                left = seconds / fresh * (len(todo) - fresh) if fresh else None
                done = resumed + fresh - len(failures)
                progress(SweepProgress(done, len(keyed), resumed, len(failures), seconds, left))

        report(0)
        try:
            results = _results(todo, evaluate, scheduler, n_jobs, stopped)
            for fresh, (key, result) in enumerate(results, start=1):
                if isinstance(result, str):
                    failures[key] = result
                else:
                    settings = _settings(keyed[key])
                    finished[key] = [settings | row | {"key": key} for row in result]
                    journal.append(finished[key])
                report(fresh)
        finally:
            others = [rows for key, rows in finished.items() if key not in keyed]
            ours = [finished[key] for key in keyed if key in finished]
            if others or ours:
                _write(_table(itertools.chain(*others, *ours)), out)
                journal.done()
    if failures:
        raise SweepFailed(failures, out)
    return _table(itertools.chain(*ours))


# --- Running -------------------------------------------------------------------------------------


def _results(
    todo: Mapping[str, SweepPoint],
    evaluate: Callable[[SweepPoint], list[Row]],
    scheduler: str | None,
    n_jobs: int,
    stopped: threading.Event,
) -> Iterator[tuple[str, list[Row] | str]]:
    """(key, rows or the error in words) of every point, in whatever order they are done."""
    if not todo or stopped.is_set():
        return
    if scheduler is not None:
        arriving = _on_dask(todo, evaluate, scheduler)
    elif n_jobs != 1:
        arriving = _on_processes(todo, evaluate, n_jobs)
    else:
        arriving = (_guarded(evaluate, key, point) for key, point in todo.items())
    try:
        for result in arriving:
            yield result
            if stopped.is_set():
                return
    finally:
        arriving.close()  # type: ignore[attr-defined]  # all three are generators


def _guarded(
    evaluate: Callable[[SweepPoint], list[Row]], key: str, point: SweepPoint
) -> tuple[str, list[Row] | str]:
    """One point on one thread: how sums are split over threads must not show in the last digit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return key, evaluate(point)
    except Exception as error:
        return key, f"{point.predictor}, seed {point.seed}: {type(error).__name__}: {error}"
    finally:
        torch.set_num_threads(threads)


def _on_processes(
    todo: Mapping[str, SweepPoint], evaluate: Callable[[SweepPoint], list[Row]], n_jobs: int
) -> Iterator[tuple[str, list[Row] | str]]:
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", inner_max_num_threads=1), warnings.catch_warnings():
        # stopping early is no reason to be told that work was lost
        warnings.filterwarnings("ignore", message=r"\d+ tasks (have been|which were)")
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(_guarded)(evaluate, key, point) for key, point in todo.items()
        )


_DASK_PATIENCE = "10s"  # for the scheduler to answer


def _on_dask(
    todo: Mapping[str, SweepPoint], evaluate: Callable[[SweepPoint], list[Row]], scheduler: str
) -> Iterator[tuple[str, list[Row] | str]]:
    from distributed import Client, as_completed

    try:
        client = Client(scheduler, timeout=_DASK_PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(
            f"scheduler: expected the address of a running Dask scheduler such as "
            f"tcp://127.0.0.1:8786, got {scheduler!r} ({error}). Start one with `dask scheduler`."
        ) from error
    with client:
        futures = {
            client.submit(_guarded, evaluate, key, point, pure=False): key
            for key, point in todo.items()
        }
        try:
            for future in as_completed(futures, loop=client.loop):
                if future.status == "finished":
                    yield future.result()
                else:  # the worker died or could not import the code
                    yield (
                        futures[future],
                        f"{todo[futures[future]].predictor}: {future.exception()}",
                    )
        finally:
            client.cancel([future for future in futures if not future.done()])


# --- Disk ----------------------------------------------------------------------------------------


def read_sweep(out: Path | str) -> pd.DataFrame:
    """The table in `out` with the points of a sweep that is still running. Nothing is unpickled."""
    out = Path(out)
    _check_path(out)
    if not out.exists() and not _journal_of(out).exists():
        raise ValueError(f"no sweep at {out.name}: expected a file written by run_sweep.")
    return _table(itertools.chain(*_finished(out).values()))


def _check_path(out: Path) -> None:
    if out.suffix not in (".parquet", ".csv"):
        raise ValueError(f"out: expected a name ending in .parquet or .csv, got {out.name!r}.")


def _journal_of(out: Path) -> Path:
    return out.with_name(out.name + ".journal")


def _settings(point: SweepPoint) -> Row:
    own = {f.name: getattr(point, f.name) for f in fields(point) if f.name not in _NOT_COLUMNS}
    return own | asdict(point.law)


_NOT_COLUMNS = ("law", "lengths")
_TEXT = {
    field.name
    for owner in (SweepPoint, PromptLaw)
    for field in fields(owner)
    if field.type in (str, "str")
} | {"metric", "key"}


def _table(rows: Iterable[Row]) -> pd.DataFrame:
    """Types are set, not inferred: a table read back equals the one that was written."""
    table = pd.DataFrame(list(rows))
    for name in table.columns:
        if name in _TEXT:
            table[name] = table[name].astype(object).fillna("").astype("str")
    if "similarity" in table:
        table["similarity"] = table["similarity"].astype("float64")  # None is NaN in a table
    return table


def _finished(out: Path) -> dict[str, list[Row]]:
    """Rows by key from the table and from the journal beside it."""
    finished: dict[str, list[Row]] = {}
    if out.exists():
        try:
            if out.suffix == ".csv":
                table = pd.read_csv(out, keep_default_na=False, na_values=[""])
            else:
                table = pd.read_parquet(out)
        except Exception as error:
            raise ValueError(f"{out.name} is no readable {out.suffix[1:]} table: {error}") from None
        if "key" not in table:
            raise ValueError(
                f"{out.name} was not written by a sweep (no column 'key'); choose another name."
            )
        for row in _table(table.to_dict("records")).to_dict("records"):
            finished.setdefault(str(row["key"]), []).append({str(k): v for k, v in row.items()})
    if _journal_of(out).exists():
        for line in _journal_of(out).read_text().splitlines():
            try:
                rows = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut short by a kill: that point runs again
            finished[rows[0]["key"]] = rows
    return finished


def _write(table: pd.DataFrame, out: Path) -> None:
    partial = out.with_name(f".{out.name}.partial")
    if out.suffix == ".csv":
        table.to_csv(partial, index=False)
    else:
        table.to_parquet(partial, index=False)
    partial.replace(out)


class _Journal:
    """Appends whole lines that survive a kill; one sweep at a time may hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> "_Journal":
        self.file = self.path.open("a")
        try:
            import fcntl  # not on Windows, where two sweeps into one file are on their own

            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass
        except OSError:
            self.file.close()
            raise ValueError(
                f"another sweep is writing {self.path.stem}; wait for it or choose another name."
            ) from None
        if self.path.stat().st_size:
            self.file.write("\n")  # ends a line that a kill may have cut short
        return self

    def append(self, rows: list[Row]) -> None:
        if rows:
            self.file.write(json.dumps(rows) + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())

    def done(self) -> None:
        self.path.unlink(missing_ok=True)

    def __exit__(self, *raised: object) -> None:
        self.file.close()
        if self.path.exists() and not self.path.stat().st_size:
            self.path.unlink()
