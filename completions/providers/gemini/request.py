"""A chat request in Gemini's words. Pure; what it cannot say is refused before any money is held.

Only what is named here is sent. Everything else is left out, for some of it would cost what no price here covers: cached
contents, searches, code that runs at Google.
"""

import re
from typing import Any

from completions.chat import Call, ChatRequest
from completions.pricing import cost
from completions.providers.gemini import fields as gemini_fields
from completions.providers.gemini import messages
from completions.providers.gemini import schema as gemini_schema
from completions.providers.gemini.fields import Fields
from completions.providers.gemini.schema import ExpansionBudget
from gateway_project import errors

_EXPANSION_BYTES_MAX = 262_144  # for definitions written out: walking through more would hold up others
_STOP_SEQUENCES_MAX = 5  # Gemini's
_TOP_LOGPROBS_MAX = 20
# Google's own, of its OpenAI-compatible endpoint: ai.google.dev/gemini-api/docs/openai
_BUDGETS_TOKENS = {
    "none": 0,
    "minimal": 1_024,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
_NUMBERS = {
    "temperature": "temperature",
    "top_p": "topP",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}


def check(request: ChatRequest) -> None:
    """Raise InvalidRequest for what Gemini cannot do, or would do otherwise than was asked."""
    if request.choices > 1:
        raise errors.wrong("n", "must be 1 for this model")
    for name in ("functions", "audio"):
        if request.fields.get(name):
            raise errors.wrong(name, "is not supported by this model")
    if request.fields.get("modalities") not in (None, ["text"]):
        raise errors.wrong("modalities", 'must be ["text"] for this model')
    _translated(request, upstream_model="", max_tokens=1)


def body(call: Call) -> Fields:
    """The body of generateContent and of streamGenerateContent."""
    return _translated(call.request, call.route.upstream_model, call.max_tokens)


def _translated(request: ChatRequest, upstream_model: str, max_tokens: int) -> Fields:
    has_levels = _thinks_in_levels(upstream_model)
    instructions = messages.instructions(request.messages)
    contents = messages.conversation(request.messages, signs_calls=has_levels)
    if not contents:
        raise errors.wrong("messages", "must have a message with content that is not an instruction")
    # The hold pays for a token a byte, which is several times what there are: definitions may use that up where they repeat.
    budget = ExpansionBudget(min(request.body_bytes * (cost.BYTES_PER_TOKEN - 1), _EXPANSION_BYTES_MAX))
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
            **_thinking(request.fields, upstream_model, has_levels),
        },
    }


# --- How it is generated ----------------------------------------------------------------------------------------


def _sampling(fields: Fields) -> Fields:
    said: Fields = {}
    for name, theirs in _NUMBERS.items():
        if (value := fields.get(name)) is not None:
            if type(value) not in (int, float):
                raise errors.wrong(name, "must be a number")
            said[theirs] = value
    if (top_k := _integer(fields, "top_k", 1, 2**31 - 1)) is not None:
        said["topK"] = top_k
    if (seed := _integer(fields, "seed", -(2**63), 2**63 - 1)) is not None:
        said["seed"] = seed % 2**31  # theirs has 32 bits; the same seed is still the same
    return said


def _stop_sequences(fields: Fields) -> Fields:
    stop = fields.get("stop")
    if stop is None:
        return {}
    sequences = [stop] if isinstance(stop, str) else stop
    if not isinstance(sequences, list) or not all(isinstance(sequence, str) and sequence for sequence in sequences):
        raise errors.wrong("stop", "must be a string or an array of strings, none of them empty")
    if len(sequences) > _STOP_SEQUENCES_MAX:
        raise errors.wrong("stop", f"must have at most {_STOP_SEQUENCES_MAX} items for this model")
    return {"stopSequences": sequences} if sequences else {}


def _logprobs(fields: Fields) -> Fields:
    wanted, top = fields.get("logprobs"), _integer(fields, "top_logprobs", 0, _TOP_LOGPROBS_MAX)
    if wanted is not None and not isinstance(wanted, bool):
        raise errors.wrong("logprobs", "must be true or false")
    if top and not wanted:
        raise errors.wrong("top_logprobs", "is only allowed when logprobs is true")
    return {**({"responseLogprobs": True} if wanted else {}), **({"logprobs": top} if top else {})}


def _response_format(fields: Fields, budget: ExpansionBudget) -> Fields:
    if fields.get("response_format") is None:
        return {}
    wanted = gemini_fields.table(fields, "response_format")
    kind = gemini_fields.one_of(wanted, "type", ("text", "json_object", "json_schema"), "response_format.")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"responseMimeType": "application/json"}
    path = "response_format.json_schema."
    schema = gemini_fields.table(gemini_fields.table(wanted, "json_schema", "response_format."), "schema", path)
    return {
        "responseMimeType": "application/json",
        "responseSchema": gemini_schema.translate(schema, f"{path}schema", budget),
    }


def _thinking(fields: Fields, upstream_model: str, has_levels: bool) -> Fields:
    """What the model thinks is shown to who says how much it shall think. Who says nothing may be asking one that cannot."""
    if fields.get("reasoning_effort") is None:
        return {}
    effort = gemini_fields.one_of(fields, "reasoning_effort", tuple(_BUDGETS_TOKENS))
    config: Fields = {"includeThoughts": effort != "none"}
    if has_levels:
        return {"thinkingConfig": {**config, "thinkingLevel": _level(effort, upstream_model)}}
    return {"thinkingConfig": {**config, "thinkingBudget": _BUDGETS_TOKENS[effort]}}


def _level(effort: str, upstream_model: str) -> str:
    """Thinking in levels cannot be turned off, and a Pro does not know the least of them."""
    if effort in ("none", "minimal"):
        return "low" if "pro" in upstream_model else "minimal"
    return "high" if effort in ("xhigh", "max") else effort


def _thinks_in_levels(upstream_model: str) -> bool:
    """Since Gemini 3. A name without a generation, such as gemini-flash-latest, is taken for the newest."""
    generation = re.search(r"gemini-(\d+)", upstream_model)
    return int(generation[1]) >= 3 if generation else upstream_model.startswith("gemini-")


# --- Tools ------------------------------------------------------------------------------------------------------


def _tools(fields: Fields, budget: ExpansionBudget) -> Fields:
    declarations = [_declaration(tool, path, budget) for path, tool in gemini_fields.tables(fields, "tools")]
    choice = _tool_choice(fields)
    if not declarations:
        if choice.get("mode") == "ANY":
            raise errors.wrong("tool_choice", "is only allowed with tools")
        return {}
    tools: Fields = {"tools": [{"functionDeclarations": declarations}]}
    return {**tools, "toolConfig": {"functionCallingConfig": choice}} if choice else tools


def _declaration(tool: Fields, path: str, budget: ExpansionBudget) -> Fields:
    gemini_fields.one_of(tool, "type", ("function",), path)
    function, path = gemini_fields.table(tool, "function", path), f"{path}function."
    declaration: Fields = {"name": gemini_fields.text(function, "name", path)}
    if function.get("description") is not None:
        declaration["description"] = gemini_fields.text(function, "description", path)
    if function.get("parameters"):
        parameters = gemini_schema.translate(gemini_fields.table(function, "parameters", path), f"{path}parameters", budget)
        if "properties" in parameters or "anyOf" in parameters:  # an object of nothing would be refused
            declaration["parameters"] = parameters
    return declaration


def _tool_choice(fields: Fields) -> Fields:
    choice = fields.get("tool_choice")
    if choice is None:
        return {}
    if isinstance(choice, dict):
        gemini_fields.one_of(choice, "type", ("function",), "tool_choice.")
        name = gemini_fields.text(gemini_fields.table(choice, "function", "tool_choice."), "name", "tool_choice.function.")
        return {"mode": "ANY", "allowedFunctionNames": [name]}
    modes = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
    return {"mode": modes[gemini_fields.one_of(fields, "tool_choice", tuple(modes))]}


def _integer(fields: Fields, name: str, minimum: int, maximum: int) -> int | None:
    value: Any = fields.get(name)
    if value is not None and (type(value) is not int or not minimum <= value <= maximum):
        raise errors.wrong(name, f"must be an integer from {minimum} to {maximum}")
    return value
