"""An invoice as PDF: seller, customer with address and tax ID, what was paid, the tax in it, and what was taken back.

Text is set in a font that comes with the library. Greek, Cyrillic and Chinese are set in one of the machine that shows the
invoice; a letter that neither has loses its accents, or becomes a question mark.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import groupby
from typing import Any

_MARGIN, _WIDTH, _HEIGHT = 56, 595, 842  # points, of A4
_SIZE, _LEADING = 10, 15
_LINE_CHARACTERS_MAX, _LINES_MAX = 70, 12  # of an address
_REGULAR, _BOLD, _OTHER = "Vera", "VeraBd", "STSong-Light"


@dataclass(frozen=True)
class Invoice:
    """What an invoice says. ``rows`` are pairs of what and how much; the last one is the total."""

    number: str
    paid_on: str
    payment_id: str
    seller: list[str]
    customer: list[str]
    rows: list[tuple[str, str]]
    notes: list[str]


def write(invoice: Invoice) -> bytes:
    """Return the PDF, on one page."""
    from reportlab.pdfgen.canvas import Canvas  # here, because it is large, and few requests need it

    _register_fonts()
    file = BytesIO()
    canvas = Canvas(file, pagesize=(_WIDTH, _HEIGHT), invariant=True)  # the same bytes each time
    canvas.setTitle(f"Invoice {invoice.number}")
    page = _Page(canvas)
    page.write(f"Invoice {invoice.number}", size=20, is_bold=True)
    page.skip()
    page.write_columns(("From", invoice.seller), ("For", invoice.customer))
    page.skip()
    page.write_row("Paid", invoice.paid_on)
    page.write_row("Payment ID", invoice.payment_id)
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
    for font, part in _runs(text, _BOLD if is_bold else _REGULAR):
        canvas.setFont(font, size)
        canvas.drawString(x, y, part)
        x += canvas.stringWidth(part, font, size)


def _runs(text: str, font: str) -> Iterator[tuple[str, str]]:
    """Return the text in parts, each with the font that has it."""
    placed = [_place(character, font) for character in unicodedata.normalize("NFC", text)]
    for name, group in groupby(placed, key=lambda pair: pair[0]):
        yield name, "".join(character for _, character in group)


def _place(character: str, font: str) -> tuple[str, str]:
    if _has(font, character):
        return font, character
    base = unicodedata.normalize("NFKD", character)[0]
    if base != character and _has(font, base):
        return font, base
    try:
        character.encode("gb2312")
    except UnicodeEncodeError:
        return font, "?"
    return _OTHER, character


def _has(font: str, character: str) -> bool:
    from reportlab.pdfbase import pdfmetrics

    return ord(character) in pdfmetrics.getFont(font).face.charToGlyph


@cache
def _register_fonts() -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfbase.ttfonts import TTFont

    for name in (_REGULAR, _BOLD):
        pdfmetrics.registerFont(TTFont(name, f"{name}.ttf"))
    pdfmetrics.registerFont(UnicodeCIDFont(_OTHER))
