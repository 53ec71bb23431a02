"""An adapter of a provider that is asked over HTTP: a wire format adds how it is asked, and what reads its replies."""

from collections.abc import Generator
from functools import partial

from completions.chat import Call, Chunk, WholeReply
from completions.providers import exchange, reading
from completions.providers.base import Adapter
from completions.providers.endpoints import Endpoint
from completions.request.fields import Fields


class HttpAdapter(Adapter):
    endpoint: Endpoint
    # Chat templates of open models explain how to call a tool in 100 to 500 tokens. Anthropic's reference lists 159 to 530 by
    # model and tool_choice (docs.anthropic.com/en/docs/tool-use-pricing-and-tokens), and says that a JSON schema adds more;
    # Gemini's says nothing. The rest is for models to come.
    preamble_tokens_max = 1_024

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
        route = call.route
        url, key = self.endpoint.address(route.base_url, route.api_key, route.upstream_model, stream=stream)
        build_body, headers = partial(self.body, call, stream=stream), {**(headers or {}), **key}
        return exchange.post(call, url, headers, build_body, stream=stream, interpret=self.read_refusal)

    def complete(self, call: Call) -> WholeReply:
        return reading.read_whole(self.post(call, stream=False), *self.readers(call, stream=False))

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        return reading.read_stream(partial(self.post, call, stream=True), *self.readers(call, stream=True))
