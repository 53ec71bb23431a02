"""Rules for values that come from catalog files and from staff: each returns the value to store, or raises ValueError."""

import json
import re
from collections.abc import Mapping

from completions.models import Provider, Route
from completions.providers.access import endpoints, keeper
from gateway_project import installation
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
    if set("{}") & set(url.replace("{model}", "")) or "{" in parts.netloc:
        raise ValueError("must have no braces but in {model}, which stands for the model's name, behind the host")
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


def lacking_extra(provider: Provider) -> str:
    """Return what must be installed to fetch a provider's key; "" if nothing."""
    auth, key = provider.access.get("auth", {}), provider.sealed_api_key or provider.key_in_environment
    is_lacking = endpoints.is_fetched(auth, key) and not installation.has_module(keeper.SOURCES[auth["type"]])
    return keeper.missing_extra(auth["type"]) if is_lacking else ""


API_KEY_CHARACTERS_MAX, SERVICE_ACCOUNT_CHARACTERS_MAX = 2_000, 10_000


def clean_api_key(key: str, auth: Mapping[str, str]) -> str:
    """Return a provider's key as it is stored, by its ``auth``. Raises ValueError, a sentence that does not repeat it."""
    if auth.get("type") == "google":
        return _clean_service_account(key)
    if auth.get("type") == "azure" and not (auth.get("tenant_id") and auth.get("client_id")):
        raise ValueError("A secret of an application needs tenant_id and client_id in auth of the catalog file")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ValueError("An API key has no spaces and only ASCII characters")
    if not 0 < len(key) <= API_KEY_CHARACTERS_MAX:
        raise ValueError(f"An API key has 1 to {API_KEY_CHARACTERS_MAX:,} characters")
    return key


def _clean_service_account(key: str) -> str:
    """Return the JSON of a service account in one line. Google's library posts to its ``token_uri``, so that has rules, too."""
    try:
        account = json.loads(key)
        if account["type"] != "service_account" or not all(account[name] for name in ("client_email", "private_key")):
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("Google's key is the JSON file of a service account: all of it, with its braces") from None
    try:
        clean_base_url(account.get("token_uri", ""))
    except (ValueError, TypeError) as error:
        raise ValueError(f"token_uri of the service account {error}") from None
    compact = json.dumps(account, separators=(",", ":"))
    if len(compact) > SERVICE_ACCOUNT_CHARACTERS_MAX:
        raise ValueError(f"The JSON of a service account has at most {SERVICE_ACCOUNT_CHARACTERS_MAX:,} characters")
    return compact


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.$-]{0,63}")
_VALUE_CHARACTERS_MAX = 500
_ENTRIES_MAX = 20
# Headers that the gateway sets, and those that prove who asks: these are for ``auth``, which keeps them out of files and pages.
_OWN_HEADERS = {
    *("accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding", "user-agent"),
}
_KEY_NAMES = {
    *("authorization", "api-key", "apikey", "api_key", "key", "access_key", "access_token", "token", "sig", "signature"),
    *("x-auth-token", "x-access-token", "ocp-apim-subscription-key", "code", "secret", "password"),
    *("x-api-key", "x-goog-api-key", "cookie", "proxy-authorization", "x-amz-security-token", "subscription-key"),
}


def clean_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return headers that are sent with each request. Raises ValueError, which does not repeat a value."""
    for name in headers:
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"has {name}, which the gateway sets itself")
    return clean_entries(headers)


def clean_key_header(name: str) -> str:
    """Return the name of a header that carries a key. Raises ValueError."""
    if not _NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
        raise ValueError("must be the name of a header, such as api-key, and none that the gateway sets itself")
    return name


def clean_entries(entries: dict[str, str]) -> dict[str, str]:
    """Return headers, or what is appended to each address. Raises ValueError, which does not repeat a value."""
    if len(entries) > _ENTRIES_MAX:
        raise ValueError(f"has more than {_ENTRIES_MAX} entries")
    for name, value in entries.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"has {name!r}, which is no name")
        if name.lower() in _KEY_NAMES:
            raise ValueError(f"has {name}, which carries a key: write it as auth, and put the key into an environment variable")
        if not value.isascii() or not value.isprintable() or not 0 < len(value) <= _VALUE_CHARACTERS_MAX:
            raise ValueError(f"has {name} with a value that is not 1 to {_VALUE_CHARACTERS_MAX} printable ASCII characters")
    return entries


def clean_paths(paths: dict[str, str]) -> dict[str, str]:
    """Return the paths of APIs below the base URL, by the names of endpoints. Raises ValueError."""
    for name, path in paths.items():
        if name not in endpoints.PATHS:
            raise ValueError(f"has {name}; known are {', '.join(endpoints.PATHS)}")
        is_line = path.isascii() and path.isprintable() and not set(" #") & set(path) and len(path) <= 300
        if not is_line or not path.startswith("/") or set("{}") & set(path.replace("{model}", "")):
            raise ValueError(f"has {name} that is no path: it begins with / and has no spaces, and no braces but in {{model}}")
    return paths


def check_api(api: str, provider_kind: str, *, is_embedding: bool) -> None:
    """Raise ValueError for a route by an API that its provider, or its model, does not have."""
    if api == Route.Api.RESPONSES and provider_kind != Provider.Kind.OPENAI:
        raise ValueError("must be chat: only providers of the kind openai have Responses")
    if api == Route.Api.RESPONSES and is_embedding:
        raise ValueError("must be chat: Responses makes no embeddings")
