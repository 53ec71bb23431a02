"""An invoice or a credit note as PDF: seller, customer with address and tax ID, amounts, and the tax in them."""

from dataclasses import dataclass
from io import BytesIO
from itertools import zip_longest
from operator import add
from typing import Any

from billing.payments.documents import fonts

_MARGIN, _WIDTH, _HEIGHT = 56, 595, 842  # points, of A4
_MIDDLE = _WIDTH / 2  # where the second column begins
_COLUMN_WIDTH = _MIDDLE - _MARGIN - 12
_SIZE = 10


@dataclass(frozen=True)
class Invoice:
    """The text of an invoice. ``rows`` are pairs of what and how much; the last one is the total."""

    title: str
    facts: list[tuple[str, str]]
    seller: list[str]
    customer: list[str]
    rows: list[tuple[str, str]]
    notes: list[str]


def write(invoice: Invoice) -> bytes:
    """Return the PDF, on as many pages as it needs."""
    from reportlab.pdfgen.canvas import Canvas  # here, because it is large, and few requests need it

    file = BytesIO()
    canvas = Canvas(file, pagesize=(_WIDTH, _HEIGHT), invariant=True)  # the same bytes each time
    canvas.setTitle(invoice.title)
    paper = _Paper(canvas)
    paper.write(invoice.title, size=20, is_bold=True)
    paper.skip()
    paper.write_parties(From=invoice.seller, For=invoice.customer)
    paper.skip()
    for what, value in invoice.facts:
        paper.write_row(what, value)
    paper.skip()
    for what, amount in invoice.rows[:-1]:
        paper.write_row(what, amount)
    paper.rule()
    paper.write_row(*invoice.rows[-1], is_bold=True)
    paper.skip()
    for note in invoice.notes:
        paper.write(note)
    canvas.showPage()
    canvas.save()
    return file.getvalue()


class _Paper:
    """Pages that are written from their top downwards, one after the other."""

    def __init__(self, canvas: Any) -> None:
        self._canvas, self._y = canvas, _HEIGHT - _MARGIN

    def write(self, text: str, *, size: int = _SIZE, is_bold: bool = False) -> None:
        for line in _set(text, _WIDTH - 2 * _MARGIN, size, is_bold=is_bold):
            self._write_line(line, size=size)

    def write_row(self, what: str, value: str, *, is_bold: bool = False) -> None:
        self._write_columns(*(_set(text, _COLUMN_WIDTH, is_bold=is_bold) for text in (what, value)))

    def write_parties(self, **parties: list[str]) -> None:
        """Write the lines of each beside each other, under its head."""
        heads = (_set(head, _COLUMN_WIDTH, is_bold=True) for head in parties)
        bodies = ([line for text in texts for line in _set(text, _COLUMN_WIDTH)] for texts in parties.values())
        self._write_columns(*map(add, heads, bodies))

    def rule(self) -> None:
        self._make_room(3 * _SIZE)  # with the total on the same page
        self._y -= 6
        self._canvas.line(_MARGIN, self._y, _WIDTH - _MARGIN, self._y)

    def skip(self) -> None:
        self._y -= 30

    def _write_columns(self, *columns: list[fonts.Line]) -> None:
        for lines in zip_longest(*columns, fillvalue=[]):
            self._write_line(*lines)

    def _write_line(self, *columns: fonts.Line, size: int = _SIZE) -> None:
        self._make_room(size * 1.5)
        self._y -= size + 5
        for x, parts in zip((_MARGIN, _MIDDLE), columns, strict=False):
            for font, part in parts:
                self._canvas.setFont(font, size)
                self._canvas.drawString(x, self._y, part)
                x += fonts.width(part, font, size)

    def _make_room(self, points: float) -> None:
        """Begin a page unless this one has so much room left."""
        if self._y - points < _MARGIN:
            self._canvas.showPage()
            self._y = _HEIGHT - _MARGIN


def _set(text: str, width_points: float, size: int = _SIZE, *, is_bold: bool = False) -> list[fonts.Line]:
    return fonts.set_in_lines(text, fonts.BOLD if is_bold else fonts.REGULAR, size, width_points)
