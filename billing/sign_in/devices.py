"""Known devices: browsers in which a user has signed in before, as a signed cookie says for a year.

Their attempts have a limit of their own, so that others cannot keep a user out by failing to sign in as that user.
"""

from hashlib import sha256
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from gateway_project import identifiers

_SALT = "billing.sign_in.devices"
_SECONDS = 365 * 86_400
_CHARACTERS_MAX = 60
_USERS_MAX = 5  # in one browser; the earliest is forgotten

# Parts of what browsers say of themselves. The first that occurs counts: nearly all claim to be others, too.
_BROWSERS = {"Edg": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
_SYSTEMS = {name: name for name in ("Android", "iPhone", "iPad", "Windows")}
_SYSTEMS |= {"Mac OS X": "macOS", "CrOS": "ChromeOS", "Linux": "Linux"}


def find_device(request: HttpRequest, email: str) -> str | None:
    device, users = _read(request)
    return device if device and _mark(email) in users else None


def was_last(request: HttpRequest, email: str) -> bool:
    _, users = _read(request)
    return users[-1:] == [_mark(email)]


def remember(request: HttpRequest, response: HttpResponse, email: str) -> None:
    device, users = _read(request)
    mark = _mark(email)
    users = [*(user for user in users if user != mark), mark][-_USERS_MAX:]
    value = " ".join([device or identifiers.short_uuid7(), *users])
    flags: Any = {"secure": settings.SESSION_COOKIE_SECURE, "httponly": True, "samesite": "Lax"}
    response.set_signed_cookie(settings.DEVICE_COOKIE_NAME, value, salt=_SALT, max_age=_SECONDS, **flags)


def _read(request: HttpRequest) -> tuple[str | None, list[str]]:
    """Return the device's id and the marks of its users. None: the cookie is missing, too old or not ours."""
    cookie = request.get_signed_cookie(settings.DEVICE_COOKIE_NAME, default=None, salt=_SALT, max_age=_SECONDS)
    device, *users = (cookie or "").split() or [""]
    return device or None, users


def _mark(email: str) -> str:
    return sha256(email.encode()).hexdigest()[:16]


def describe_browser(user_agent: str) -> str:
    """Return such as "Firefox on Linux"; the beginning of the text for a program that is neither."""
    browser = next((name for part, name in _BROWSERS.items() if part in user_agent), None)
    system = next((name for part, name in _SYSTEMS.items() if part in user_agent), None)
    if browser and system:
        return f"{browser} on {system}"
    return user_agent[:_CHARACTERS_MAX] or "an unknown browser"
