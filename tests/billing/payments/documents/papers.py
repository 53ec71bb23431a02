"""Reads PDFs: their texts, where each letter stands, and where ink is."""

from io import BytesIO
from typing import Any

import pypdfium2
from PIL import Image, ImageOps
from pypdf import PdfReader

PIXELS_PER_POINT = 2


def texts(content: bytes) -> list[str]:
    """Return what is drawn, one after the other: a line, or a part of it that has a font of its own."""
    drawn: list[str] = []
    for page in PdfReader(BytesIO(content)).pages:
        page.extract_text(visitor_text=lambda text, *_: drawn.append(text.strip()))
    return [text for text in drawn if text]


def boxes(content: bytes) -> list[tuple[float, float, float, float]]:
    """Return left, bottom, right and top of all letters, in points; of those, too, whose font this machine lacks."""
    read = []
    for page in pypdfium2.PdfDocument(content):
        text = page.get_textpage()
        read += [text.get_charbox(index) for index in range(text.count_chars())]
    return read


def pictures(content: bytes) -> list[Image.Image]:
    """Return what each page looks like, white on black."""
    pages: Any = pypdfium2.PdfDocument(content)
    return [ImageOps.invert(page.render(scale=PIXELS_PER_POINT).to_pil().convert("L")) for page in pages]
