"""The tag ``for`` of all templates, which lets others be served between two rounds: a page may have many rows."""

import time
from typing import Any

from django import template
from django.template.base import Node, Parser, Token
from django.template.context import Context
from django.template.defaulttags import do_for

register = template.Library()

_SLICE_SECONDS = 0.005
_began = 0.0  # when the event loop served others last, as far as templates know


class _Pause(Node):
    """Renders nothing, and lets others be served if a slice is over."""

    def render(self, context: Context) -> str:
        global _began
        if time.monotonic() - _began > _SLICE_SECONDS:
            time.sleep(0)
            _began = time.monotonic()
        return ""


@register.tag("for")
def pausing_for(parser: Parser, token: Token) -> Any:
    """Compile Django's ``for``, with a pause before each round."""
    node = do_for(parser, token)
    node.nodelist_loop.insert(0, _Pause())  # type: ignore[arg-type]  # its stubs take it for a list of texts
    return node
