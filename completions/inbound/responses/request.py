"""Reads the body of POST /v1/responses as a chat request. Raises InvalidRequest in the names of the caller's fields. Pure.

Every field is named here; nothing is dropped in silence. Fields without a counterpart in a chat request are refused. So are
fields that no price of the catalog covers, and tools that run at OpenAI, except for the search of the web.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

import msgspec
from msgspec.structs import replace

from completions.chat import ChatRequest, RequestBody
from completions.inbound.caller_errors import Names, Places
from completions.inbound.responses import items, tools
from completions.inbound.responses.items import Conversation
from completions.inbound.responses.tools import Called, Tools
from completions.request import fields, schema, serving
from completions.request.fields import Fields, numbered, refuse
from completions.request.messages import no_pause
from completions.request.serving import cache_control
from gateway_project import errors
from gateway_project.text import compact_json

LOGPROBS, ENCRYPTED = "message.output_text.logprobs", "reasoning.encrypted_content"
INCLUDED = (LOGPROBS, ENCRYPTED, "web_search_call.action.sources")
SUMMARIES = ("auto", "concise", "detailed")
FORMATS = ("text", "json_object", "json_schema")
TOP_LOGPROBS_MAX = 20
SEARCHES_MAX = 100
REPEATED_BYTES_MAX = 65_536  # of one field
_REPEATED: Fields = {  # by the reply, in its order -> what it says where the request says nothing
    **{"background": False, "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {}},
    **{"parallel_tool_calls": True, "previous_response_id": None, "prompt_cache_key": None, "reasoning": {}},
    **{"safety_identifier": None, "service_tier": "default", "temperature": None, "text": {}, "tool_choice": "auto"},
    **{"tools": [], "top_logprobs": 0, "top_p": None, "truncation": "disabled", "user": None},
}
CACHE_RETENTIONS = ("in_memory", "24h")
_OWN_FIELDS = ("echo", "models", "provider")  # the gateway's, which OpenAI's API does not have
_COPIED = (
    *_OWN_FIELDS,
    *("model", "temperature", "top_p", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    *("moderation", "prompt_cache_options", "service_tier"),
    "client_metadata",  # Codex's, about itself
)
_OF_REPLIES = ("logprobs", "response_format", "tool_choice", "top_logprobs", "verbosity")
_FIELDS = {
    *_COPIED,
    *("background", "cache_control", "context_management", "conversation", "include", "input", "instructions"),
    *("max_output_tokens", "max_tool_calls", "parallel_tool_calls", "previous_response_id", "reasoning", "store", "stream"),
    *("stream_options", "text", "tool_choice", "tools", "top_logprobs", "truncation"),
}
_NAMES = Names(
    fields={
        "messages.reasoning_content": "input.summary",
        "messages.reasoning_details": "input.encrypted_content",
        "messages": "input",
        "max_tokens": "max_output_tokens",
        "reasoning_effort": "reasoning.effort",
        "reasoning_summary": "reasoning.summary",
        "response_format.json_schema": "text.format",
        "response_format": "text.format",
        "tool_choice.function": "tool_choice",
        "tools.function": "tools",
        "verbosity": "text.verbosity",
    },
    message={"tool_call_id": "call_id", "reasoning_content": "summary"},
    part={
        **{"image_url.url": "image_url", "image_url.detail": "detail", "id": "call_id"},
        **dict.fromkeys(("file", "function", "custom"), ""),
    },
)


@dataclass(frozen=True, slots=True)
class ResponsePlaces(Places):
    """Also the tools whose calls look different in Responses, by their names in the chat request."""

    called: Mapping[str, Called] = field(default_factory=dict)


def parse(
    body: Fields,
    raw: bytes | None = None,
    pause: Callable[[], None] = no_pause,
    *,
    earlier: int = 0,
    account_id: UUID | None = None,
) -> tuple[ChatRequest, ResponsePlaces, Fields]:
    """Return the chat request, where its messages and tools come from, and the fields that the reply repeats.

    The first ``earlier`` items of the input come from earlier responses. Summaries in it are sealed for the account.
    """
    chat, conversation, declared = _translate(body, pause, earlier, account_id)
    logprobs_at = "include" if LOGPROBS in (body.get("include") or ()) else "top_logprobs"
    others = {"logprobs": logprobs_at, **({tools.WEB_SEARCH: declared.search_at} if declared.search else {})}
    places = ResponsePlaces(_NAMES, conversation.places, declared.paths, others, declared.called)
    try:
        body_of_chat = RequestBody(chat, raw, translate=lambda restored: _translate(restored, no_pause, earlier, account_id)[0])
        request = schema.parse(body_of_chat, pause)
        request = replace(
            request,
            max_tokens_name="max_output_tokens",
            takes_custom_as_functions=declared.has_custom or conversation.has_custom_calls,
            block_fields=frozenset({"messages.web_search_call"} if conversation.has_searches else ())
            | _unmet_context_management(body.get("context_management"), request.prompt_tokens_max),
            web_search=declared.search,
            web_search_at=tools.WEB_SEARCH if declared.search else "",
            web_searches_max=body["max_tool_calls"] if declared.search else 0,
        )
    except errors.InvalidRequest as error:
        raise places.renamed(error) from None
    return request, places, _repeated(body)


def _unmet_context_management(entries: list[Fields] | None, prompt_tokens_max: int) -> frozenset[str]:
    """Return the field if it may ask for a compaction before the reply, which the gateway does not do by itself."""
    thresholds = [entry.get("compact_threshold") or 0 for entry in entries or ()]
    return frozenset({"context_management"} if any(prompt_tokens_max > tokens for tokens in thresholds) else ())


def _translate(
    body: Fields, pause: Callable[[], None], earlier: int, account_id: UUID | None
) -> tuple[Fields, Conversation, Tools]:
    fields.check_members(body, _FIELDS)
    _check_state(body, earlier)
    _check_service(body)
    conversation = items.translate(body, pause, earlier, account_id)
    chat: Fields = {name: body[name] for name in _COPIED if body.get(name) is not None}
    chat["messages"] = conversation.messages
    chat["stream"] = fields.read_boolean(body, "stream")
    if (max_tokens := fields.read_integer(body, "max_output_tokens", 1, schema.MAX_TOKENS_MAX)) is not None:
        chat["max_tokens"] = max_tokens
    declared = tools.translate(body, conversation.found_tools)
    if fields.read_integer(body, "max_tool_calls", 1, SEARCHES_MAX) is None and declared.search:
        refuse("max_tool_calls", f"must be there with web_search, from 1 to {SEARCHES_MAX}: the hold pays for so many")
    said = {**_tools(body, declared), **_reasoning(body), **_text(body), **_logprobs(body), **cache_control(body, "")}
    if conversation.compacts_at:  # the reply is a text, and providers want the tools of earlier calls declared
        said = {name: value for name, value in said.items() if name not in _OF_REPLIES}
        said |= {"tool_choice": "none"} if "tools" in said else {}
    return {**chat, **said}, conversation, declared


def _check_state(body: Fields, earlier: int) -> None:
    """Check what says whether the response is stored. The response that it continues must be part of the input by now."""
    if body.get("previous_response_id") is not None and not earlier:
        refuse("previous_response_id", "is not supported here; send the whole conversation as input")
    if body.get("conversation") is not None:
        refuse("conversation", "is not supported: name the response before as previous_response_id")
    fields.read_boolean(body, "store")
    if fields.read_boolean(body, "background"):
        if body.get("store") is False:
            refuse("background", "must be false when store is false: no one could read the response")
        if body.get("stream"):
            refuse("stream", "must be false when background is true: read the response when it is there")


def _check_service(body: Fields) -> None:
    """Check what asks for no more than the gateway does anyway."""
    fields.read_choice(body, "prompt_cache_retention", CACHE_RETENTIONS)
    fields.read_object(body, "client_metadata")
    for path, entry in numbered(fields.read_array(body, "context_management"), "context_management"):
        fields.check_kind(entry, path, ("compaction",))
        fields.check_members(entry, {"type", "compact_threshold"}, path)
        fields.read_integer(entry, "compact_threshold", 1, schema.MAX_TOKENS_MAX, path)
    if body.get("truncation") not in (None, "disabled"):
        refuse("truncation", "must be disabled: nothing is taken out of the conversation")
    options = fields.read_object(body, "stream_options")
    fields.check_members(options, {"include_obfuscation"}, "stream_options")
    fields.read_boolean(options, "include_obfuscation", "stream_options")


def _tools(body: Fields, declared: Tools) -> Fields:
    """Return the tools and what is said of them. Without tools, to let the model choose says nothing."""
    is_parallel = body.get("parallel_tool_calls")
    choice = tools.choice(body)
    fields.read_boolean(body, "parallel_tool_calls")
    if not declared.chat:
        return {} if choice in (None, "auto", "none") else {"tool_choice": choice}
    return {
        "tools": declared.chat,
        **({} if choice is None else {"tool_choice": choice}),
        **({} if is_parallel is None else {"parallel_tool_calls": is_parallel}),
    }


def _reasoning(body: Fields) -> Fields:
    """Return how much the model is to reason. Models that show their reasoning do so whether or not a summary is asked for."""
    given = fields.read_object(body, "reasoning")
    fields.check_members(given, {"effort", "summary", "generate_summary", "context", "mode"}, "reasoning")
    effort, summary = given.get("effort"), given.get("summary", given.get("generate_summary"))
    if summary is not None and summary not in SUMMARIES:
        refuse("reasoning.summary", f"must be one of {', '.join(SUMMARIES)}")
    if given.get("context") not in (None, "auto", "all_turns"):
        refuse("reasoning.context", "must be auto or all_turns: the conversation is sent as it came")
    if given.get("mode") not in (None, "standard"):
        refuse("reasoning.mode", "must be standard: no price of the catalog covers another")
    length = {"reasoning_summary": summary} if summary in ("concise", "detailed") else {}  # no provider is sent it
    return {**({} if effort is None else {"reasoning_effort": effort}), **length}


def _text(body: Fields) -> Fields:
    given = fields.read_object(body, "text")
    fields.check_members(given, {"format", "verbosity"}, "text")
    verbosity = {} if given.get("verbosity") is None else {"verbosity": given["verbosity"]}
    wanted = fields.read_object(given, "format", "text")
    if not wanted:
        return verbosity
    kind = fields.check_kind(wanted, "text.format", FORMATS)
    if kind != "json_schema":
        fields.check_members(wanted, {"type"}, "text.format")
        return {**verbosity, **({} if kind == "text" else {"response_format": {"type": kind}})}
    fields.check_members(wanted, {"type", "name", "description", "schema", "strict"}, "text.format")
    fields.require_object(wanted, "schema", "text.format")
    fields.read_string(wanted, "description", "text.format")
    fields.read_boolean(wanted, "strict", "text.format")
    json_schema = {name: value for name, value in wanted.items() if name != "type" and value is not None}
    return {**verbosity, "response_format": {"type": kind, kind: json_schema}}


def _logprobs(body: Fields) -> Fields:
    """Return whether the reply is to have the probabilities of its tokens."""
    included = fields.read_array(body, "include")
    for path, name in numbered(included, "include"):
        if name not in INCLUDED:
            refuse(path, f"must be one of {', '.join(INCLUDED)}")
    top = fields.read_integer(body, "top_logprobs", 0, TOP_LOGPROBS_MAX)
    if LOGPROBS not in included and not top:
        return {}
    return {"logprobs": True, **({} if top is None else {"top_logprobs": top})}


def _repeated(body: Fields) -> Fields:
    """Return fields of the reply, as JSON: the body may be released before. A long one is null, so that it takes no memory."""
    reasoning, text = body.get("reasoning") or {}, body.get("text") or {}
    fields = {name: default if body.get(name) is None else body[name] for name, default in _REPEATED.items()}
    fields["reasoning"] = {name: reasoning.get(name) for name in ("effort", "summary")}
    fields["service_tier"] = serving.SERVICE_TIERS[body.get("service_tier") or "auto"] or "default"
    fields["text"] = {"format": {"type": "text"}, **{name: value for name, value in text.items() if value is not None}}
    written = {name: compact_json.dumps(value) for name, value in fields.items()}
    return {name: msgspec.Raw(value if len(value) <= REPEATED_BYTES_MAX else b"null") for name, value in written.items()}
