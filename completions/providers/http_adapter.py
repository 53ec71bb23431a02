"""An adapter of a provider that is asked over HTTP: a wire format adds how it is asked, and what reads its replies."""

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

from completions.chat import Call, Chunk, Target, WholeReply
from completions.providers import exchange, reading
from completions.providers.access.endpoints import Endpoint
from completions.providers.base import Adapter
from completions.request.fields import Fields


class HttpAdapter(Adapter):
    endpoint: Endpoint
    # Chat templates of open models explain how to call a tool in 100 to 500 tokens. Anthropic's reference lists 159 to 530 by
    # model and tool_choice (docs.anthropic.com/en/docs/tool-use-pricing-and-tokens), and says that a JSON schema adds more;
    # Gemini's says nothing. The rest is for models to come.
    preamble_tokens_max = 1_024

    def target(self, provider: str, base_url: str, api_key: str, access: Mapping[str, Any], model: str) -> Target:
        return self.endpoint.target(provider, base_url, api_key, access, model)

    def switches_reasoning_off(self, call: Call) -> bool:
        raise NotImplementedError

    def body(self, call: Call, *, stream: bool) -> Fields:
        """Return the body of a request in the wire format of the provider."""
        raise NotImplementedError

    def read_refusal(self, status: int, body: bytes) -> tuple[int, str]:
        """Return the status that a refusal should have had, and the seconds to wait that its body names, or ""."""
        raise NotImplementedError

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        """Return what reads a whole reply, and what makes the reader of a stream: providers may send either unasked."""
        raise NotImplementedError

    def post(self, call: Call, *, stream: bool, headers: dict[str, str] | None = None) -> exchange.Posted:
        """Send a request with the provider's key, and with further headers. Raises ProviderFailed."""
        target, build_body = call.route.target, partial(self.body, call, stream=stream)
        if target.instead_of_model is not None:
            build_body = partial(_without_model, build_body, target.instead_of_model)
        headers = {**(headers or {}), **target.headers}
        return exchange.post(call, headers, build_body, stream=stream, interpret=self.read_refusal)

    def complete(self, call: Call) -> WholeReply:
        return reading.read_whole(self.post(call, stream=False), *self.readers(call, stream=False))

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        return reading.read_stream(partial(self.post, call, stream=True), *self.readers(call, stream=True))


def _without_model(build_body: Callable[[], Fields], fields: Mapping[str, str]) -> Fields:
    body = {**build_body(), **fields}
    del body["model"]
    return body
