"""Declares environment variables beside the code that uses them: those of the ranking sources and of the formula.

Each is read once, when the module that declares it is imported. An invalid value stops the process, as in ``settings``. Tests
override a value with a Django setting: ``settings.RANKINGS_AA_API_KEY`` overrides ``GATEWAY_AA_API_KEY``.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from django.conf import settings

from gateway_project import environment

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    variable: str
    _from_environment: T = field(repr=False)  # not shown: it may be a key

    @property
    def value(self) -> T:
        """Return the value in effect: Django's setting if there is one, else the environment's."""
        name = self.variable.removeprefix("GATEWAY_").removeprefix("RANKINGS_")
        value: T = getattr(settings, f"RANKINGS_{name}", self._from_environment)
        return value


def text(variable: str, default: str = "") -> Setting[str]:
    return Setting(variable, environment.text(variable, default))


def integer(variable: str, default: int, *, minimum: int, maximum: int) -> Setting[int]:
    return Setting(variable, environment.integer(variable, default, minimum=minimum, maximum=maximum))


def numbers(variable: str, defaults: dict[str, float]) -> Setting[dict[str, float]]:
    """Declare numbers by name. Names that the environment does not give keep their defaults."""
    return Setting(variable, environment.numbers(variable, defaults))
