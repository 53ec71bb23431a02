"""Where a request to a provider goes, and with which headers. Pure.

This is the one place that makes a provider's address and shows it our key: for all adapters, and so for a route that is called
by hand (``catalog.route_calls``), and for a provider's own list of its models (``catalog.sync``).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from completions.chat import Target
from completions.providers.access import keeper, platforms


class Endpoint(NamedTuple):
    """An API of a kind of providers: its path below the base URL, where "{model}" stands for the provider's name of the model.

    ``name``: in ``paths`` of a catalog file. ``stream_path``: where streams are asked for, if that is another path. The key is
    sent in the header ``key_header`` as ``key_form`` has it, and not in the address, because access logs would keep it.
    ``headers`` are sent with every request.
    """

    name: str
    path: str
    stream_path: str = ""
    key_header: str = "Authorization"
    key_form: str = "Bearer {}"
    headers: Mapping[str, str] = {}

    def target(self, provider: str, base_url: str, api_key: str, access: Mapping[str, Any], model: str = "") -> Target:
        """Return the target of a model at a provider, whose ``access`` is that of its row in the catalog."""
        platform = platforms.find(base_url, access.get("platform", ""))
        paths, auth = access.get("paths", {}), access.get("auth", {})
        path, stream_path = platform.paths.get(self.name, (self.path, self.stream_path))
        if stated := paths.get(self.name):
            path, stream_path = stated, ""
        stream_path = paths.get(f"{self.name}_stream", stream_path) or path
        credential = keeper.keep(provider, auth, api_key) if is_fetched(auth, api_key) else None
        key = {} if credential or not api_key else self._key(auth, api_key)
        return Target(
            url=_url(base_url, path, access, model),
            stream_url=_url(base_url, stream_path, access, model),
            headers={**self.headers, **access.get("headers", {}), **key},
            credential=credential,
            instead_of_model=platform.instead_of_model.get(self.name) if "{model}" in path else None,
            lacks=platform.lacks.get(self.name, frozenset()),
            betas=platform.betas,
            tier_header=platform.tier_headers.get(self.name, ""),
            show_key=partial(self._key, auth),
        )

    def _key(self, auth: Mapping[str, str], api_key: str) -> dict[str, str]:
        """Return the header with the key: that of the kind, unless ``auth`` names another."""
        if auth.get("type") == "header":
            return {auth["name"]: api_key}
        return {"Authorization": f"Bearer {api_key}"} if auth else {self.key_header: self.key_form.format(api_key)}


def is_fetched(auth: Mapping[str, str], api_key: str) -> bool:
    """Return whether a key is fetched from a cloud, and not given. A key of Bedrock is shown as it is."""
    return auth.get("type") in keeper.SOURCES and not (auth["type"] == "aws" and api_key)


def _url(base_url: str, path: str, access: Mapping[str, Any], model: str) -> str:
    address = f"{base_url}{path}"
    if query := access.get("query"):
        address = f"{address}{'&' if '?' in address else '?'}{urlencode(query, quote_via=quote)}"
    return address.replace("{model}", quote(model, safe="@")) if "{model}" in address else address


OPENAI = Endpoint("chat", "/chat/completions")
OPENAI_RESPONSES = Endpoint("responses", "/responses")
OPENAI_EMBEDDINGS = Endpoint("embeddings", "/embeddings")
_ANTHROPICS = {"anthropic-version": "2023-06-01"}  # of the wire format; there is no other
ANTHROPIC = Endpoint("messages", "/v1/messages", key_header="x-api-key", key_form="{}", headers=_ANTHROPICS)
_METHODS = "/v1beta/models/{model}:"
GEMINI = Endpoint(
    "generate", f"{_METHODS}generateContent", f"{_METHODS}streamGenerateContent?alt=sse", "x-goog-api-key", key_form="{}"
)
GEMINI_EMBEDDINGS = GEMINI._replace(name="embed", path=f"{_METHODS}batchEmbedContents", stream_path="")
# A provider's own list of its models, as long as it can be at once, by the kind of the provider.
LISTS = {
    "openai": Endpoint("models", "/models"),
    "anthropic": ANTHROPIC._replace(name="models", path="/v1/models?limit=1000"),
    "gemini": GEMINI._replace(name="models", path="/v1beta/models?pageSize=1000", stream_path=""),
}
_STREAMED = (OPENAI, OPENAI_RESPONSES, ANTHROPIC, GEMINI)
# The APIs of which a catalog file may state a path.
PATHS = [
    *(endpoint.name for endpoint in (*_STREAMED, OPENAI_EMBEDDINGS, GEMINI_EMBEDDINGS, LISTS["openai"])),
    *(f"{endpoint.name}_stream" for endpoint in _STREAMED),
]
