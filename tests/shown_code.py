"""Code as a page shows it: without the elements that colour it."""

import re


def uncoloured(page: str) -> str:
    """Return the page with its blocks of code as text alone."""
    return re.sub(r'(?<=<code id=")([^"]+">)(.*?)(?=</code>)', lambda found: found[1] + _text(found[2]), page, flags=re.DOTALL)


def _text(code: str) -> str:
    return re.sub(r"<[^>]+>", "", code)
