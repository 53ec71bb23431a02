"""Builds the body of a generateContent request from a chat request, and refuses what Gemini cannot do. Pure.

``completions.request.schema`` has checked the types and the ranges of OpenAI's fields; ``check`` refuses, before any money is
held, the requests that are valid but have no counterpart at Gemini.

Only the fields named here are sent. Others could cost what no price in the catalog covers: cached contents, searches, code that
runs at Google.
"""

import re
from functools import partial
from typing import Any

from completions.chat import Call, ChatRequest, Reasoning
from completions.pricing import cost
from completions.providers import base, sealed_reasoning
from completions.providers.gemini import messages
from completions.providers.gemini import schema as gemini_schema
from completions.providers.gemini.schema import ExpansionBudget
from completions.providers.ignored_fields import HONOURED, find
from completions.request.fields import Fields, check_object, check_string, read_integer, refuse

_EXPANSION_BYTES_MAX = 262_144  # to expand more definitions would hold up the other requests of the worker
_STOP_SEQUENCES_MAX = 5  # Gemini's
_TOP_K_MAX = 2**31 - 1
# reasoning_effort -> thinking budget, as at Google's OpenAI-compatible endpoint: ai.google.dev/gemini-api/docs/openai
_BUDGETS_TOKENS = {
    "none": 0,
    "minimal": 1_024,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
# OpenAI's name -> Gemini's.
_SAMPLING_FIELDS = {
    "temperature": "temperature",
    "top_p": "topP",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
# What ``body`` translates or ``check`` refuses; Gemini may always call several tools at once.
_TRANSLATED_FIELDS = HONOURED | {
    *_SAMPLING_FIELDS,
    "functions",
    "logprobs",
    "parallel_tool_calls",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
}
_TRANSLATED_MESSAGE_FIELDS = frozenset({"function_call", "tool_call_id", "tool_calls"})
_TOOL_CHOICE_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


def check(request: ChatRequest) -> None:
    """Raise InvalidRequest for what Gemini cannot do, or would do differently from what was asked."""
    base.refuse_unsupported(request, "functions")
    _translate(request, upstream_model="", max_tokens=1)


def body(call: Call, *, stream: bool) -> Fields:
    """Return the body of generateContent and of streamGenerateContent, which is the same: the address asks for a stream."""
    signatures_of = partial(sealed_reasoning.opened, call)
    return _translate(call.request, call.route.upstream_model, call.max_tokens, signatures_of)


def ignored_fields(call: Call) -> list[str]:
    """Return the fields that ``body`` leaves out."""
    sent_in_messages = _TRANSLATED_MESSAGE_FIELDS | sealed_reasoning.carried_fields(call)
    ignored = find(call.request, _TRANSLATED_FIELDS, sent_in_messages)
    return ignored if call.request.fields.get("parallel_tool_calls") is not False else [*ignored, "parallel_tool_calls"]


def switches_reasoning_off(call: Call) -> bool:
    """Return whether the model does not think. Gemini 3 has no level for that, and no Pro model takes a budget of 0."""
    model = call.route.upstream_model
    can_be_off = not _takes_thinking_levels(model) and "pro" not in model
    return can_be_off and call.request.reasoning.effort == "none"


def _translate(
    request: ChatRequest, upstream_model: str, max_tokens: int, signatures_of: messages.Signatures | None = None
) -> Fields:
    takes_levels = _takes_thinking_levels(upstream_model)
    instructions = messages.instructions(request.messages)
    contents = messages.conversation(request.messages, signs_calls=takes_levels, signatures_of=signatures_of)
    # The hold pays for one token per byte of the prompt, several times what it has. Repeated definitions may use the rest.
    budget = ExpansionBudget(min(request.prompt_tokens_max * (cost.BYTES_PER_TOKEN - 1), _EXPANSION_BYTES_MAX))
    return {
        **({"systemInstruction": {"parts": instructions}} if instructions else {}),
        "contents": contents,
        **_tools(request.fields, budget),
        "generationConfig": {
            "maxOutputTokens": max_tokens,
            **_sampling(request.fields),
            **_stop_sequences(request.fields),
            **_logprobs(request.fields),
            **_response_format(request.fields, budget),
            **_thinking(request.reasoning, upstream_model, takes_levels),
        },
    }


# --- Generation -------------------------------------------------------------------------------------------------


def _sampling(fields: Fields) -> Fields:
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


def _logprobs(fields: Fields) -> Fields:
    if not fields.get("logprobs"):
        return {}
    top = fields.get("top_logprobs")
    return {"responseLogprobs": True, **({"logprobs": top} if top else {})}


def _response_format(fields: Fields, budget: ExpansionBudget) -> Fields:
    wanted = fields.get("response_format") or {"type": "text"}
    if wanted["type"] == "text":
        return {}
    if wanted["type"] == "json_object":
        return {"responseMimeType": "application/json"}
    path = "response_format.json_schema.schema"
    schema = check_object(wanted["json_schema"].get("schema"), path)
    return {"responseMimeType": "application/json", "responseSchema": gemini_schema.translate(schema, path, budget)}


def _thinking(reasoning: Reasoning, upstream_model: str, takes_levels: bool) -> Fields:
    """Return the thinking config. Without an effort there is none: the model may be one that cannot think.

    Thoughts are included in the reply whenever thinking was asked for.
    """
    effort = reasoning.effort
    if effort is None:
        return {}
    config: Fields = {"includeThoughts": effort != "none"}
    if takes_levels:
        return {"thinkingConfig": {**config, "thinkingLevel": _level(effort, upstream_model)}}
    return {"thinkingConfig": {**config, "thinkingBudget": _budget_tokens(reasoning, effort)}}


def _budget_tokens(reasoning: Reasoning, effort: str) -> int:
    """Return the budget. Every model that takes one takes that of "max"."""
    return min(reasoning.budget_tokens or _BUDGETS_TOKENS[effort], _BUDGETS_TOKENS["max"])


def _level(effort: str, upstream_model: str) -> str:
    """Return the nearest level: "none" does not exist, and a Pro model does not have "minimal" either."""
    if effort in ("none", "minimal"):
        return "low" if "pro" in upstream_model else "minimal"
    return "high" if effort in ("xhigh", "max") else effort


def _takes_thinking_levels(upstream_model: str) -> bool:
    """Since Gemini 3. A name without a generation, such as gemini-flash-latest, counts as newer than that."""
    generation = re.search(r"gemini-(\d+)", upstream_model)
    return int(generation[1]) >= 3 if generation else upstream_model.startswith("gemini-")


# --- Tools ------------------------------------------------------------------------------------------------------


def _tools(fields: Fields, budget: ExpansionBudget) -> Fields:
    declarations = [_declaration(tool, f"tools[{index}]", budget) for index, tool in enumerate(fields.get("tools") or [])]
    if not declarations:
        return {}
    choice = _tool_choice(fields.get("tool_choice"))
    tools: Fields = {"tools": [{"functionDeclarations": declarations}]}
    return {**tools, "toolConfig": {"functionCallingConfig": choice}} if choice else tools


def _declaration(tool: Fields, path: str, budget: ExpansionBudget) -> Fields:
    if tool["type"] != "function":
        refuse(f"{path}.type", "must be function for this model")
    function, path = tool["function"], f"{path}.function"
    declaration: Fields = {"name": function["name"]}
    if function.get("description") is not None:  # schema does not check it
        declaration["description"] = check_string(function["description"], f"{path}.description")
    if function.get("parameters"):
        parameters = gemini_schema.translate(function["parameters"], f"{path}.parameters", budget)
        if "properties" in parameters or "anyOf" in parameters:  # Gemini refuses an object without properties
            declaration["parameters"] = parameters
    return declaration


def _tool_choice(choice: Any) -> Fields:
    if choice is None:
        return {}
    if isinstance(choice, str):
        return {"mode": _TOOL_CHOICE_MODES[choice]}
    if choice.get("type") != "function":
        refuse("tool_choice.type", "must be function for this model")
    return {"mode": "ANY", "allowedFunctionNames": [choice["function"]["name"]]}
