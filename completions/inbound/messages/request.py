"""Reads the body of POST /v1/messages as a chat request. Raises InvalidRequest in the names of the caller's fields. Pure.

Every field is named here. A field that has no equivalent in a chat request is refused, so that nothing is dropped in silence.
So are tools that run at Anthropic, except for the web search.
"""

from collections.abc import Callable

from msgspec.structs import replace

from completions.chat import ChatRequest, Labels, RequestBody
from completions.inbound.caller_errors import Names, Places
from completions.inbound.messages import content, tools
from completions.inbound.messages.content import Conversation
from completions.request import fields, schema
from completions.request.fields import Fields, numbered, refuse
from completions.request.messages import no_pause
from completions.request.reasoning import THINKING_TOKENS_MIN
from completions.request.serving import cache_control
from gateway_project import errors

TOP_K_MAX = 1_000_000
STANDARD_ONLY = "standard_only"  # the other tier costs nothing more by the token: see ``providers.served_tiers``
THINKING_TYPES = ("enabled", "adaptive", "between_tools", "disabled")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
BETAS_MAX = 20
_OWN_FIELDS = ("echo", "models", "provider")  # the gateway's, which Anthropic's API does not have
_FIELDS = {
    *_OWN_FIELDS,
    *("model", "max_tokens", "messages", "system", "stream", "cache_control", "context_management", "metadata", "service_tier"),
    *("tools", "tool_choice", "thinking", "output_config", "stop_sequences", "temperature", "top_p", "top_k"),
}
_COPIED = (*_OWN_FIELDS, "model", "max_tokens", "temperature", "top_p", "top_k")
# The share of ``max_tokens`` that a budget for thinking may be, in percent -> reasoning_effort.
_EFFORT_BY_PERCENT = ((10, "minimal"), (20, "low"), (50, "medium"), (80, "high"), (100, "xhigh"))
_NAMES = Names(
    fields={
        "stop": "stop_sequences",
        "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
        "tool_choice.function.name": "tool_choice.name",
        "reasoning_effort": "thinking",
        "include_reasoning": "thinking.display",
        "response_format.json_schema.schema": "output_config.format.schema",
        "response_format": "output_config.format",
        "tools.function.parameters": "tools.input_schema",
        "tools.function": "tools",
        "messages.reasoning_content": "messages.thinking",
        "messages.reasoning_details": "messages.redacted_thinking",
        "messages.tool_call_id": "messages.tool_use_id",
    },
    message={"tool_call_id": "tool_use_id", "reasoning_content": "thinking"},
    part={
        **dict.fromkeys(("image_url.url", "image_url", "file.file_data", "file"), "source"),
        **{"function.arguments": "input", "function.name": "name"},
    },
    function={"parameters": "input_schema"},
)
_DEFAULT_EFFORT = "high"  # Anthropic's, of adaptive thinking
_CLEAR_THINKING = "clear_thinking_20251015"  # the only edit of the conversation that may keep everything


def parse(
    body: Fields, raw: bytes | None = None, betas: str = "", pause: Callable[[], None] = no_pause
) -> tuple[ChatRequest, Places]:
    """Return the chat request, and where its messages come from. ``betas`` is the header anthropic-beta."""
    chat, conversation = _translate(body, pause)
    places = Places(_NAMES, conversation.places)
    try:
        request = schema.parse(
            RequestBody(chat, raw, original=body, translate=lambda restored: _translate(restored, no_pause)[0]), pause
        )
    except errors.InvalidRequest as error:
        raise places.renamed(error) from None
    given_tools = body.get("tools") or []
    read = replace(
        request,
        prompt_tokens_max=request.prompt_tokens_max + conversation.unseen_tokens_max + tools.unseen_tokens_max(given_tools),
        is_max_tokens_ceiling=True,
        betas=tuple(dict.fromkeys((*_read_betas(betas), *tools.betas(given_tools)))),
        block_fields=frozenset(conversation.block_fields | tools.block_fields(given_tools)),
        messages_only_at=tools.first(given_tools),
        web_search_at=tools.first(given_tools, ("web_search",)),
        web_searches_max=tools.searches_max(given_tools),
        has_unsigned_thinking=conversation.has_unsigned_thinking,
        names_standard_tier=body.get("service_tier") == STANDARD_ONLY,
        labels=Labels(_read_user_id(body) or None),  # its metadata have no tags
    )
    return read, places


def _translate(body: Fields, pause: Callable[[], None]) -> tuple[Fields, Conversation]:
    """Return the body of the chat request, which has its own copies of everything that differs, and its conversation."""
    _refuse_thread(body)
    fields.check_members(body, _FIELDS)
    _check_numbers(body)
    conversation = content.translate(body, pause)
    chat: Fields = {name: body[name] for name in _COPIED if body.get(name) is not None}
    chat["messages"] = conversation.messages
    chat["stream"] = fields.read_boolean(body, "stream")
    if sequences := fields.read_array(body, "stop_sequences"):
        chat["stop"] = sequences
    if user_id := _read_user_id(body):
        chat["metadata"] = {"user_id": user_id}
    return {**chat, **tools.translate(body), **_reasoning(body), **_format(body), **cache_control(body, "")}, conversation


def _refuse_thread(body: Fields) -> None:
    """Refuse a conversation that the server is to keep. After this error Anthropic's SDKs continue without one."""
    if body.get("thread") is not None:
        refusal = errors.wrong("thread", "is not supported: nothing is kept here; send the whole conversation as messages")
        refusal.details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
        raise refusal


def _check_numbers(body: Fields) -> None:
    fields.read_required(body, "max_tokens")
    fields.read_integer(body, "max_tokens", 1, schema.MAX_TOKENS_MAX)
    fields.read_number(body, "temperature", 0, 1)
    fields.read_integer(body, "top_k", 1, TOP_K_MAX)
    fields.read_choice(body, "service_tier", ("auto", STANDARD_ONLY))
    _check_edits(body)


def _check_edits(body: Fields) -> None:
    """Refuse edits of the conversation. After this error Claude Code continues without them."""
    path = "context_management"
    management = fields.read_object(body, path)
    fields.check_members(management, {"edits"}, path)
    for at, edit in numbered(fields.read_array(management, "edits", path), f"{path}.edits"):
        kind = fields.require_string(fields.check_object(edit, at), "type", at)
        if kind != _CLEAR_THINKING:
            problem = f"does not support the {kind[:64]} context management strategy: nothing is taken out of the conversation"
            refuse(at, problem, quotes_request=True)
        fields.check_members(edit, {"type", "keep"}, at)
        if edit.get("keep") != "all":
            refuse(f"{at}.keep", "must be all: nothing is taken out of the conversation")


def _read_user_id(body: Fields) -> str:
    metadata = fields.read_object(body, "metadata")
    fields.check_members(metadata, {"user_id"}, "metadata")
    return fields.read_string(metadata, "user_id", "metadata")


def _read_betas(header: str) -> tuple[str, ...]:
    betas = tuple(filter(None, (beta.strip() for beta in header.split(","))))
    if len(betas) > BETAS_MAX:
        refuse("anthropic-beta", f"must have at most {BETAS_MAX} names")
    return betas


def _reasoning(body: Fields) -> Fields:
    """Return how much the model is to reason. A budget becomes the effort that spends about as much."""
    config, thinking = _output_config(body), fields.read_object(body, "thinking")
    effort = config.get("effort")
    if effort is not None and effort not in EFFORTS:
        refuse("output_config.effort", f"must be one of {', '.join(EFFORTS)}")
    if thinking:
        fields.check_members(thinking, {"type", "budget_tokens", "display"}, "thinking")
        effort = _thinking_effort(thinking, effort, body["max_tokens"])
    if (display := thinking.get("display")) not in (None, "summarized", "omitted"):
        refuse("thinking.display", "must be summarized or omitted")
    hidden = {"include_reasoning": False} if display == "omitted" else {}
    return {**({"reasoning_effort": effort} if effort else {}), **hidden}


def _thinking_effort(thinking: Fields, effort: str | None, max_tokens: int) -> str:
    kind = fields.read_required(thinking, "type", "thinking")
    if kind in ("disabled", "between_tools"):
        return "none"
    if kind not in THINKING_TYPES:
        refuse("thinking.type", f"must be one of {', '.join(THINKING_TYPES)}")
    if kind == "adaptive":
        return effort or _DEFAULT_EFFORT
    budget = fields.read_required(thinking, "budget_tokens", "thinking")
    if type(budget) is not int or not THINKING_TOKENS_MIN <= budget < max_tokens:
        refuse("thinking.budget_tokens", f"must be an integer from {THINKING_TOKENS_MIN}, and less than max_tokens")
    return effort or next(each for percent, each in _EFFORT_BY_PERCENT if budget * 100 <= percent * max_tokens)


def _output_config(body: Fields) -> Fields:
    config = fields.read_object(body, "output_config")
    fields.check_members(config, {"effort", "format"}, "output_config")
    return config


def _format(body: Fields) -> Fields:
    wanted = fields.read_object(_output_config(body), "format", "output_config")
    if not wanted:
        return {}
    path = "output_config.format"
    fields.check_members(wanted, {"type", "schema"}, path)
    if wanted.get("type") != "json_schema":
        refuse(f"{path}.type", "must be json_schema")
    json_schema = fields.require_object(wanted, "schema", path)
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": json_schema, "strict": True}}}
