"""Asks a provider whether it accepts a key, by one request for the list of its models, which costs nothing."""

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
    """Make one request. Of the reply only its status is read."""
    target = LISTS[provider.kind].target(provider.pk, provider.base_url.rstrip("/"), secret, provider.access)
    timeouts = min(background_http.CONNECT_SECONDS, settings.UPSTREAM_CONNECT_SECONDS), _READ_SECONDS
    try:
        with background_http.open_session() as session:
            reply = session.get(target.url, headers=target.headers, timeout=timeouts, allow_redirects=False, stream=True)
            status = reply.status_code
    except (requests.RequestException, OSError):
        return Checked(Verdict.UNKNOWN, f"{provider} did not answer.")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Checked(Verdict.REFUSED, f"{provider} refused the key ({status}).")
    if status == HTTPStatus.OK:
        return Checked(Verdict.ACCEPTED, f"{provider} accepted the key.")
    return Checked(Verdict.UNKNOWN, f"{provider} answered {status}, which says nothing about the key.")
