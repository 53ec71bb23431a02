"""Builds the body of a request to OpenAI's Responses from a chat request, and refuses what this API cannot do. Pure.

Only the fields named here are sent. Others could cost what no price in the catalog covers: tools and prompts that are kept at
OpenAI, and what it would store.
"""

from functools import partial
from typing import Any

from completions import estimates
from completions.chat import Call, ChatRequest
from completions.providers import base, sealed_reasoning, wire
from completions.providers.ignored_fields import HONOURED, find
from completions.providers.model_rules import nearest_effort
from completions.providers.openai import request as openai_request
from completions.providers.openai.responses import items
from completions.request import fields
from completions.request.fields import Fields

_ENCRYPTED, _LOGPROBS = "reasoning.encrypted_content", "message.output_text.logprobs"
_SOURCES = "web_search_call.action.sources"
_COPIED = (
    *("moderation", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
    *("safety_identifier", "temperature", "top_logprobs", "top_p", "user"),
)
_DEFAULTS = {"temperature": 1, "top_p": 1}  # models that reason refuse these fields, whatever their value
# What ``body`` translates or ``check`` refuses.
_TRANSLATED_FIELDS = HONOURED | {
    *_COPIED,
    *("functions", "logprobs", "reasoning_effort", "reasoning_summary", "response_format", "stop", "store"),
    *("tool_choice", "tools", "verbosity"),
}
_TRANSLATED_MESSAGE_FIELDS = frozenset({"function_call", "phase", "refusal", "tool_call_id", "tool_calls"})
_SUMMARIES = ("concise", "detailed")
_SCHEMA_MEMBERS = ("name", "description", "schema", "strict")
_CHOSEN = ("function", "custom")
_SENT_IN_BLOCKS = frozenset({"title"})  # as the name of a file


def check(request: ChatRequest) -> None:
    """Raise InvalidRequest for what this API cannot do, or would do differently from what was asked."""
    base.refuse_unsupported(request, "functions", "stop")
    items.translate(request.messages)
    _tools(request.fields)


def body(call: Call, *, stream: bool) -> Fields:
    """Return the body of POST /responses. Tokens of a raised maximum beyond the hold are not charged."""
    request = call.request
    fields = {name: value for name, value in request.fields.items() if value is not None}
    fields = openai_request.within_rules(fields, call)
    return {
        **{name: fields[name] for name in _COPIED if name in fields and fields[name] != _DEFAULTS.get(name)},
        "model": call.route.upstream_model,
        "input": items.translate(request.messages, partial(sealed_reasoning.opened, call)),
        "max_output_tokens": max(call.max_tokens, estimates.LEAST_TOKENS),
        "store": False,
        "stream": stream,
        **_with_search(_tools(fields), request),
        **_reasoning(call),
        **_text(fields),
        **_include(call),
        **openai_request.service_tier(call),
        # Padding is not passed on: where the server can, it leaves it out.
        **({"stream_options": {"include_obfuscation": False}} if stream and openai_request.pads_streams(call.route) else {}),
    }


def ignored_fields(call: Call) -> list[str]:
    """Return the fields that ``body`` leaves out. That nothing is stored is what ``store`` may ask for."""
    sent_in_messages = _TRANSLATED_MESSAGE_FIELDS | sealed_reasoning.carried_fields(call)
    sent = _TRANSLATED_FIELDS | openai_request.service_tier(call).keys()
    ignored = find(call.request, sent, sent_in_messages, _SENT_IN_BLOCKS)
    ignored += [name for name in openai_request.refused_fields(call) if name not in ignored]
    return [*ignored, "store"] if call.request.fields.get("store") else ignored


def _reasoning(call: Call) -> Fields:
    """Return how much the model is to reason. Where it is told, it is asked for a summary of it, which the reply may show."""
    asked = call.request.reasoning
    level = nearest_effort(asked.effort, call.route.rules) if asked.effort else None
    if level is None:
        return {}
    shows = asked.effort != "none" and not asked.is_excluded
    length = call.request.fields.get("reasoning_summary")
    summary = {"summary": length if length in _SUMMARIES else "auto"} if shows else {}
    return {"reasoning": {"effort": level, **summary}}


def _include(call: Call) -> Fields:
    """Return what the reply is to have beside the text. OpenAI refuses to encrypt the reasoning of a model that has none."""
    effort = call.request.reasoning.effort
    reasons = call.offer.reasoning or (call.offer.reasoning is None and effort not in (None, "none"))
    wanted = [*([_ENCRYPTED] if reasons else []), *([_LOGPROBS] if call.request.fields.get("logprobs") else [])]
    wanted += [_SOURCES] if call.request.web_search else []
    return {"include": wanted} if wanted else {}


def _text(fields: Fields) -> Fields:
    wanted = fields.get("response_format") or {}
    kind = wanted.get("type", "text")
    given = wanted.get(kind) or {} if kind == "json_schema" else {}
    members = {name: given[name] for name in _SCHEMA_MEMBERS if given.get(name) is not None}
    form = {} if kind == "text" else {"format": {"type": kind, **members}}
    verbosity = {"verbosity": fields["verbosity"]} if "verbosity" in fields else {}
    return {"text": {**form, **verbosity}} if form or verbosity else {}


# --- Tools ------------------------------------------------------------------------------------------------------
#
# ``completions.request.schema`` has checked functions. Custom tools, and the choice of several, are checked here.


def _tools(fields: Fields) -> Fields:
    tools = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(fields.get("tools") or [])]
    if not tools:
        return {}
    choice = fields.get("tool_choice")
    return {"tools": tools, **({} if choice is None else {"tool_choice": _tool_choice(choice)})}


def _with_search(tools: Fields, request: ChatRequest) -> Fields:
    if request.web_search is None:
        return tools
    return {**tools, "tools": [*tools.get("tools", []), request.web_search], "max_tool_calls": request.web_searches_max}


def _tool(tool: Fields, path: str) -> Fields:
    """Return a tool with its members beside its type. A function is strict here unless it says that it is not."""
    kind = tool["type"]
    path = f"{path}.{kind}"
    given = fields.check_object(tool.get(kind), path)
    name, description = fields.check_name(given.get("name"), f"{path}.name"), fields.read_string(given, "description", path)
    named = {"type": kind, "name": name, **({"description": description} if description else {})}
    if kind == "function":
        parameters = wire.object_schema(given.get("parameters"))
        return {**named, "parameters": parameters, "strict": given.get("strict") is True}
    wanted = fields.read_object(given, "format", path)
    if wanted.get("type") != "grammar":
        return named
    grammar = fields.check_object(wanted.get("grammar"), f"{path}.format.grammar")
    return {**named, "format": {"type": "grammar", **{each: grammar.get(each) for each in ("syntax", "definition")}}}


def _tool_choice(choice: Any) -> Any:
    if isinstance(choice, str):
        return choice
    if choice.get("type") != "allowed_tools":
        return _chosen(choice, "tool_choice", (*_CHOSEN, "allowed_tools"))
    path = "tool_choice.allowed_tools"
    allowed = fields.check_object(choice.get("allowed_tools"), path)
    tools = [
        _chosen(tool, f"{path}.tools[{index}]", _CHOSEN)
        for index, tool in enumerate(fields.check_array(allowed.get("tools"), f"{path}.tools"))
    ]
    mode = fields.read_choice(allowed, "mode", ("auto", "required"), path) or "auto"
    return {"type": "allowed_tools", "mode": mode, "tools": tools}


def _chosen(choice: Any, path: str, kinds: tuple[str, ...]) -> Fields:
    kind = fields.check_kind(choice, path, kinds)
    chosen = fields.check_object(choice.get(kind), f"{path}.{kind}")
    return {"type": kind, "name": fields.check_name(chosen.get("name"), f"{path}.{kind}.name")}
