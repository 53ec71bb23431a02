"""What views say of themselves for the OpenAPI description. It is kept until then, because drf-spectacular is large."""

from collections.abc import Callable
from typing import Any, TypeVar

View = TypeVar("View", bound=Callable[..., Any])

_kept: list[tuple[Callable[..., Any], dict[str, Any]]] = []


def extend_schema(**description: Any) -> Callable[[View], View]:
    """Keep what drf-spectacular's decorator of this name is to be called with."""

    def keep(view: View) -> View:
        _kept.append((view, description))
        return view

    return keep


def apply() -> None:
    from drf_spectacular.utils import extend_schema as describe

    while _kept:
        view, description = _kept.pop(0)
        describe(**description)(view)
