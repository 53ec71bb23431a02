"""Asks a provider whether it accepts a key, by requests for the list of its models, which cost nothing.

Some give this list to anyone. So where it comes with the key, it must not come without one.
"""

from enum import Enum
from http import HTTPStatus
from typing import NamedTuple

import requests
from django.conf import settings

from completions.models import Provider
from completions.providers.access.endpoints import LISTS
from gateway_project.net import background_http

_READ_SECONDS = 10


class Verdict(Enum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Checked(NamedTuple):
    verdict: Verdict
    words: str  # a sentence, without the key


def check(provider: Provider, secret: str) -> Checked:
    """Make one request, or two. Of the replies only the status is read."""
    try:
        status = _ask(provider, secret)
        is_public = status == HTTPStatus.OK and _ask(provider, "") == HTTPStatus.OK
    except (requests.RequestException, OSError):
        return Checked(Verdict.UNKNOWN, f"{provider} did not answer.")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Checked(Verdict.REFUSED, f"{provider} refused the key ({status}).")
    if status == HTTPStatus.OK and not is_public:
        return Checked(Verdict.ACCEPTED, f"{provider} accepted the key.")
    answer = "lists its models for anyone" if is_public else f"answered {status}"
    return Checked(Verdict.UNKNOWN, f"{provider} {answer}, which says nothing about the key.")


def _ask(provider: Provider, secret: str) -> int:
    target = LISTS[provider.kind].target(provider.pk, provider.base_url.rstrip("/"), secret, provider.access)
    timeouts = min(background_http.CONNECT_SECONDS, settings.UPSTREAM_CONNECT_SECONDS), _READ_SECONDS
    with background_http.open_session() as session:
        reply = session.get(target.url, headers=target.headers, timeout=timeouts, allow_redirects=False, stream=True)
        return reply.status_code
