"""Chooses the fonts of a text in a PDF, and writes its letters from left to right, as they are drawn.

Latin, Greek, Cyrillic and Arabic letters are embedded. Chinese, Japanese and Korean ones are set in a font of the machine
that shows the file: an embedded font would be larger than the gateway. Any other letter loses
its accents, or becomes a question mark.
"""

import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

REGULAR, BOLD = "Vera", "VeraBd"
_ALPHABETS, _ARABIC = "NotoSans", "NotoSansArabic"
_FILES = {
    REGULAR: ("reportlab", "fonts/Vera.ttf"),
    BOLD: ("reportlab", "fonts/VeraBd.ttf"),
    _ALPHABETS: ("fontpkg_noto_sans", "files/NotoSans[[]wdth,wght].ttf"),  # one file has all weights; the regular one is drawn
    _ARABIC: ("fontpkg_noto_sans_arabic", "files/NotoSansArabic*.ttf"),
}
_OF_THE_MACHINE = {  # the encoding that tells which letters a font has
    "STSong-Light": "gb2312",
    "MSung-Light": "big5",
    "HeiseiMin-W3": "euc_jp",
    "HYSMyeongJo-Medium": "euc_kr",
}


def set_in_fonts(text: str, font: str) -> Iterator[tuple[str, str]]:
    """Return the text in parts, each with its font: ``font`` where it has all letters of the text."""
    text = _from_left_to_right(unicodedata.normalize("NFC", text))
    placed = [_place(character, font) for character in text]
    if any(name == _ALPHABETS for name, _ in placed):  # all letters of a word look alike
        placed = [_place(character, _ALPHABETS) for character in text]
    for name, group in groupby(placed, key=lambda pair: pair[0]):
        yield name, "".join(character for _, character in group)


def width(text: str, font: str, size: int) -> float:
    """Return how wide a part is, in points."""
    from reportlab.pdfbase import pdfmetrics

    points: float = pdfmetrics.stringWidth(text, font, size)
    return points


def _from_left_to_right(text: str) -> str:
    """Return the text in the order in which it is drawn, Arabic letters in their joined forms."""
    if not any(unicodedata.bidirectional(character) in ("R", "AL") for character in text):
        return text
    import arabic_reshaper
    from bidi import get_display

    return str(get_display(arabic_reshaper.reshape(text)))


def _place(character: str, font: str) -> tuple[str, str]:
    """Return the letter with its font, or what stands for the letter."""
    for name in (font, _ALPHABETS, _ARABIC):
        if _has(name, character):
            return name, character
    for name, encoding in _OF_THE_MACHINE.items():
        if _can_be_encoded(character, encoding):
            _register_of_the_machine(name)
            return name, character
    base = unicodedata.normalize("NFKD", character)[0]
    return (font, base) if _has(font, base) else (font, "?")


def _can_be_encoded(character: str, encoding: str) -> bool:
    try:
        return bool(character.encode(encoding))
    except UnicodeEncodeError:
        return False


def _has(font: str, character: str) -> bool:
    return ord(character) in _letters(font)


@cache
def _letters(font: str) -> frozenset[int]:
    """Register an embedded font. Return the letters that it has."""
    from importlib.util import find_spec

    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    package, pattern = _FILES[font]
    spec = find_spec(package)
    assert spec
    assert spec.origin
    [file] = Path(spec.origin).parent.glob(pattern)
    loaded = TTFont(font, str(file))
    pdfmetrics.registerFont(loaded)
    return frozenset(loaded.face.charToGlyph)


@cache
def _register_of_the_machine(font: str) -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont

    pdfmetrics.registerFont(UnicodeCIDFont(font))
