"""Reads the table of a sweep that somebody uploads, and draws curves out of it.

`core.sweep` writes one row per point, length and metric, with every setting of the prompt law in
its own column. A curve runs along one setting; all others that vary in the table tell curves apart.
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from core.curves import METRICS
from core.prompts import PromptLaw

__all__ = ["MAX_BYTES", "MAX_ROWS", "SweepCurve", "SweepTable", "parse"]

MAX_BYTES = 8_000_000
MAX_ROWS = 100_000

_RESULTS = ("value", "low", "high")
_NEEDED = ("predictor", "seed", "n_examples", "metric", *_RESULTS)
_LAW = tuple(field.name for field in fields(PromptLaw))


@dataclass(frozen=True)
class SweepCurve:
    """One curve of a table. With several seeds: mean of the values, hull of the bands."""

    name: str
    x: np.ndarray  # (N,) increasing
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_seeds: int


@dataclass(frozen=True)
class SweepTable:
    """A checked table: columns of `core.sweep.run_sweep`, numbers where numbers belong."""

    rows: pd.DataFrame

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that occur, in the order of METRICS."""
        there = set(self.rows["metric"])
        return tuple(metric for metric in METRICS if metric in there)

    @property
    def axes(self) -> tuple[str, ...]:
        """Numeric settings with more than one value, those with most values first."""
        found = {}
        for name in ("n_examples", *_LAW):
            if name in self.rows and self.rows[name].dtype.kind in "iuf":
                found[name] = self.rows[name].nunique()
        return tuple(sorted((n for n in found if found[n] > 1), key=lambda n: -found[n]))

    def curves(self, metric: str, axis: str) -> tuple[SweepCurve, ...]:
        """All curves of a metric along an axis. Raises ValueError if the table lacks either."""
        if metric not in self.metrics:
            raise ValueError(
                f"metric: the sweep has {', '.join(self.metrics)}, not {metric}. Choose another."
            )
        if axis not in self.axes:
            has = ", ".join(self.axes) or "none"
            raise ValueError(
                f"axis: {axis} does not vary in this sweep. Settings that do: {has}. Choose one of "
                "them."
            )
        rows = self.rows[self.rows["metric"] == metric]
        apart = [
            name
            for name in ("predictor", "n_examples", *_LAW)
            if name != axis and name in rows and rows[name].nunique(dropna=False) > 1
        ]
        groups: Iterable = rows.groupby(apart, sort=True, dropna=False) if apart else [((), rows)]
        return tuple(_curve(apart, key, group, axis) for key, group in groups)


def _curve(apart: list[str], key: tuple, rows: pd.DataFrame, axis: str) -> SweepCurve:
    said = [
        str(value) if name == "predictor" else f"{name} {_plain(value)}"
        for name, value in zip(apart, key, strict=True)
    ]
    by_x = rows.groupby(axis)
    value = by_x["value"].mean()
    return SweepCurve(
        name=", ".join(said) or str(rows["predictor"].iloc[0]),
        x=value.index.to_numpy(dtype=np.float64),
        values=value.to_numpy(),
        low=by_x["low"].min().to_numpy(),
        high=by_x["high"].max().to_numpy(),
        n_seeds=rows["seed"].nunique(),
    )


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float | np.number) else str(value)


def parse(data: str | bytes) -> SweepTable:
    """The table in an uploaded Parquet or CSV file, or in pasted CSV text.

    Raises ValueError saying what is wrong: too large, not readable, columns missing, text where
    numbers belong, an unknown metric.
    """
    raw = data.encode() if isinstance(data, str) else data
    if len(raw) > MAX_BYTES:
        raise ValueError(
            f"sweep: expected at most {MAX_BYTES / 1e6:g} MB, got {len(raw) / 1e6:.1f} MB. Sweep a "
            "smaller grid, or select rows before uploading."
        )
    table = _read_parquet(raw) if raw[:4] == b"PAR1" else _read_csv(raw)
    if len(table) > MAX_ROWS:
        raise ValueError(
            f"sweep: expected at most {MAX_ROWS} rows, got {len(table)}. Select rows first."
        )
    missing = [name for name in _NEEDED if name not in table]
    if missing:
        raise ValueError(
            f"sweep: the table lacks the columns {', '.join(missing)}. Give a file that "
            "`python -m models.sweep` wrote."
        )
    if table.empty:
        raise ValueError("sweep: the table has no rows. Let the sweep run on.")
    for name in (*_RESULTS, "n_examples", "seed"):
        numbers = pd.to_numeric(table[name], errors="coerce")
        if name in ("n_examples", "seed") and not np.isfinite(numbers).all():
            raise ValueError(
                f"sweep: column {name} has entries that are no numbers. Mend the file."
            )
        if name in _RESULTS and (numbers.isna() & table[name].notna()).any():
            raise ValueError(
                f"sweep: column {name} has entries that are no numbers. Mend the file."
            )
        if np.isinf(numbers).any():
            raise ValueError(f"sweep: column {name} has infinite entries. Mend the file.")
        table[name] = numbers
    unknown = sorted(set(table["metric"].astype(str)) - set(METRICS))
    if unknown:
        raise ValueError(
            f"sweep: unknown metric {unknown[0][:60]!r}; expected {', '.join(METRICS)}."
        )
    return SweepTable(table)


def _read_parquet(raw: bytes) -> pd.DataFrame:
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(io.BytesIO(raw))
        # The footer tells how much a file unfolds to before anything of it is read.
        size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups))
        if file.metadata.num_rows > MAX_ROWS or size > 8 * MAX_BYTES:
            raise ValueError(
                f"{file.metadata.num_rows} rows, {size / 1e6:.0f} MB unpacked; at most {MAX_ROWS} "
                f"rows and {8 * MAX_BYTES / 1e6:.0f} MB are read"
            )
        names = [name for name in file.schema_arrow.names if name in {*_NEEDED, *_LAW}]
        return file.read(columns=names).to_pandas()
    except Exception as error:
        raise ValueError(f"sweep: no readable Parquet table: {str(error)[:200]}.") from None


def _read_csv(raw: bytes) -> pd.DataFrame:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            "sweep: neither a Parquet file nor CSV text in UTF-8. Give a file that `python -m "
            "models.sweep` wrote."
        ) from None
    try:
        return pd.read_csv(
            io.StringIO(text), keep_default_na=False, na_values=[""], nrows=MAX_ROWS + 1
        )
    except Exception as error:
        raise ValueError(f"sweep: no readable CSV table: {str(error)[:200]}.") from None
