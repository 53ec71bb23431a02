"""A chat request in Anthropic's words. Pure; what it cannot say is refused before any money is held.

Only what is named here is sent. Everything else is left out, for some of it would cost what no price here covers:
``service_tier``, ``container``, ``mcp_servers``, tools that run at Anthropic.
"""

import re
from dataclasses import dataclass
from typing import Any

from completions.chat import Call, ChatRequest
from completions.providers.anthropic import messages
from gateway_project import errors

Fields = dict[str, Any]

_THINKING_TOKENS_MIN = 1_024  # Anthropic's
_THINKING_TOKENS_MAX = 32_000  # beyond it they advise against replies in one piece
# How much of the cap may be thought, in percent, for models that are told a budget.
_BUDGET_PERCENT = {"minimal": 10, "low": 20, "medium": 50, "high": 80, "xhigh": 95, "max": 95}
_EFFORTS = ("none", *_BUDGET_PERCENT)


def check(request: ChatRequest) -> None:
    """Raise InvalidRequest for what the Messages API cannot do, or would do otherwise than was asked."""
    fields = request.fields
    _check_reply_shape(fields)
    effort = fields.get("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        raise errors.wrong("reasoning_effort", f"must be one of {', '.join(_EFFORTS)} for this model")
    _conversation(request)
    _output_format(fields)
    _stop_sequences(fields)
    _tools(fields)


def body(call: Call, *, stream: bool) -> Fields:
    """The body of POST /v1/messages."""
    fields = call.request.fields
    conversation, tools, model = _conversation(call.request), _tools(fields), Model.named(call.route.upstream_model)
    thinking = _thinking(call, model, conversation, tools)
    output_config = {**thinking.pop("output_config", {}), **_output_format(fields)}
    return {
        "model": call.route.upstream_model,
        "max_tokens": call.max_tokens,
        "stream": stream,
        **conversation,
        **tools,
        **thinking,
        **({"output_config": output_config} if output_config else {}),
        **_sampling(fields, model, is_thinking="thinking" in thinking),
        **_stop_sequences(fields),
        **_user(fields),
        **messages.cache_control(fields),
    }


def _conversation(request: ChatRequest) -> Fields:
    system = messages.instructions(request.messages)
    return {**({"system": system} if system else {}), "messages": messages.conversation(request.messages)}


# --- What is refused --------------------------------------------------------------------------------------------


def _check_reply_shape(fields: Fields) -> None:
    """What the caller would look for in the reply in vain. Seeds and penalties are left out: the reply is one without."""
    if fields.get("n") not in (None, 1):
        raise errors.wrong("n", "must be 1 for this model")
    for name in ("logprobs", "top_logprobs", "audio", "functions"):
        if fields.get(name):
            raise errors.wrong(name, "is not supported by this model")
    if fields.get("modalities") not in (None, ["text"]):
        raise errors.wrong("modalities", 'must be ["text"] for this model')


def _output_format(fields: Fields) -> Fields:
    """A JSON schema. Without one there is no JSON mode, and prose where JSON was promised would be worse than a refusal."""
    wanted = fields.get("response_format")
    if wanted is None or (isinstance(wanted, dict) and wanted.get("type") == "text"):
        return {}
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        raise errors.wrong("response_format.type", "must be json_schema or text for this model")
    outer = wanted.get("json_schema")
    schema = outer.get("schema") if isinstance(outer, dict) else None
    if not isinstance(schema, dict):
        raise errors.wrong("response_format.json_schema.schema", "must be an object")
    return {"format": {"type": "json_schema", "schema": schema}}


def _stop_sequences(fields: Fields) -> Fields:
    """White space alone is refused by Anthropic; to leave it out would let the reply run on, at the caller's cost."""
    stop = fields.get("stop")
    if stop is None:
        return {}
    sequences = [stop] if isinstance(stop, str) else stop
    if not isinstance(sequences, list) or not all(isinstance(sequence, str) for sequence in sequences):
        raise errors.wrong("stop", "must be a string or an array of strings")
    if not all(sequence.strip() for sequence in sequences):
        raise errors.wrong("stop", "must have more than white space in it for this model")
    return {"stop_sequences": sequences} if sequences else {}


# --- Tools ------------------------------------------------------------------------------------------------------


def _tools(fields: Fields) -> Fields:
    given = fields.get("tools")
    if given is not None and not isinstance(given, list):
        raise errors.wrong("tools", "must be an array")
    tools = [_tool(tool, f"tools[{index}]") for index, tool in enumerate(given or [])]
    choice = _tool_choice(fields, has_tools=bool(tools))
    return {**({"tools": tools} if tools else {}), **({"tool_choice": choice} if choice else {})}


def _tool(tool: Any, path: str) -> Fields:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise errors.wrong(f"{path}.type", "must be function for this model")
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise errors.wrong(f"{path}.function.name", "is required")
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    described = {"description": function["description"]} if function.get("description") else {}
    strict = {"strict": True} if function.get("strict") is True else {}
    return {"name": function["name"], **described, "input_schema": schema, **strict, **messages.cache_control(tool)}


_CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def _tool_choice(fields: Fields, *, has_tools: bool) -> Fields:
    """OpenAI's choice in Anthropic's words; nothing for what goes without saying."""
    choice = fields.get("tool_choice")
    if not has_tools and choice not in (None, "auto", "none"):
        raise errors.wrong("tool_choice", "is only allowed with tools")
    if not has_tools:
        return {}
    chosen = _chosen(choice)
    if fields.get("parallel_tool_calls") is False and chosen.get("type") != "none":
        return {"type": "auto", **chosen, "disable_parallel_tool_use": True}
    return chosen


def _chosen(choice: Any) -> Fields:
    if choice is None:
        return {}
    if isinstance(choice, str) and choice in _CHOICES:
        return {"type": _CHOICES[choice]}
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise errors.wrong("tool_choice", "must be auto, none, required or a function for this model")
    return {"type": "tool", "name": function["name"]}


# --- What depends on the model ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Model:
    """A model's generation, which decides how it is told to think and whether it may be told how to choose its words.

    A name without a generation is taken for the newest: what they no longer take is left out.
    """

    family: str
    version: tuple[int, int]

    @classmethod
    def named(cls, upstream_model: str) -> "Model":
        found = re.search(r"claude-(?:([a-z]+)-)?(\d+)(?:[-.](\d{1,2})(?!\d))?", upstream_model)
        return cls(found[1] or "", (int(found[2]), int(found[3] or 0))) if found else cls("", (99, 0))

    @property
    def takes_budget(self) -> bool:
        """Thinking by a budget of tokens: 400 since 4.7, and advised against in 4.6, where "adaptive" came."""
        return (3, 7) <= self.version < (4, 6)

    @property
    def takes_effort(self) -> bool:
        return self.version >= (4, 6)

    @property
    def takes_sampling(self) -> bool:
        """``temperature`` and the like: 400 since 4.7."""
        return self.version < (4, 7)

    @property
    def thinks_when_forced(self) -> bool:
        """Older ones: 400, "Thinking may not be enabled when tool_choice forces tool use"."""
        return self.version >= (4, 8)

    @property
    def thinks_unless_told_not_to(self) -> bool:
        """Since 5. Fable and Mythos cannot be told; of an unknown name nobody knows whether it can."""
        return (5, 0) <= self.version < (99, 0) and self.family not in ("fable", "mythos")


def _thinking(call: Call, model: Model, conversation: Fields, tools: Fields) -> Fields:
    """``reasoning_effort`` in the words that the model understands; nothing where it could not be had."""
    effort = call.request.fields.get("reasoning_effort")
    if effort is None:
        return {}
    if effort == "none":
        return {"thinking": {"type": "disabled"}} if model.thinks_unless_told_not_to else {}
    is_forced = tools.get("tool_choice", {}).get("type") in ("any", "tool")
    if is_forced and not model.thinks_when_forced:
        return {}
    if model.takes_effort:
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": _effort(effort, model)}}
    budget = _budget_tokens(effort, call.max_tokens)
    if not model.takes_budget or budget >= call.max_tokens or _awaits_tools(conversation):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _effort(effort: str, model: Model) -> str:
    if effort == "xhigh" and model.version < (4, 7):
        return "high"
    return "low" if effort == "minimal" else effort


def _budget_tokens(effort: str, max_tokens: int) -> int:
    share = max_tokens * _BUDGET_PERCENT[effort] // 100
    return min(max(share, _THINKING_TOKENS_MIN), _THINKING_TOKENS_MAX)


def _awaits_tools(conversation: Fields) -> bool:
    """Whether it goes on after a tool's result. With a budget, the thoughts before the call would have to be sent back, signed;
    OpenAI's messages have no place for them."""
    return any(block["type"] == "tool_result" for block in conversation["messages"][-1]["content"])


def _sampling(fields: Fields, model: Model, *, is_thinking: bool) -> Fields:
    """At most one of the two: newer models refuse both together, and neither goes with thinking."""
    temperature, top_p = fields.get("temperature"), fields.get("top_p")
    if is_thinking or not model.takes_sampling:
        return {}
    if temperature is not None:
        return {"temperature": min(temperature, 1)}
    return {} if top_p is None else {"top_p": top_p}


def _user(fields: Fields) -> Fields:
    """Who asks, for Anthropic's watch against abuse. Of OpenAI's ``metadata`` it takes nothing else."""
    metadata = fields.get("metadata")
    known = metadata.get("user_id") if isinstance(metadata, dict) else None
    user_id = known or fields.get("safety_identifier") or fields.get("user")
    return {"metadata": {"user_id": user_id}} if user_id and isinstance(user_id, str) else {}
