"""Environment variables whose defaults stand beside the code that uses them: the sources' own, and the formula's.

Each is read once, when its module is imported; a value that cannot be read stops the process, as in ``settings``. Django's
settings come before it, which is how tests change one: ``GATEWAY_AA_API_KEY`` is ``settings.RANKINGS_AA_API_KEY`` there.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from django.conf import settings

from gateway_project import environment

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """A setting of this app. ``variable`` is its name in the environment."""

    variable: str
    _from_environment: T = field(repr=False)  # it may be a key

    @property
    def value(self) -> T:
        """The value in force."""
        name = self.variable.removeprefix("GATEWAY_").removeprefix("RANKINGS_")
        value: T = getattr(settings, f"RANKINGS_{name}", self._from_environment)
        return value


def text(variable: str, default: str = "") -> Setting[str]:
    """A text, without surrounding space."""
    return Setting(variable, environment.text(variable, default))


def integer(variable: str, default: int, *, minimum: int, maximum: int) -> Setting[int]:
    """A whole number within its bounds."""
    return Setting(variable, environment.integer(variable, default, minimum=minimum, maximum=maximum))


def numbers(variable: str, defaults: dict[str, float]) -> Setting[dict[str, float]]:
    """Numbers by name; those that are not given have their defaults."""
    return Setting(variable, environment.numbers(variable, defaults))
