"""The filter that colours code. The style sheet names the classes of its parts."""

from functools import lru_cache

from django import template
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.filter
@lru_cache(maxsize=1_024)
def coloured(code: str, language: str) -> SafeString:
    """Return the code as HTML, its parts in elements with the classes of Pygments. A body within curl is JSON."""
    from pygments import formatters, highlight, lexers

    parts = [(code, language)]
    if language == "curl":
        command, quote, body = code.partition(" -d '")
        parts = [(command + quote, "bash"), (body, "json")]
    form = formatters.HtmlFormatter(nowrap=True)  # which escapes the code
    return mark_safe("".join(highlight(text, lexers.get_lexer_by_name(name), form).rstrip("\n") for text, name in parts))  # noqa: S308
