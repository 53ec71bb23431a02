"""Rules for values that come from catalog files and from staff: each returns the value to store, or raises ValueError."""

import re

from completions.models import Provider, Route
from gateway_project.net import addresses
from gateway_project.text import web_addresses


def clean_model_id(model_id: str) -> str:
    """Return the id. Raises ValueError. Ids are parts of URLs, so no segment may be one that URL handling removes."""
    is_line = model_id.isprintable() and " " not in model_id
    if len(model_id) > 200 or not is_line or {"", ".", ".."} & set(model_id.split("/")):
        raise ValueError('a model id has at most 200 characters, no spaces, and something before and after each "/"')
    return model_id


def clean_base_url(url: str) -> str:
    """Return the address without a trailing slash. Raises ValueError, which does not repeat it: it may contain a secret."""
    parts = web_addresses.parse(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError("must begin with http:// or https:// and a host")
    if "@" in parts.netloc:
        raise ValueError("must not carry a user name or password")
    if "?" in url or "#" in url:
        raise ValueError("must end with its path: no query and no fragment")
    if not url.isprintable() or " " in url or len(url) > 200:
        raise ValueError("must be at most 200 characters without spaces")
    addresses.check_host(parts.hostname or "")
    return url.rstrip("/")


def clean_api_key_env(name: str) -> str:
    """Return the name. Raises ValueError, which does not repeat it: it may be the key itself."""
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{0,99}", name):
        raise ValueError("must be the name of an environment variable, such as OPENAI_API_KEY")
    if name.startswith("GATEWAY_") or name in {"DATABASE_URL", "REDIS_URL"}:
        raise ValueError("names a secret of the gateway itself, which no provider may be sent")
    return name


def check_api(api: str, provider_kind: str, *, is_embedding: bool) -> None:
    """Raise ValueError for a route by an API that its provider, or its model, does not have."""
    if api == Route.Api.RESPONSES and provider_kind != Provider.Kind.OPENAI:
        raise ValueError("must be chat: only providers of the kind openai have Responses")
    if api == Route.Api.RESPONSES and is_embedding:
        raise ValueError("must be chat: Responses makes no embeddings")
