"""An invoice or a credit note as PDF: seller, customer with address and tax ID, amounts, and the tax in them."""

from dataclasses import dataclass
from io import BytesIO
from typing import Any

from billing.payments.documents import fonts

_MARGIN, _WIDTH, _HEIGHT = 56, 595, 842  # points, of A4
_SIZE, _LEADING = 10, 15
_LINE_CHARACTERS_MAX, _LINES_MAX = 70, 12  # of an address


@dataclass(frozen=True)
class Invoice:
    """What it says. ``rows`` are pairs of what and how much; the last one is the total."""

    title: str
    facts: list[tuple[str, str]]
    seller: list[str]
    customer: list[str]
    rows: list[tuple[str, str]]
    notes: list[str]


def write(invoice: Invoice) -> bytes:
    """Return the PDF, on one page."""
    from reportlab.pdfgen.canvas import Canvas  # here, because it is large, and few requests need it

    file = BytesIO()
    canvas = Canvas(file, pagesize=(_WIDTH, _HEIGHT), invariant=True)  # the same bytes each time
    canvas.setTitle(invoice.title)
    page = _Page(canvas)
    page.write(invoice.title, size=20, is_bold=True)
    page.skip()
    page.write_columns(("From", invoice.seller), ("For", invoice.customer))
    page.skip()
    for what, value in invoice.facts:
        page.write_row(what, value)
    page.skip()
    for what, amount in invoice.rows[:-1]:
        page.write_row(what, amount)
    page.rule()
    page.write_row(*invoice.rows[-1], is_bold=True)
    page.skip()
    for note in invoice.notes:
        page.write(note)
    canvas.showPage()
    canvas.save()
    return file.getvalue()


class _Page:
    """A page that is written from its top downwards."""

    def __init__(self, canvas: Any) -> None:
        self._canvas, self._y = canvas, _HEIGHT - _MARGIN

    def write(self, text: str, *, size: int = _SIZE, is_bold: bool = False) -> None:
        self._y -= size + 5
        _draw(self._canvas, _MARGIN, self._y, text, size, is_bold=is_bold)

    def write_row(self, what: str, value: str, *, is_bold: bool = False) -> None:
        self.write(what, is_bold=is_bold)
        _draw(self._canvas, _WIDTH / 2, self._y, value, _SIZE, is_bold=is_bold)

    def write_columns(self, *columns: tuple[str, list[str]]) -> None:
        """Write columns of lines beside each other, each under its head."""
        top = self._y
        for number, (head, lines) in enumerate(columns):
            x = _MARGIN if number == 0 else _WIDTH / 2
            for line, text in enumerate([head, *(each[:_LINE_CHARACTERS_MAX] for each in lines[:_LINES_MAX])]):
                _draw(self._canvas, x, top - _LEADING * (line + 1), text, _SIZE, is_bold=line == 0)
        self._y = top - _LEADING * (1 + max(min(len(lines), _LINES_MAX) for _, lines in columns))

    def rule(self) -> None:
        self._y -= 6
        self._canvas.line(_MARGIN, self._y, _WIDTH - _MARGIN, self._y)

    def skip(self) -> None:
        self._y -= 2 * _LEADING


def _draw(canvas: Any, x: float, y: float, text: str, size: int, *, is_bold: bool) -> None:
    for font, part in fonts.set_in_fonts(text, fonts.BOLD if is_bold else fonts.REGULAR):
        canvas.setFont(font, size)
        canvas.drawString(x, y, part)
        x += fonts.width(part, font, size)
