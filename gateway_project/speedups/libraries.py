"""The libraries inside of which something is replaced, and the versions that were compared with what replaces it."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from gateway_project import environment

COMPARED = {"django": {"5.2.19"}, "gevent": {"26.9.0"}, "gunicorn": {"27.0.1"}}


class Speedup(NamedTuple):
    """A change of a library. ``saves`` is calls of a completion, measured with SPEEDUP_OFF=NAME; ``test`` compares the two."""

    name: str
    install: Callable[[], object]
    saves: str
    test: str


def attribute(owner: Any, name: str, value: Any, saves: str, test: str) -> Speedup:
    return Speedup(f"{owner.__name__}.{name}", partial(setattr, owner, name, value), saves, test)


def version(library: str) -> str:
    return str(import_module(library).__version__)


def unknown() -> list[str]:
    """Return the libraries whose installed version was not compared."""
    return [library for library, versions in COMPARED.items() if version(library) not in versions]


def off() -> set[str]:
    """Return the libraries that have no speedups here."""
    return set(unknown() if environment.boolean("GATEWAY_SPEEDUPS", default=True) else COMPARED)


def install(*libraries: str) -> None:
    """Install the speedups of these libraries, but for those that are off. Call it once in a web process."""
    for library in set(libraries) - off():
        for speedup in import_module(f"gateway_project.speedups.{library}").SPEEDUPS:
            speedup.install()


def tell() -> None:
    """Say in the metrics which libraries have no speedups in this process."""
    from gateway_project import metrics  # which loads what gevent patches

    for library in COMPARED:
        metrics.speedups_off.labels(library).set(library in off())
