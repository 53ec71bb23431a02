"""CSV files in which text that others wrote cannot act as a spreadsheet formula."""

import csv
import unicodedata
from collections.abc import Generator, Iterable
from io import StringIO
from typing import Any

# A formula begins with one of these in spreadsheet programs, in any form that compatibility normalization makes the same: some
# programs read full-width characters as the narrow ones.
_FORMULA_BEGINS = frozenset("=+-@\N{MINUS SIGN}")


def write_parts(columns: list[str], batches: Iterable[Iterable[Iterable[Any]]]) -> Generator[bytes, None, None]:
    """Yield a CSV file, a batch of rows at a time. The head comes with the first batch, or alone if there is none."""
    head = write_lines([columns])
    for rows in batches:
        yield head + write_lines(rows)
        head = b""
    if head:
        yield head


def write_lines(rows: Iterable[Iterable[Any]]) -> bytes:
    written = StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode()


def text_cell(value: str | None) -> str | None:
    """Return a cell that a spreadsheet shows as text: a value that begins like a formula gets a quote in front."""
    if not value:
        return value
    visible = next((character for character in value if unicodedata.category(character)[0] not in "ZC"), "")
    begins_formula = unicodedata.normalize("NFKC", visible) in _FORMULA_BEGINS
    return f"'{value}" if begins_formula or unicodedata.category(value[0]) == "Cc" else value  # a control, such as a tab
