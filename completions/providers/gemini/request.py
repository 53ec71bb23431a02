"""Builds the body of a generateContent request from a chat request, and refuses what Gemini cannot do. Pure.

``completions.request.schema`` has checked the types and the ranges of OpenAI's fields; ``check`` refuses, before any money is
held, the requests that are valid but have no counterpart at Gemini.

Only the fields named here are sent. Others could cost what no price in the catalog covers: cached contents, searches, code that
runs at Google.
"""

from functools import partial
from typing import Any

from completions import estimates
from completions.chat import NO_RULES, Call, ChatRequest, ModelRules, Reasoning
from completions.providers import base, custom_tools, sealed_reasoning, wire
from completions.providers.gemini import json_schema, messages
from completions.providers.gemini.schema import Schemas
from completions.providers.ignored_fields import HONOURED, find
from completions.providers.model_rules import CONTINUE, PREFILL, nearest_effort
from completions.request.fields import Fields, check_object, read_integer, refuse

_EXPANSION_BYTES_MAX = 262_144  # to expand more definitions would hold up the other requests of the worker
_STOP_SEQUENCES_MAX = 5  # Gemini's
_TOP_K_MAX = 2**31 - 1
# reasoning_effort -> thinking budget, as at Google's OpenAI-compatible endpoint: ai.google.dev/gemini-api/docs/openai
_BUDGETS_TOKENS = {
    **{"none": 0, "minimal": 1_024, "low": 1_024, "medium": 8_192},
    **dict.fromkeys(("high", "xhigh", "max"), 24_576),
}
# OpenAI's name -> Gemini's.
_SAMPLING_FIELDS = {
    **{"temperature": "temperature", "top_p": "topP"},
    **{"frequency_penalty": "frequencyPenalty", "presence_penalty": "presencePenalty"},
}
# Fields that ``body`` translates or ``check`` refuses; Gemini may always call several tools at once.
_TRANSLATED_FIELDS = HONOURED | {
    *(*_SAMPLING_FIELDS, "functions", "logprobs", "parallel_tool_calls", "reasoning_effort", "response_format", "seed"),
    *("stop", "tool_choice", "tools", "top_k", "top_logprobs"),
}
_TRANSLATED_MESSAGE_FIELDS = frozenset({"function_call", "tool_call_id", "tool_calls"})
_WITH_SCHEMAS = frozenset({"tools", "response_format"})
_REFUSED_WITH = {"sampling": ("temperature", "top_p", "top_k"), "penalties": ("frequency_penalty", "presence_penalty")}
_DEFAULTS = {"temperature": 1, "frequency_penalty": 0, "presence_penalty": 0}
_TOOL_CHOICE_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


def check(request: ChatRequest) -> None:
    """Raise InvalidRequest for what Gemini cannot do, or would do differently from what was asked."""
    base.refuse_unsupported(request, "functions")
    _translate(custom_tools.as_functions(request), NO_RULES, max_tokens=1)


def body(call: Call, *, stream: bool) -> Fields:
    """Return the body of generateContent and of streamGenerateContent, which is the same: the address asks for a stream."""
    signatures_of = partial(sealed_reasoning.opened, call)
    return _translate(custom_tools.as_functions(call.request), call.route.rules, call.max_tokens, signatures_of)


def ignored_fields(call: Call) -> list[str]:
    """Return the fields that ``body`` leaves out."""
    sent_in_messages = _TRANSLATED_MESSAGE_FIELDS | sealed_reasoning.carried_fields(call)
    fields, rules = call.request.fields, call.route.rules
    ignored = find(call.request, _TRANSLATED_FIELDS, sent_in_messages)
    ignored += ["parallel_tool_calls"] if fields.get("parallel_tool_calls") is False else []
    if not _WITH_SCHEMAS.isdisjoint(fields):
        ignored += _lost_keywords(call)
    ignored += [name for name in _refused(fields, rules) if fields[name] != _DEFAULTS.get(name)]
    if not rules.prefill and wire.last_speaker(call.request.messages) == "assistant":
        ignored += [PREFILL] if _is_prefilled(messages.conversation(call.request.messages, signs_calls=False)) else []
    effort = call.request.reasoning.effort
    can_think = effort is None or rules.efforts or rules.budget_max
    is_heeded = can_think if effort != "none" else rules.thinking_off == "disabled" or not rules.thinks_unasked
    return ignored if is_heeded else [*ignored, call.request.reasoning.name]


def _lost_keywords(call: Call) -> list[str]:
    """Return the keywords that a schema has, and Gemini is not sent everywhere."""
    schemas = _schemas(call.request, call.route.rules)
    functions = (tool["function"] for tool in call.request.fields.get("tools") or () if tool["type"] == "function")
    wanted = (call.request.fields.get("response_format") or {}).get("json_schema") or {}
    found = [("tools.function.parameters", function.get("parameters")) for function in functions]
    for path, schema in [*found, ("response_format.json_schema.schema", wanted.get("schema"))]:
        if schema and json_schema.is_recursive(schema):
            schemas.translate(schema, path)
    return list(schemas.lost)


def switches_reasoning_off(call: Call) -> bool:
    """Return whether the model does not think: it takes a budget of 0, or thinks only when it is asked to."""
    rules = call.route.rules
    return call.request.reasoning.effort == "none" and (rules.thinking_off == "disabled" or not rules.thinks_unasked)


def _translate(
    request: ChatRequest, rules: ModelRules, max_tokens: int, signatures_of: sealed_reasoning.Open | None = None
) -> Fields:
    instructions = messages.instructions(request.messages)
    # Since Gemini 3, which has levels of thinking, calls have signatures.
    contents = messages.conversation(
        request.messages, signs_calls=bool(rules.efforts), takes_ids=rules.call_ids, signatures_of=signatures_of
    )
    if not rules.prefill and _is_prefilled(contents):
        contents.append({"role": "user", "parts": [{"text": CONTINUE}]})
    schemas, has_logprobs = _schemas(request, rules), bool(request.fields.get("logprobs"))
    return {
        **({"systemInstruction": {"parts": instructions}} if instructions else {}),
        "contents": contents,
        **_tools(request.fields, schemas),
        "generationConfig": {
            "maxOutputTokens": max_tokens,
            **_sampling(request.fields, rules),
            **_stop_sequences(request.fields),
            **({"responseLogprobs": True} if has_logprobs else {}),
            **({"logprobs": request.fields["top_logprobs"]} if has_logprobs and request.fields.get("top_logprobs") else {}),
            **_response_format(request.fields, schemas),
            **_thinking(request.reasoning, rules),
        },
    }


def _schemas(request: ChatRequest, rules: ModelRules) -> Schemas:
    # The hold pays for one token per byte of the prompt, several times what it has. Repeated definitions may use the rest.
    bytes_left = min(request.prompt_tokens_max * (estimates.BYTES_PER_TOKEN - 1), _EXPANSION_BYTES_MAX)
    return Schemas(bytes_left, takes_json=rules.json_schemas)


def _is_prefilled(contents: list[Fields]) -> bool:
    return bool(contents) and contents[-1]["role"] == "model" and "text" in contents[-1]["parts"][-1]


def _refused(fields: Fields, rules: ModelRules) -> list[str]:
    refused = _REFUSED_WITH["sampling"] if rules.sampling == "none" else ()
    refused += () if rules.penalties else _REFUSED_WITH["penalties"]
    return [name for name in refused if fields.get(name) is not None]


def _sampling(given: Fields, rules: ModelRules) -> Fields:
    refused = _refused(given, rules)
    fields = {name: value for name, value in given.items() if name not in refused} if refused else given
    sampling: Fields = {theirs: fields[ours] for ours, theirs in _SAMPLING_FIELDS.items() if fields.get(ours) is not None}
    if (top_k := read_integer(fields, "top_k", 1, _TOP_K_MAX)) is not None:  # not a field of OpenAI's: schema does not check it
        sampling["topK"] = top_k
    if (seed := fields.get("seed")) is not None:
        sampling["seed"] = seed % 2**31  # Gemini's seed has 32 bits, signed; equal seeds stay equal
    return sampling


def _stop_sequences(fields: Fields) -> Fields:
    stop = fields.get("stop")
    if stop is None:
        return {}
    sequences = [stop] if isinstance(stop, str) else stop
    if not all(sequences):
        refuse("stop", "must be a string or an array of strings, none of them empty")
    if len(sequences) > _STOP_SEQUENCES_MAX:
        refuse("stop", f"must have at most {_STOP_SEQUENCES_MAX} items for this model")
    return {"stopSequences": sequences} if sequences else {}


def _response_format(fields: Fields, schemas: Schemas) -> Fields:
    wanted = fields.get("response_format") or {"type": "text"}
    if wanted["type"] == "text":
        return {}
    if wanted["type"] == "json_object":
        return {"responseMimeType": "application/json"}
    path = "response_format.json_schema.schema"
    schema, is_json = schemas.translate(check_object(wanted["json_schema"].get("schema"), path), path)
    return {"responseMimeType": "application/json", "responseJsonSchema" if is_json else "responseSchema": schema}


def _thinking(reasoning: Reasoning, rules: ModelRules) -> Fields:
    """Return a level or a budget of thinking; none without an effort. Where it cannot be off, it is as low as it can be."""
    effort = reasoning.effort
    if effort is None:
        return {}
    config: Fields = {"includeThoughts": effort != "none"}
    if level := nearest_effort(effort, rules):
        return {"thinkingConfig": {**config, "thinkingLevel": level}}
    if not rules.budget_max:
        return {}
    wanted = reasoning.budget_tokens or _BUDGETS_TOKENS[effort]
    budget = 0 if effort == "none" and rules.thinking_off else max(rules.budget_min, min(wanted, rules.budget_max))
    return {"thinkingConfig": {**config, "thinkingBudget": budget}}


def _tools(fields: Fields, schemas: Schemas) -> Fields:
    declarations = [_declaration(tool, f"tools[{index}]", schemas) for index, tool in enumerate(fields.get("tools") or [])]
    if not declarations:
        return {}
    choice = _tool_choice(fields.get("tool_choice"))
    tools: Fields = {"tools": [{"functionDeclarations": declarations}]}
    return {**tools, "toolConfig": {"functionCallingConfig": choice}} if choice else tools


def _declaration(tool: Fields, path: str, schemas: Schemas) -> Fields:
    if tool["type"] != "function":
        refuse(f"{path}.type", "must be function for this model")
    function, path = tool["function"], f"{path}.function"
    declaration: Fields = {"name": function["name"]}
    if function.get("description"):
        declaration["description"] = function["description"]
    if function.get("parameters"):
        parameters, is_json = schemas.translate(function["parameters"], f"{path}.parameters")
        if "properties" in parameters or "anyOf" in parameters:  # Gemini refuses an object without properties
            declaration["parametersJsonSchema" if is_json else "parameters"] = parameters
    return declaration


def _tool_choice(choice: Any) -> Fields:
    if choice is None:
        return {}
    if isinstance(choice, str):
        return {"mode": _TOOL_CHOICE_MODES[choice]}
    if choice.get("type") != "function":
        refuse("tool_choice.type", "must be function for this model")
    return {"mode": "ANY", "allowedFunctionNames": [choice["function"]["name"]]}
