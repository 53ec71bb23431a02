"""Any server that speaks OpenAI's chat completions: OpenAI itself, vLLM, Ollama, Groq, OpenRouter and many more."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from completions.chat import Call, ChatRequest, Chunk, WholeReply
from completions.providers import exchange
from completions.providers.openai import messages
from completions.providers.openai.response import ChunkReader, parse_answer
from gateway_project.net import http

# What some upstream understands as another cap, further choices, another model or a dearer service than the one that is
# priced. The hold pays for none of it, so it is not passed on.
_UNPAID = {
    "best_of",
    "compound_custom",
    "enable_search",
    "fallbacks",
    "inference_geo",
    "max_new_tokens",
    "max_output_tokens",
    "mcp_servers",
    "models",
    "n_predict",
    "num_predict",
    "options",
    "plugins",
    "prediction",
    "preset",
    "provider",
    "route",
    "search_parameters",
    "search_settings",
    "service_tier",
    "speed",
    "web_search_options",
}
_NOT_AS_THEY_CAME = {"echo", "max_tokens", "max_completion_tokens", "stream_options"} | _UNPAID

# What every provider of note takes.
_COMMON = frozenset(
    {
        "frequency_penalty",
        "function_call",
        "functions",
        "messages",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "tool_choice",
        "tools",
        "top_p",
    }
)
_OPENAI = _COMMON | {
    "logit_bias",
    "logprobs",
    "metadata",
    "modalities",
    "moderation",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "store",
    "top_logprobs",
    "user",
    "verbosity",
}
_MISTRAL = _COMMON - {"functions", "function_call"} | {"metadata", "prompt_mode", "random_seed", "safe_prompt"}
_GROQ = _COMMON | {
    "disable_tool_validation",
    "include_reasoning",
    "logit_bias",
    "logprobs",
    "reasoning_format",
    "top_logprobs",
    "user",
}
_IN_MESSAGES = frozenset({"role", "content", "tool_calls", "tool_call_id"})


@dataclass(frozen=True, slots=True)
class Quirk:
    """Where an upstream differs. Without ``cap_field`` it takes the cap by the name that the caller used.

    ``fields``: all that it takes, where it refuses a request for a field that it does not know, and ``message_fields``: in
    messages. ``names`` and ``roles``: those that it calls otherwise. ``stream_options`` are what is asked of a stream: its
    usage, whether or not the caller wants it, for it is what we charge by.
    """

    cap_field: str | None = None
    stream_options: dict[str, bool] | None = field(default_factory=lambda: {"include_usage": True})
    fields: frozenset[str] | None = None
    message_fields: frozenset[str] = _IN_MESSAGES
    names: dict[str, str] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)


# By the host of ``base_url``; from their references and from what their users were refused with.
QUIRKS: dict[str, Quirk] = {
    # Newer models: 400, "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead"
    # (github.com/openai/openai-python/issues/2046). All take the new name; the reference calls the old one deprecated.
    # An unknown field: 400 (github.com/continuedev/continue/issues/11409). Obfuscation is padding that we do not pass on.
    "api.openai.com": Quirk(
        cap_field="max_completion_tokens",
        stream_options={"include_usage": True, "include_obfuscation": False},
        fields=_OPENAI,
        message_fields=_IN_MESSAGES | {"function_call", "name", "refusal"},
    ),
    # 422 extra_forbidden for max_completion_tokens (github.com/editor-code-assistant/eca/issues/231) and for stream_options
    # (github.com/TabbyML/tabby/pull/4082). Usage comes in its last chunk unasked. In messages, too: 422 for a name
    # (github.com/Gage-Technologies/mistral-go/issues/3) and for thoughts (github.com/charmbracelet/crush/issues/1590).
    "api.mistral.ai": Quirk(
        cap_field="max_tokens",
        stream_options=None,
        fields=_MISTRAL,
        message_fields=_IN_MESSAGES | {"prefix"},
        names={"seed": "random_seed"},
        roles={"developer": "system"},
    ),
    # 400 for store (github.com/CherryHQ/cherry-studio/issues/1099), and for others that it does not know; in messages for
    # names (console.groq.com/docs/openai) and for thoughts (github.com/SimonSchubert/Kai/issues/265).
    "api.groq.com": Quirk(fields=_GROQ, message_fields=_IN_MESSAGES | {"function_call"}),
}


class OpenAI:
    """The wire format of openai.com, which is also ours; so a stream's choices are passed on as the bytes they came in."""

    def check(self, request: ChatRequest) -> None:
        """Nothing: what an upstream cannot do, it says itself."""

    def complete(self, call: Call) -> WholeReply:
        return exchange.read_whole(call, _post(call, stream=False), parse_answer)

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        yield from exchange.read_stream(call, _post(call, stream=True), ChunkReader(call.request.choices))


# --- Asking -----------------------------------------------------------------------------------------------------


def _post(call: Call, *, stream: bool) -> http.UpstreamResponse:
    headers = {"Authorization": f"Bearer {call.route.api_key}"} if call.route.api_key else {}
    return exchange.post(call, "/chat/completions", headers, _body(call, stream), stream=stream)


def _body(call: Call, stream: bool) -> dict[str, Any]:
    quirk = QUIRKS.get(urlsplit(call.route.base_url).hostname or "", Quirk())
    fields = _fields(call.request.fields, quirk)
    cap_field = quirk.cap_field or call.request.max_tokens_field
    fields.update({"model": call.route.upstream_model, "stream": stream, cap_field: call.max_tokens})
    if stream and quirk.stream_options:
        fields["stream_options"] = {**(call.request.fields.get("stream_options") or {}), **quirk.stream_options}
    return fields


def _fields(given: dict[str, Any], quirk: Quirk) -> dict[str, Any]:
    """What the caller sent, as far as it is paid for and known. A null counts as absent, and not every upstream agrees."""
    # There are servers, written in Go, to which MODEL is another model, and Max_Tokens another cap: the last one counts.
    plain = {name: value for name, value in given.items() if value is not None and name == name.casefold()}
    fields = {name: value for name, value in plain.items() if name not in _NOT_AS_THEY_CAME}
    if quirk.fields is None:
        return fields
    fields = {quirk.names.get(name, name): value for name, value in fields.items() if name in quirk.fields}
    fields["messages"] = messages.known(fields["messages"], quirk.message_fields, quirk.roles)
    if "tools" in fields:
        fields["tools"] = messages.without_foreign(fields["tools"])
    return fields
