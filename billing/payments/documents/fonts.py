"""Chooses the fonts of a text in a PDF, breaks it into lines, and writes each from left to right, as it is drawn.

Latin, Greek, Cyrillic, Arabic and Hebrew letters are embedded. Chinese, Japanese and Korean ones are set in a font of the
machine that shows the file: an embedded one is larger than the gateway. Others lose their accents, or become question marks.

The library's own paragraphs need a package without wheels to run from right to left, and set lines too wide that mix fonts.
"""

import re
import unicodedata
from functools import cache
from itertools import groupby
from pathlib import Path

REGULAR, BOLD = "Vera", "VeraBd"
_ALPHABETS, _ARABIC, _HEBREW = "NotoSans", "NotoSansArabic", "OpenSans"
_FILES = {
    REGULAR: ("reportlab", "fonts/Vera.ttf"),
    BOLD: ("reportlab", "fonts/VeraBd.ttf"),
    _ALPHABETS: ("fontpkg_noto_sans", "files/NotoSans[[]wdth,wght].ttf"),  # one file has all weights; the regular one is drawn
    _ARABIC: ("fontpkg_noto_sans_arabic", "files/NotoSansArabic*.ttf"),
    _HEBREW: ("fontpkg_open_sans", "files/OpenSans[[]wdth,wght].ttf"),
}
# The encoding that tells which letters a font has.
_OF_THE_MACHINE = {"STSong-Light": "gb2312", "MSung-Light": "big5", "HeiseiMin-W3": "euc_jp", "HYSMyeongJo-Medium": "euc_kr"}
_MARK = "\N{COMBINING GRAPHEME JOINER}"  # runs in the direction of the letter before it
_NOT_DRAWN = re.compile(f"[{_MARK}\N{VARIATION SELECTOR-1}-\N{VARIATION SELECTOR-16}]")

Line = list[tuple[str, str]]
"""Parts of a text from left to right, each with its font."""


def set_in_lines(text: str, font: str, size: int, width_points: float) -> list[Line]:
    """Return the text in lines that are no wider than this, all in the fonts and the direction of the whole."""
    text = _join_arabic(_NOT_DRAWN.sub("", unicodedata.normalize("NFC", text)))
    direction = _direction(text)
    if _ALPHABETS in dict(set_in_fonts(text, font)):
        font = _ALPHABETS
    return [set_in_fonts(_from_left_to_right(line, direction), font) for line in _break(text, font, size, width_points)]


def set_in_fonts(text: str, font: str) -> Line:
    """Return the text in parts, each with its font: ``font`` where it has all letters of the text."""
    placed = [_place(character, font) for character in text]
    if any(name == _ALPHABETS for name, _ in placed):  # all letters of a word look alike
        placed = [_place(character, _ALPHABETS) for character in text]
    return [(name, "".join(character for _, character in group)) for name, group in groupby(placed, key=lambda pair: pair[0])]


def width(text: str, font: str, size: int) -> float:
    """Return how wide a part is, in points."""
    from reportlab.pdfbase import pdfmetrics

    points: float = pdfmetrics.stringWidth(text, font, size)
    return points


def _break(text: str, font: str, size: int, width_points: float) -> list[str]:
    """Break between words, and within those that are wider than a line, in the order of reading."""

    def fits(line: str) -> bool:
        return sum(width(part, name, size) for name, part in set_in_fonts(line, font)) <= width_points

    lines = [""]
    for word in text.split():
        if fits(joined := f"{lines[-1]} {word}".strip()):
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for character in word:
            if not fits(lines[-1] + character):
                lines.append("")
            lines[-1] += character
    return lines


def _direction(text: str) -> str | None:
    """Return where a text with Arabic or Hebrew letters begins: at the left or at the right."""
    if not any(unicodedata.bidirectional(character) in ("R", "AL") for character in text):
        return None
    from bidi import get_base_level

    return "R" if get_base_level(text) else "L"


def _join_arabic(text: str) -> str:
    """Return the text with Arabic letters in their joined forms, which are not as wide."""
    if not any(unicodedata.bidirectional(character) == "AL" for character in text):
        return text
    import arabic_reshaper

    return str(arabic_reshaper.reshape(text))


def _from_left_to_right(line: str, direction: str | None) -> str:
    """Return a line in the order in which it is drawn. Brackets that run from right to left are mirrored."""
    if direction is None:
        return line
    from bidi import get_display
    from bidi.mirror import MIRRORED  # of Unicode's BidiMirroring.txt; the library does not apply it

    bracket = f"[{re.escape(''.join(MIRRORED))}]"
    drawn = get_display(re.sub(bracket, rf"\g<0>{_MARK}", line), base_dir=direction)  # from right to left the mark comes first
    return re.sub(f"{_MARK}(.)|({bracket}){_MARK}", lambda found: found[2] or MIRRORED[found[1]], drawn)


def _place(character: str, font: str) -> tuple[str, str]:
    """Return the letter with its font, or what stands for the letter."""
    if unicodedata.category(character) == "Cf" and unicodedata.bidirectional(character) != "AN":
        return font, ""  # a mark of direction, for example: some fonts draw it
    for name in (font, _ALPHABETS, _ARABIC, _HEBREW):
        if ord(character) in _letters(name):
            return name, character
    for name, encoding in _OF_THE_MACHINE.items():
        if character.encode(encoding, "ignore"):
            _register_of_the_machine(name)
            return name, character
    base = unicodedata.normalize("NFKD", character)[0]
    return (font, base) if ord(base) in _letters(font) else (font, "?")


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
