"""Builds the body of a Messages API request from a chat request, and refuses what that API cannot do. Pure.

``completions.request.schema`` has checked the types and the ranges of OpenAI's fields; ``check`` refuses, before any money is
held, the requests that are valid but have no counterpart at Anthropic.

Only the fields named here are sent. Others could cost what no price in the catalog covers: ``service_tier``, ``container``,
``mcp_servers``, tools that run at Anthropic.
"""

from functools import partial
from typing import Any

from completions.chat import Call, ChatRequest, ModelRules
from completions.providers import base, custom_tools, sealed_reasoning, wire
from completions.providers.anthropic import fallbacks, messages
from completions.providers.ignored_fields import HONOURED, find
from completions.providers.model_rules import PREFILL, nearest_effort
from completions.request.fields import Fields, check_object, refuse
from completions.request.messages import message_text
from completions.request.reasoning import THINKING_TOKENS_MIN

_THINKING_TOKENS_MAX = 32_000  # above this, Anthropic advises against replies that are not streamed
# reasoning_effort -> percent of ``max_tokens`` that may be spent on thinking, for models that take a budget.
_BUDGET_PERCENT = {"minimal": 10, "low": 20, "medium": 50, "high": 80, "xhigh": 95, "max": 95}
# These are sent to some models, or instead of one another. The others are always translated, or refused by ``check``.
_DEPEND_ON_MODEL = frozenset({"reasoning", "reasoning_effort", "temperature", "tool_choice", "top_p"})
_NAME_THE_USER = frozenset({"metadata", "safety_identifier", "user"})
_TRANSLATED_FIELDS = HONOURED | {
    *(*_DEPEND_ON_MODEL, *_NAME_THE_USER, "cache_control", "functions", "logprobs", "parallel_tool_calls"),
    *("response_format", "stop", "tools", "top_logprobs"),
}
_TRANSLATED_MESSAGE_FIELDS = frozenset({"cache_control", "function_call", "tool_call_id", "tool_calls"})
_SENT_IN_BLOCKS = frozenset({"cache_control"})
# Lets models that think with a budget think again after the result of a tool; newer ones do so by themselves.
_INTERLEAVED = "interleaved-thinking-2025-05-14"
_TOOL_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def check(request: ChatRequest) -> None:
    """Raise InvalidRequest for what the Messages API cannot do, or would do differently from what was asked."""
    # They would be missing from the reply. Seeds and penalties are dropped instead: the reply looks the same.
    base.refuse_unsupported(request, "logprobs", "functions")
    request = custom_tools.as_functions(request)
    _conversation(request)
    _output_format(request.fields)
    stop_sequences(request.fields)
    _tools(request.fields)


def body(call: Call, *, stream: bool) -> Fields:
    """Return the body of POST /v1/messages."""
    call = custom_tools.in_call(call)
    fields, rules = call.request.fields, call.route.rules
    tools = _tools(fields)
    thinking = _thinking(call, tools.get("tool_choice", {}))
    output_config = {**thinking.pop("output_config", {}), **_output_format(fields)}
    sent = {
        "model": call.route.upstream_model,
        "max_tokens": call.max_tokens,
        "stream": stream,
        **_conversation(call.request, partial(sealed_reasoning.opened, call)),
        **tools,
        **thinking,
        **({"output_config": output_config} if output_config else {}),
        **_sampling(fields, rules, is_thinking="thinking" in thinking),
        **stop_sequences(fields),
        **_user(fields),
        **messages.cache_control(fields),
    }
    return fallbacks.without_prefill(fallbacks.without_force(sent, rules), rules)


def headers(call: Call) -> dict[str, str]:
    fields, rules = call.request.fields, call.route.rules
    is_thinking = fields.get("reasoning_effort") not in (None, "none") and fields.get("tools")
    return {"anthropic-beta": _INTERLEAVED} if is_thinking and rules.budget_max and not rules.adaptive else {}


def ignored_fields(call: Call) -> list[str]:
    """Return the fields that ``body`` leaves out."""
    sent_in_messages = _TRANSLATED_MESSAGE_FIELDS | sealed_reasoning.carried_fields(call)
    fields = call.request.fields
    ignored = find(call.request, _TRANSLATED_FIELDS, sent_in_messages, _SENT_IN_BLOCKS) + loses_stops(fields)
    if not fields.keys().isdisjoint(_DEPEND_ON_MODEL):
        ignored += _ignored_by_model(call)
    given = call.request.messages
    if not call.route.rules.prefill and wire.last_speaker(given) == "assistant":
        ignored += [PREFILL] if fallbacks.is_prefilled(messages.conversation(given)) else []
    if not fields.keys().isdisjoint(_NAME_THE_USER):
        user_id = _user(fields).get("metadata", {}).get("user_id")
        ignored += [name for name in ("user", "safety_identifier") if fields.get(name) not in (None, user_id)]
        ignored += ["metadata"] if fields.get("metadata") and fields["metadata"] != {"user_id": user_id} else []
    return ignored


def switches_reasoning_off(call: Call) -> bool:
    """Return whether the model does not think: it is told not to, or thinks only when it is asked to."""
    rules = call.route.rules
    can_be_off = rules.thinking_off == "disabled" or (rules.thinking_off != "" and not call.request.fields.get("tools"))
    return call.request.reasoning.effort == "none" and (can_be_off or not rules.thinks_unasked)


def _ignored_by_model(call: Call) -> list[str]:
    fields, rules = call.request.fields, call.route.rules
    tool_choice = _tool_choice(fields) if fields.get("tools") else {}
    thinking = _thinking(call, tool_choice)
    sampling = _sampling(fields, rules, is_thinking="thinking" in thinking)
    ignored = [name for name in ("temperature", "top_p") if fields.get(name) not in (None, 1) and name not in sampling]
    ignored += ["tool_choice"] if fallbacks.is_forced(tool_choice) and not rules.forced_tools else []
    effort = call.request.reasoning.effort
    is_off = effort == "none" and (rules.thinking_off == "disabled" or not rules.thinks_unasked)
    is_heeded = effort is None or (is_off if effort == "none" else thinking)
    return ignored if is_heeded else [*ignored, call.request.reasoning.name]


def _conversation(request: ChatRequest, thoughts_of: sealed_reasoning.Open | None = None) -> Fields:
    system = messages.instructions(request.messages)
    return {**({"system": system} if system else {}), "messages": messages.conversation(request.messages, thoughts_of)}


# --- The format of the reply ------------------------------------------------------------------------------------


def _output_format(fields: Fields) -> Fields:
    """Return the JSON schema of the reply. JSON without a schema is refused: Anthropic has no mode that guarantees it."""
    wanted = fields.get("response_format") or {"type": "text"}
    if wanted["type"] == "text":
        return {}
    if wanted["type"] != "json_schema":
        refuse("response_format.type", "must be json_schema or text for this model")
    schema = check_object(wanted["json_schema"].get("schema"), "response_format.json_schema.schema")
    return {"format": {"type": "json_schema", "schema": schema}}


def stop_sequences(fields: Fields) -> Fields:
    """Return ``stop`` as an array. Anthropic refuses white space; without any stop a reply would run on, and cost more."""
    stop = fields.get("stop")
    if stop is None:
        return {}
    given = [stop] if isinstance(stop, str) else stop
    if given and not (sequences := [sequence for sequence in given if sequence.strip()]):
        refuse("stop", "must have more than white space in it for this model")
    return {"stop_sequences": sequences} if given else {}


def loses_stops(fields: Fields, name: str = "stop") -> list[str]:
    """Return the name of the field if some of its sequences are white space, which is not sent."""
    stop = fields.get(name)
    return [name] if isinstance(stop, list) and not all(sequence.strip() for sequence in stop) else []


# --- Tools ------------------------------------------------------------------------------------------------------


def _tools(fields: Fields) -> Fields:
    tools = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(fields.get("tools") or [])]
    if not tools:
        return {}
    choice = _tool_choice(fields)
    return {"tools": tools, **({"tool_choice": choice} if choice else {})}


def _tool(tool: Fields, path: str) -> Fields:
    if tool["type"] != "function":
        refuse(f"{path}.type", "must be function for this model")
    function = tool["function"]
    schema = wire.object_schema(function.get("parameters"))
    description = {"description": function["description"]} if function.get("description") else {}
    strict = {"strict": True} if function.get("strict") is True else {}
    mark = messages.cache_control(tool) or messages.cache_control(function)
    return {"name": function["name"], **description, "input_schema": schema, **strict, **mark}


def _tool_choice(fields: Fields) -> Fields:
    """Return ``tool_choice`` and ``parallel_tool_calls`` as one object; empty where both are the default."""
    choice = _chosen(fields.get("tool_choice"))
    if fields.get("parallel_tool_calls") is False and choice.get("type") != "none":
        return {"type": "auto", **choice, "disable_parallel_tool_use": True}
    return choice


def _chosen(choice: Any) -> Fields:
    if choice is None:
        return {}
    if isinstance(choice, str):
        return {"type": _TOOL_CHOICES[choice]}
    function = choice.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):  # schema leaves other types unchecked
        refuse("tool_choice", "must be auto, none, required or a function for this model")
    return {"type": "tool", "name": function["name"]}


# --- What depends on the model ----------------------------------------------------------------------------------


def _thinking(call: Call, tool_choice: Fields) -> Fields:
    """Return ``reasoning_effort`` as the fields that the model understands; empty where it cannot think."""
    effort, rules = call.request.reasoning.effort, call.route.rules
    if effort is None:
        return {}
    if effort == "none":
        if not rules.thinks_unasked:
            return {}
        off, lowest = rules.thinking_off, {"effort": rules.efforts[0]} if rules.efforts else {}
        return {"thinking": {"type": off}} if off else {"output_config": lowest}
    if fallbacks.is_forced(tool_choice) and rules.forced_tools and not rules.thinks_when_forced:
        return {}
    if rules.adaptive:
        level = nearest_effort(effort, rules)
        config = {"output_config": {"effort": level}} if level else {}
        return {"thinking": {"type": "adaptive", "display": "summarized"}, **config}
    budget = max(call.request.reasoning.budget_tokens or budget_tokens(effort, call.max_tokens), THINKING_TOKENS_MIN)
    if not rules.budget_max or budget >= call.max_tokens or _continues_without_thinking(call):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def budget_tokens(effort: str, max_tokens: int) -> int:
    share = max_tokens * _BUDGET_PERCENT[effort] // 100
    return min(max(share, THINKING_TOKENS_MIN), _THINKING_TOKENS_MAX)


def _continues_without_thinking(call: Call) -> bool:
    """Return whether a turn with a result lacks its signed thinking: with a budget, Anthropic refuses to continue it."""
    has_result = False
    for message in reversed(call.request.messages):
        if message["role"] == "tool":
            has_result = True
        elif message["role"] == "assistant":
            is_said = message.get("tool_calls") or message_text(message).strip()
            if sealed_reasoning.opened(call, message) or (is_said and not has_result):
                return False
        elif has_result and message["role"] not in wire.INSTRUCTION_ROLES:
            break
    return has_result


def _sampling(fields: Fields, rules: ModelRules, *, is_thinking: bool) -> Fields:
    """Return temperature or top_p, at most one: newer models refuse both together, and thinking excludes either."""
    temperature, top_p = fields.get("temperature"), fields.get("top_p")
    if is_thinking or rules.sampling == "none":
        return {}
    if temperature is not None:
        return {"temperature": min(temperature, 1)}
    return {} if top_p is None else {"top_p": top_p}


def _user(fields: Fields) -> Fields:
    """Return the id of the end user, by which Anthropic detects abuse. It takes nothing else of OpenAI's ``metadata``."""
    metadata = fields.get("metadata") or {}
    user_id = metadata.get("user_id") or fields.get("safety_identifier") or fields.get("user")
    return {"metadata": {"user_id": user_id}} if user_id else {}
