"""Where a request to a provider goes, and with which headers. Pure.

This is the one place that makes a provider's address and shows it our key: for all adapters, and so for a route that is called
by hand (``catalog.route_calls``), and for a provider's own list of its models (``catalog.sync``).
"""

from typing import NamedTuple
from urllib.parse import quote


class Endpoint(NamedTuple):
    """An API of a kind of providers: its path below the base URL, where "{model}" stands for the provider's name of the model.

    ``stream_path``: where streams are asked for, if that is another path. The key is sent in the header ``key_header`` as
    ``key_form`` has it, and not in the address, because access logs would keep it.
    """

    path: str
    stream_path: str = ""
    key_header: str = "Authorization"
    key_form: str = "Bearer {}"

    def address(self, base_url: str, api_key: str, model: str = "", *, stream: bool = False) -> tuple[str, dict[str, str]]:
        """Return the URL of a request, and the headers that show the key; none without a key."""
        path = self.stream_path if stream and self.stream_path else self.path
        if "{model}" in path:
            path = path.replace("{model}", quote(model, safe=""))
        return f"{base_url}{path}", {self.key_header: self.key_form.format(api_key)} if api_key else {}


OPENAI = Endpoint("/chat/completions")
OPENAI_RESPONSES = Endpoint("/responses")
OPENAI_EMBEDDINGS = Endpoint("/embeddings")
OPENAI_MODELS = Endpoint("/models")
ANTHROPIC = Endpoint("/v1/messages", key_header="x-api-key", key_form="{}")
_METHODS = "/v1beta/models/{model}:"
GEMINI = Endpoint(
    f"{_METHODS}generateContent", f"{_METHODS}streamGenerateContent?alt=sse", key_header="x-goog-api-key", key_form="{}"
)
GEMINI_EMBEDDINGS = GEMINI._replace(path=f"{_METHODS}batchEmbedContents", stream_path="")
