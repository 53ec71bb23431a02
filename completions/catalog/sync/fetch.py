"""Fetches a provider's list of models, in the background. Redirects are not followed."""

from contextlib import closing

from gateway_project.net import background_http
from gateway_project.net.background_http import Document

LIMITS = background_http.Limits(redirects=0)
_ETAG_CHARACTERS_MAX = 200


def fetch_list(url: str, *, api_key: str = "", etag: str = "") -> Document | None:
    """Return the list, or None if it is still the one that had this ``etag``. Raises background_http.FetchFailed."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    with closing(background_http.Client(headers, LIMITS)) as client:
        return client.get(url, {"If-None-Match": etag} if etag else {})


def etag_of(document: Document) -> str:
    """Return the list's ETag; empty if there is none, or one that does not fit into a header or into its column."""
    etag = document.headers.get("ETag", "")
    return etag if etag.isascii() and etag.isprintable() and len(etag) <= _ETAG_CHARACTERS_MAX else ""
