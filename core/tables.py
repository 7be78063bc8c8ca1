"""Pasted or uploaded patterns: text in, a checked matrix out, or a sentence saying what is wrong.

One pattern a line; numbers separated by commas, semicolons, tabs or spaces, each perhaps in double
quotes. A first line of words, without any number, is taken for a header. Limits are checked before
anything is parsed in full, so a huge file costs little.
"""

import re

import numpy as np

MAX_ROWS = 512
MAX_COLUMNS = 256
MAX_BYTES = 2_000_000
SMALLEST = 1e-6  # for the largest entry of a table: squares stay far from underflow
LARGEST = 1e6  # squares and their sums stay far from overflow, and energies readable


def _number(cell: str) -> float:
    if "_" in cell:  # which Python reads over, and nobody means
        raise ValueError
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return True


def _decode(source: str | bytes) -> str:
    if isinstance(source, str):
        return source.lstrip("\ufeff")
    if source[:2] == b"PK":
        raise ValueError(
            "This is an Excel or zip file, not text. Save the sheet as CSV and upload that."
        )
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            "The file is not UTF-8 text. Save it as CSV with UTF-8 encoding and upload it again."
        ) from None


def _split(line: str) -> list[str]:
    if ";" in line:  # decimal commas are usual where the semicolon separates
        return [_bare(cell).replace(",", ".") for cell in line.rstrip("; \t").split(";")]
    if "," in line:
        return [_bare(cell) for cell in line.rstrip(", \t").split(",")]
    return [_bare(cell) for cell in re.split(r"\s+", line.strip())]


def _bare(cell: str) -> str:
    """A cell without the quotes that many programs write around it. Half a pair stays: there the
    separator stood inside the quotes, and the cell is no number."""
    cell = cell.strip()
    return cell[1:-1].strip() if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _is_header(line: str) -> bool:
    named = any(letter.isalpha() for letter in line)
    return named and not any(_is_number(cell) for cell in _split(line))


def parse_table(
    source: str | bytes,
    *,
    max_rows: int = MAX_ROWS,
    max_columns: int = MAX_COLUMNS,
    max_bytes: int = MAX_BYTES,
) -> np.ndarray:
    """Patterns `(M, D)` in float64 from CSV text or the bytes of an uploaded file.

    Raises ValueError, with a sentence for the person who uploaded it, for: an empty or too large
    file, bytes that are not text, text or NaN or infinity where a number belongs, rows of unequal
    length, fewer than 2 or more than `max_rows` rows, fewer than 2 or more than `max_columns`
    columns, entries above 1e6 in size, or all below 1e-6 (all zero is a table).
    """
    size = len(source) if isinstance(source, bytes) else len(source.encode("utf-8", "replace"))
    if size > max_bytes:
        raise ValueError(
            f"The table is too large: {size / 1e6:.1f} MB, the limit is {max_bytes / 1e6:.1f} MB. "
            f"Upload at most {max_rows} rows of {max_columns} numbers."
        )
    lines = [
        (number, line)
        for number, line in enumerate(_decode(source).splitlines(), start=1)
        if line.strip(" \t,;")
    ]
    if lines and _is_header(lines[0][1]):
        header, lines = lines[0][1], lines[1:]
        if not lines:
            raise ValueError(
                f"Expected rows of numbers, got only the line {header.strip()[:60]!r}. "
                f"Put one pattern on each line, numbers separated by commas."
            )
    if not lines:
        raise ValueError(
            "The table is empty. Put one pattern on each line, numbers separated by commas."
        )
    if len(lines) > max_rows:
        raise ValueError(
            f"The table has {len(lines):,} rows, the limit is {max_rows}. "
            f"Keep the {max_rows} rows you want as patterns."
        )
    width = len(_split(lines[0][1]))
    if width > max_columns:
        raise ValueError(
            f"The table has {width} columns, the limit is {max_columns}. "
            f"Keep at most {max_columns} numbers a row, for instance after PCA."
        )
    table = np.empty((len(lines), width))
    for row, (number, line) in enumerate(lines):
        cells = _split(line)
        if len(cells) != width:
            raise ValueError(
                f"Line {number} has {len(cells)} entries, the first row has {width}. "
                f"Give every row the same number of entries."
            )
        for column, cell in enumerate(cells):
            try:
                value = _number(cell)
            except ValueError:
                what = f"the text {cell[:30]!r}" if cell else "an empty cell"
                raise ValueError(
                    f"Line {number}, column {column + 1} holds {what} where a number belongs. "
                    f"Replace it or remove the row."
                ) from None
            if not np.isfinite(value):
                raise ValueError(
                    f"Line {number}, column {column + 1} is {cell}: patterns must be finite. "
                    f"Replace it or remove the row."
                )
            if abs(value) > LARGEST:
                raise ValueError(
                    f"Line {number}, column {column + 1} is {value:g}, larger than {LARGEST:g}. "
                    f"Rescale the table, for instance to unit norm."
                )
            table[row, column] = value
    largest = np.abs(table).max()
    if 0 < largest < SMALLEST:
        raise ValueError(
            f"The largest entry of the table is {largest:g} in size, smaller than {SMALLEST:g}. "
            f"Rescale the table, for instance to unit norm."
        )
    if len(table) < 2:
        raise ValueError(
            "The table has one row only; a landscape needs at least 2 patterns. Add a row."
        )
    if width < 2:
        raise ValueError(
            "The table has one column only; patterns need at least 2 numbers each. If they are "
            "there, separate them by commas, semicolons, tabs or spaces."
        )
    return table


def as_rows(table: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """The matrix as nested tuples, hashable, as `LandscapeSettings.patterns` wants it."""
    return tuple(tuple(float(value) for value in row) for row in table)
