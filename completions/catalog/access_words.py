"""Says in words how a provider is reached and where its key comes from, without the key."""

from completions.models import Provider
from completions.providers.access import endpoints, keeper

_CLOUDS = {"google": "Google", "aws": "AWS", "azure": "Azure"}
_UNREADABLE_KEY = "stored here, but it cannot be decrypted with GATEWAY_ENCRYPTION_KEYS: enter it again"


def describe_key(provider: Provider) -> str:
    """Return where the key comes from: "in OPENAI_API_KEY"."""
    auth, name, given = provider.access.get("auth", {}), provider.api_key_env, provider.key_in_environment
    is_fetched = endpoints.is_fetched(auth, provider.sealed_api_key or given)
    if provider.sealed_api_key:
        where = "stored here, encrypted" if provider.is_key_readable else _UNREADABLE_KEY
    elif name and not given:
        return f"missing: {name} is not set"
    else:
        where = f"in {name}" if name else ""
    if not is_fetched:
        return where or "none"
    library = keeper.SOURCES[auth["type"]].replace(".", "-")
    fetched = f"fetched from {_CLOUDS[auth['type']]} by {library}"
    return f"{fetched} with a secret that is {where}" if where else f"{fetched} with what it finds on each host"


def describe_access(provider: Provider) -> list[str]:
    """Return what the catalog file says of credentials, headers, query, paths and platform: a line for each."""
    access = provider.access
    auth = access.get("auth", {})
    ids = {name: value for name, value in auth.items() if name not in ("type", "name")}
    shown = {
        "bearer": "The key is sent as Authorization: Bearer",
        "header": f"The key is sent in the header {auth.get('name')}",
    }
    lines = [shown.get(auth["type"], f"The credential is one of {_CLOUDS.get(auth['type'])}")] if auth else []
    lines += [f"{name}: {value}" for name, value in ids.items()]
    lines += [f"Header {name}: {value}" for name, value in access.get("headers", {}).items()]
    lines += [f"Query {name}={value}" for name, value in access.get("query", {}).items()]
    lines += [f"Path of {name}: {value}" for name, value in access.get("paths", {}).items()]
    lines += [f"Platform: {access['platform']}"] if "platform" in access else []
    return lines or ["As its kind says: the catalog file states nothing else."]
