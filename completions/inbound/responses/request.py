"""Reads the body of POST /v1/responses as a chat request. Raises InvalidRequest in the names of the caller's fields. Pure.

Every field is named here. Those that no chat request has words for are refused, so that nothing is dropped in silence: among
them all that would have to be kept, tools that run at OpenAI, and what no price of the catalog covers.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from completions.chat import ChatRequest, RequestBody
from completions.inbound import caller_errors
from completions.inbound.cache_marks import cache_control
from completions.inbound.responses import items, places
from completions.inbound.responses.items import Conversation
from completions.inbound.responses.places import ItemPlace
from completions.request import schema
from completions.request.fields import (
    Fields,
    check_array,
    check_kind,
    check_members,
    check_object,
    check_string,
    read_array,
    read_boolean,
    read_choice,
    read_integer,
    read_object,
    read_required,
    read_string,
    refuse,
)
from completions.request.messages import no_pause
from gateway_project import compact_json, errors

LOGPROBS, ENCRYPTED = "message.output_text.logprobs", "reasoning.encrypted_content"
SERVICE_TIERS = ("auto", "default")
SUMMARIES = ("auto", "concise", "detailed")
FORMATS = ("text", "json_object", "json_schema")
TOP_LOGPROBS_MAX = 20
REPEATED_BYTES_MAX = 65_536  # of one field
CACHE_RETENTIONS = ("in_memory", "24h")
_OWN_FIELDS = ("echo", "models", "provider")  # the gateway's, which OpenAI's API does not have
_COPIED = (
    *_OWN_FIELDS,
    *("model", "temperature", "top_p", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    "client_metadata",  # Codex's, about itself
)
_FIELDS = {
    *_COPIED,
    *("background", "cache_control", "conversation", "include", "input", "instructions", "max_output_tokens"),
    *("parallel_tool_calls", "previous_response_id", "reasoning", "service_tier", "store", "stream", "stream_options", "text"),
    *("tool_choice", "tools", "top_logprobs", "truncation"),
}
_KEPT = "is not supported: nothing is kept here; send the whole conversation as input"


def parse(
    body: Fields, raw: bytes | None = None, pause: Callable[[], None] = no_pause
) -> tuple[ChatRequest, list[ItemPlace], Fields]:
    """Return the chat request, where its messages come from, and the fields that the reply repeats."""
    fields, conversation = _translate(body, pause)
    try:
        body_of_chat = RequestBody(fields, raw, translate=lambda restored: _translate(restored, no_pause)[0])
        request = replace(schema.parse(body_of_chat, pause), max_tokens_name="max_output_tokens")
    except errors.InvalidRequest as error:
        raise caller_errors.renamed(error, lambda path: places.rename(path, conversation.places)) from None
    return request, conversation.places, _repeated(body)


def _translate(body: Fields, pause: Callable[[], None]) -> tuple[Fields, Conversation]:
    """Return the body of the chat request, and its conversation."""
    check_members(body, _FIELDS)
    _check_state(body)
    _check_service(body)
    conversation = items.translate(body, pause)
    fields: Fields = {name: body[name] for name in _COPIED if body.get(name) is not None}
    fields["messages"] = conversation.messages
    fields["stream"] = read_boolean(body, "stream")
    if (max_tokens := read_integer(body, "max_output_tokens", 1, schema.MAX_TOKENS_MAX)) is not None:
        fields["max_tokens"] = max_tokens
    fields |= {**_tools(body), **_reasoning(body), **_text(body), **_logprobs(body), **cache_control(body, "")}
    return fields, conversation


def _check_state(body: Fields) -> None:
    """Refuse what would need an earlier response, or would keep this one. ``store`` is true at OpenAI, and false here."""
    for name in ("previous_response_id", "conversation"):
        if body.get(name) is not None:
            refuse(name, _KEPT)
    if read_boolean(body, "store"):
        refuse("store", "must be false: responses are not kept here")
    if read_boolean(body, "background"):
        refuse("background", "must be false: responses are not kept here")


def _check_service(body: Fields) -> None:
    """Check what asks for no more than the gateway does anyway."""
    read_choice(body, "service_tier", SERVICE_TIERS)
    read_choice(body, "prompt_cache_retention", CACHE_RETENTIONS)
    read_object(body, "client_metadata")
    if body.get("truncation") not in (None, "disabled"):
        refuse("truncation", "must be disabled: nothing is taken out of the conversation")
    options = read_object(body, "stream_options")
    check_members(options, {"include_obfuscation"}, "stream_options")
    read_boolean(options, "include_obfuscation", "stream_options")


# --- Tools ------------------------------------------------------------------------------------------------------------


def _tools(body: Fields) -> Fields:
    """Return the tools and what is said of them. Without tools, to let the model choose says nothing."""
    given = read_array(body, "tools")
    tools = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(given)]
    is_parallel = body.get("parallel_tool_calls")
    choice = _tool_choice(body)
    read_boolean(body, "parallel_tool_calls")
    if not tools:
        return {} if choice in (None, "auto", "none") else {"tool_choice": choice}
    return {
        "tools": tools,
        **({} if choice is None else {"tool_choice": choice}),
        **({} if is_parallel is None else {"parallel_tool_calls": is_parallel}),
    }


def _tool(given: Any, path: str) -> Fields:
    tool = check_object(given, path)
    kind = tool.get("type")
    if kind == "function":
        check_members(tool, {"type", "name", "description", "parameters", "strict"}, path)
        read_boolean(tool, "strict", path)
        return {"type": kind, kind: _described(tool, path, ("parameters", "strict"))}
    if kind != "custom":
        refuse(f"{path}.type", "must be function or custom: other tools run at OpenAI, and not every model knows them")
    check_members(tool, {"type", "name", "description", "format"}, path)
    return {"type": kind, kind: {**_described(tool, path, ()), **_tool_format(tool, path)}}


def _described(tool: Fields, path: str, others: tuple[str, ...]) -> Fields:
    check_string(read_required(tool, "name", path), f"{path}.name")
    read_string(tool, "description", path)
    return {name: tool[name] for name in ("name", "description", *others) if tool.get(name) is not None}


def _tool_format(tool: Fields, path: str) -> Fields:
    """Return the format of a custom tool's input. Chat completions nest a grammar."""
    wanted, at = read_object(tool, "format", path), f"{path}.format"
    if not wanted:
        return {}
    if check_kind(wanted, at, ("text", "grammar")) == "text":
        check_members(wanted, {"type"}, at)
        return {"format": {"type": "text"}}
    check_members(wanted, {"type", "syntax", "definition"}, at)
    if wanted.get("syntax") not in ("lark", "regex"):
        refuse(f"{at}.syntax", "must be lark or regex")
    definition = check_string(read_required(wanted, "definition", at), f"{at}.definition")
    return {"format": {"type": "grammar", "grammar": {"syntax": wanted["syntax"], "definition": definition}}}


def _tool_choice(body: Fields) -> Any:
    """Return ``tool_choice`` in the words of chat. A string is checked with the rest."""
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return choice
    if check_kind(choice, "tool_choice", ("function", "custom", "allowed_tools")) != "allowed_tools":
        check_members(choice, {"type", "name"}, "tool_choice")
        return _chosen(choice, "tool_choice")
    check_members(choice, {"type", "mode", "tools"}, "tool_choice")
    if choice.get("mode") not in ("auto", "required"):
        refuse("tool_choice.mode", "must be auto or required")
    allowed = check_array(read_required(choice, "tools", "tool_choice"), "tool_choice.tools")
    tools = [_chosen(tool, f"tool_choice.tools[{index}]") for index, tool in enumerate(allowed)]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice["mode"], "tools": tools}}


def _chosen(given: Any, path: str) -> Fields:
    kind = check_kind(given, path, ("function", "custom"))
    check_members(given, {"type", "name"}, path)
    return {"type": kind, kind: {"name": check_string(read_required(given, "name", path), f"{path}.name")}}


# --- Reasoning and the format of the reply ----------------------------------------------------------------------------


def _reasoning(body: Fields) -> Fields:
    """Return how much the model is to reason. Models that show their reasoning do so whether or not a summary is asked for."""
    given = read_object(body, "reasoning")
    check_members(given, {"effort", "summary", "generate_summary", "context", "mode"}, "reasoning")
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
    given = read_object(body, "text")
    check_members(given, {"format", "verbosity"}, "text")
    verbosity = {} if given.get("verbosity") is None else {"verbosity": given["verbosity"]}
    wanted = read_object(given, "format", "text")
    if not wanted:
        return verbosity
    kind = check_kind(wanted, "text.format", FORMATS)
    if kind != "json_schema":
        check_members(wanted, {"type"}, "text.format")
        return {**verbosity, **({} if kind == "text" else {"response_format": {"type": kind}})}
    check_members(wanted, {"type", "name", "description", "schema", "strict"}, "text.format")
    check_object(read_required(wanted, "schema", "text.format"), "text.format.schema")
    read_string(wanted, "description", "text.format")
    read_boolean(wanted, "strict", "text.format")
    json_schema = {name: value for name, value in wanted.items() if name != "type" and value is not None}
    return {**verbosity, "response_format": {"type": kind, kind: json_schema}}


def _logprobs(body: Fields) -> Fields:
    """Return whether the reply is to have the probabilities of its tokens."""
    included = read_array(body, "include")
    for index, name in enumerate(included):
        if name not in (LOGPROBS, ENCRYPTED):
            refuse(f"include[{index}]", f"must be {LOGPROBS} or {ENCRYPTED}")
    top = read_integer(body, "top_logprobs", 0, TOP_LOGPROBS_MAX)
    if LOGPROBS not in included and not top:
        return {}
    return {"logprobs": True, **({} if top is None else {"top_logprobs": top})}


# --- What the reply repeats -------------------------------------------------------------------------------------------


def _repeated(body: Fields) -> Fields:
    """Return fields of the reply, as JSON: the body may be released before. A long one is null, so that it takes no memory."""
    reasoning, text = body.get("reasoning") or {}, body.get("text") or {}
    fields: Fields = {
        "background": False,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": body.get("metadata") or {},
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {name: reasoning.get(name) for name in ("effort", "summary")},
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": "default",
        "store": False,
        "temperature": body.get("temperature"),
        "text": {"format": {"type": "text"}, **{name: value for name, value in text.items() if value is not None}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_logprobs": body.get("top_logprobs") or 0,
        "top_p": body.get("top_p"),
        "truncation": "disabled",
        "user": body.get("user"),
    }
    written = {name: compact_json.dumps(value) for name, value in fields.items()}
    return {name: msgspec.Raw(value if len(value) <= REPEATED_BYTES_MAX else b"null") for name, value in written.items()}
