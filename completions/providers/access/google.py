"""Google's access keys of an hour, by google-auth: for service accounts, workload identity, and machines of Google Cloud."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import google.auth
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from completions.providers.access.keeper import Bearer, Fetch, Fetched
from gateway_project.net import background_http

_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]


def make_fetch(auth: Mapping[str, str], key: str) -> Fetch:
    """Return what fetches for ``key``, the JSON of a service account; without one, for what Google's libraries find.

    They look at GOOGLE_APPLICATION_CREDENTIALS, which may name a file of workload identity, then ask the metadata server:
    https://cloud.google.com/docs/authentication/application-default-credentials.
    """
    session = None
    if key:  # whose token_uri anybody may have written: no redirect, no private address
        session = background_http.open_session()
        session.max_redirects = 0
        read: Any = service_account.Credentials.from_service_account_info  # without types
        credentials = read(json.loads(key), scopes=_SCOPES)
    else:
        credentials, _ = google.auth.default(scopes=_SCOPES)

    def fetch() -> Fetched:
        credentials.refresh(Request(session))
        expires_at = credentials.expiry.replace(tzinfo=UTC)
        return Fetched.until_expiry(Bearer(credentials.token), (expires_at - datetime.now(UTC)).total_seconds())

    return fetch
