"""Typed readers of environment variables. A value that cannot be read raises ImproperlyConfigured with the reason."""

import math
import os
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured

from gateway_project.text import ascii_numbers, web_addresses

Default = TypeVar("Default", int, None)
Network = IPv4Network | IPv6Network

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}

CHECK_TAG = "configuration"  # of the system checks that look at what was configured; processes that serve run no others
Findings = Iterator[Any]  # of Django's CheckMessages

names = {"GATEWAY_VAR", "GATEWAY_SETTINGS_FILE"}  # of all variables that were asked for, and of two that are read elsewhere


def _value(name: str) -> str | None:
    names.add(name)
    return os.environ.get(name)


def text(name: str, default: str = "") -> str:
    value = _value(name)
    return (default if value is None else value).strip()


def boolean(name: str, *, default: bool) -> bool:
    value = _value(name)
    return default if value is None else parse_boolean(name, value)


def parse_boolean(name: str, value: str) -> bool:
    """Read 1, true, yes, on, 0, false, no or off. Anything else raises, so that a typo does not mean False."""
    if value.strip().lower() in _TRUE:
        return True
    if value.strip().lower() in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name} must be one of 1, true, yes, on, 0, false, no, off; it is {value!r}.")


def integer(name: str, default: Default, *, minimum: int, maximum: int) -> int | Default:
    """Read a whole number within its bounds. When the default is None, an empty value means None, too."""
    value = _value(name)
    if value is None or (default is None and not value.strip()):
        return default
    try:
        number = ascii_numbers.whole(value.strip())
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number; it is {value!r}.") from None
    if not minimum <= number <= maximum:
        raise ImproperlyConfigured(f"{name} must be between {minimum} and {maximum}; it is {number}.")
    return number


def percent(name: str, *, maximum: int, default: str = "0") -> Decimal:
    """Read a percentage such as ``5`` or ``5.5``, of 0 or more, with at most two decimals."""
    value = text(name, default)
    if not (_PERCENT.fullmatch(value) and Decimal(value) <= maximum):
        raise ImproperlyConfigured(f"{name} must be between 0 and {maximum}, such as 5 or 5.5; it is {value!r}.")
    return Decimal(value)


_PERCENT = re.compile(r"[0-9]{1,6}(\.[0-9]{1,2})?", re.ASCII)


def web_address(name: str) -> str:
    """Read the address of a page, such as ``https://example.com/terms``. Returns "" for an empty value."""
    value = text(name)
    parts = web_addresses.parse(value)
    if value and not (parts.scheme in ("https", "http") and parts.hostname and value.isprintable() and " " not in value):
        raise ImproperlyConfigured(f"{name} must be an address such as https://example.com/terms; it is {value!r}.")
    return value


def integers(name: str, default: str, *, minimum: int, maximum: int) -> list[int]:
    values = words(name, default)
    if not all(value.isascii() and value.isdigit() and minimum <= int(value) <= maximum for value in values):
        raise ImproperlyConfigured(f"{name} must have whole numbers between {minimum} and {maximum}; it is {values}.")
    return [int(value) for value in values]


def numbers(name: str, defaults: dict[str, float]) -> dict[str, float]:
    """Read pairs like ``speed=0.2, cost=0.1``, each of which replaces a default. Negative numbers and unknown names raise."""
    values = dict(defaults)
    for pair in words(name):
        key, _, value = (part.strip() for part in pair.partition("="))
        if key not in defaults:
            raise ImproperlyConfigured(f"{name} must have pairs with the names {', '.join(defaults)}; it has {pair!r}.")
        try:
            values[key] = float(ascii_numbers.decimal(value))
        except ValueError:
            values[key] = -1.0
        if not 0 <= values[key] < math.inf:
            raise ImproperlyConfigured(f"{name} must have numbers of 0 or more; it has {value!r}.")
    return values


def address(name: str) -> tuple[str, int] | None:
    """Read ``HOST:PORT``, or a port alone, which means this machine only. Returns None for an empty value."""
    value = text(name)
    if not value:
        return None
    host, _, port = value.rpartition(":")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
        raise ImproperlyConfigured(f"{name} must be a port, or a host and a port such as 127.0.0.1:9464; it is {value!r}.")
    return host.strip("[]") or "127.0.0.1", int(port)


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str, default: str = "") -> list[Network]:
    """Read a comma-separated list of networks such as ``10.0.0.0/8``, or a single ``*`` for all of them."""
    values = words(name, default)
    if values == ["*"]:
        values = ["0.0.0.0/0", "::/0"]
    try:
        return [ip_network(value) for value in values]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must have networks such as 10.0.0.0/8, or only *: {error}.") from None


def origins(name: str) -> list[str]:
    """Read a comma-separated list of origins such as ``https://example.com``, or ``*`` alone. Returns them as browsers do."""
    values = [value.lower() for value in words(name)]
    for value in values:
        if not (_ORIGIN.fullmatch(value) or values == ["*"]):
            raise ImproperlyConfigured(
                f"{name} must have origins such as https://example.com, without a path, or only *; it has {value!r}."
            )
    return [value.removesuffix(":443" if value.startswith("https:") else ":80") for value in values]


_ORIGIN = re.compile(r"https?://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.ASCII)


def check(find: Callable[[], Findings], **options: Any) -> Callable[..., list[Any]]:
    """Register what yields the findings of a check of the configuration."""
    from django.core.checks import register  # here, because it loads much

    def run(**kwargs: Any) -> list[Any]:
        return list(find())

    return register(CHECK_TAG, **options)(run)
