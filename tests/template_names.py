"""Finds what our templates name and nobody gives them: Django shows an empty text for it, or skips what stands in the ``if``.

A name may be missing as a whole where ``if`` asks for it (``{% if title %}``) or where it has a default
(``{{ level|default:3 }}``), and in an ``if`` of something that is None or empty (``{% if member.role %}`` of a visitor).
What is named of a value must be there, also in an ``if``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.template.base import FilterExpression, Origin, Parser, Variable, VariableDoesNotExist
from django.template.context import BaseContext
from django.template.defaultfilters import default
from django.template.defaulttags import ForNode

ROOT = Path(__file__).resolve().parent.parent / "templates"

missing: set[str] = set()  # not an exception, as Django catches what is raised in comparisons


class _Expression(FilterExpression):
    """An expression of one of our templates."""

    __slots__ = ("is_required", "origin")

    def __init__(self, token: str, parser: Parser) -> None:
        super().__init__(token, parser)
        self.origin: Origin = parser.origin
        self.is_required = False

    def resolve(self, context: Any, ignore_failures: bool = False) -> Any:
        if not isinstance(self.var, Variable):
            return super().resolve(context, ignore_failures)
        try:
            value = self.var.resolve(context)
        except VariableDoesNotExist as error:
            if not self._may_miss(error.params[1], ignore_failures):
                missing.add(f"{self.origin.template_name!s}: {self.token}")
            value = None if ignore_failures else ""
        if not self.filters:
            return value
        found = FilterExpression.__new__(FilterExpression)
        found.filters, found.is_var, found.var, found.token = self.filters, False, value, self.token
        return found.resolve(context)

    def _may_miss(self, owner: Any, is_in_if: bool) -> bool:
        """Say whether a name may be missing of ``owner``."""
        if isinstance(owner, BaseContext) and self.filters and self.filters[0][0] is default:
            return True
        return is_in_if and not self.is_required and (isinstance(owner, BaseContext) or owner is None or owner == "")


@contextmanager
def watched() -> Iterator[None]:
    """Collect in ``missing`` what templates name that is not there. It holds for templates that were not loaded before."""
    compile_filter, init_for = Parser.compile_filter, ForNode.__init__

    def compile_ours(parser: Parser, token: str) -> FilterExpression:
        is_ours = parser.origin and str(parser.origin.name).startswith(f"{ROOT}/")
        return _Expression(token, parser) if is_ours else compile_filter(parser, token)

    def require_sequence(node: ForNode, loopvars: Any, sequence: Any, *others: Any) -> None:
        if isinstance(sequence, _Expression):
            sequence.is_required = True
        init_for(node, loopvars, sequence, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parser, "compile_filter", compile_ours)
        patch.setattr(ForNode, "__init__", require_sequence)
        yield
