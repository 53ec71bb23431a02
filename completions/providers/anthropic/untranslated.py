"""Requests that are in the language of the Messages API already: they are sent as they came, and so are their replies. Pure.

``completions.inbound.messages`` has checked them field by field, so that they have nothing that no price covers. Only that is
changed which a model would refuse: of a conversation that another maker's model was in, or that was begun with a newer model.
"""

import re
from collections.abc import Iterator

from completions.chat import Call
from completions.providers import sealed_reasoning
from completions.providers.anthropic import messages
from completions.providers.anthropic.request import THINKING_TOKENS_MIN, Model, budget_tokens
from completions.request.fields import Fields
from completions.request.messages import as_reminder

_NOT_SENT = frozenset({"context_management", "echo", "models", "provider"})  # the gateway's own, and what asks for nothing
# The betas that change neither the price nor what is kept, beside those of the computer. Others do, such as a longer context
# window; the fields of some are refused or priced by themselves: ``context_management``, ``ttl``.
_PASSED_BETAS = frozenset(
    {
        "advanced-tool-use-2025-11-20",
        "claude-code-20250219",
        "context-management-2025-06-27",
        "effort-2025-11-24",
        "extended-cache-ttl-2025-04-11",
        "fine-grained-tool-streaming-2025-05-14",
        "interleaved-thinking-2025-05-14",
        "mid-conversation-system-2026-04-07",
        "output-128k-2025-02-19",
        "pdfs-2024-09-25",
        "prompt-caching-2024-07-31",
        "search-results-2025-06-09",
        "structured-outputs-2025-11-13",
        "structured-outputs-2025-12-15",
        "thinking-token-count-2026-05-13",
        "token-efficient-tools-2025-02-19",
    }
)
_COMPUTER_BETA = re.compile(r"computer-use-\d{4}-\d{2}-\d{2}")  # one for each version of the tool


def body(call: Call, given: Fields, *, stream: bool) -> Fields:
    """Return the body of POST /v1/messages: the caller's, with the model's name there and the tokens that the hold pays for."""
    replaced = ("thinking", "output_config")
    fields = {name: value for name, value in given.items() if value is not None and name not in (*_NOT_SENT, *replaced)}
    model = Model.named(call.route.upstream_model)
    fields |= {name: value for name, value in zip(replaced, _reasoning(call, given, model), strict=True) if value}
    fields["messages"] = list(_conversation(given["messages"], takes_system=model.takes_system_messages))
    return {**fields, "model": call.route.upstream_model, "max_tokens": call.max_tokens, "stream": stream}


def headers(call: Call) -> dict[str, str]:
    """Return the header with the betas that are passed on."""
    passed = [beta for beta in call.request.betas if _is_passed(beta)]
    return {"anthropic-beta": ",".join(passed)} if passed else {}


def _is_passed(beta: str) -> bool:
    return beta in _PASSED_BETAS or _COMPUTER_BETA.fullmatch(beta) is not None


def ignored_fields(call: Call, given: Fields) -> list[str]:
    """Return what is left out, the betas that are not passed on, and what only the gateway's own echo reads."""
    betas = [f"anthropic-beta.{beta}" for beta in call.request.betas if not _is_passed(beta)]
    thinking, config = _reasoning(call, given, Model.named(call.route.upstream_model))
    unthought = ["thinking"] if given.get("thinking") and not thinking else []
    has_effort = bool((given.get("output_config") or {}).get("effort"))
    unthought += ["output_config.effort"] if has_effort and not (config.get("effort") or thinking) else []
    unsigned = ["messages.thinking"] if call.request.has_unsigned_thinking else []
    unsigned += ["messages.reasoning_details"] if "reasoning_details" in call.request.contents.message_fields else []
    return [*unthought, *unsigned, *betas, *(name for name in ("echo",) if name in call.request.fields)]


# --- The conversation -----------------------------------------------------------------------------------------------


def _conversation(given: list[Fields], *, takes_system: bool) -> Iterator[Fields]:
    """Yield the messages with blocks that Anthropic takes. A message that has none of them is left out."""
    for message in given:
        content = message["content"]
        if message["role"] == "system" and not takes_system:
            texts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            yield {"role": "user", "content": [{**block, "text": as_reminder(block["text"])} for block in texts]}
        elif isinstance(content, str):
            yield message
        elif blocks := [_acceptable(block) for block in content if not _is_unsigned(block)]:
            yield {**message, "content": blocks}


def _is_unsigned(block: Fields) -> bool:
    """Return whether a block is thinking of another maker's model, which Anthropic refuses."""
    if block["type"] == "redacted_thinking":
        return sealed_reasoning.is_sealed(block.get("data"))
    return block["type"] == "thinking" and not block.get("signature")


def _acceptable(block: Fields) -> Fields:
    """Return a block with an id of a call that Anthropic takes."""
    name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(block["type"])
    if name is None or (tool_id := messages.tool_id(block[name])) == block[name]:
        return block
    return {**block, name: tool_id}


# --- Thinking -------------------------------------------------------------------------------------------------------


def _reasoning(call: Call, given: Fields, model: Model) -> tuple[Fields, Fields]:
    """Return ``thinking`` and ``output_config`` as the model takes them: with a budget, or adaptive and an effort.

    ``thinking`` is empty where the model would refuse any.
    """
    thinking, config = given.get("thinking") or {}, given.get("output_config") or {}
    effort = config.get("effort") or "high"  # Anthropic's default
    if not model.takes_effort:
        config = {name: value for name, value in config.items() if name != "effort"}
    match thinking.get("type"):
        case "enabled" if model.takes_effort and not model.may_take_budget:
            return {**_without_budget(thinking), "type": "adaptive"}, config
        case "enabled":
            return _budgeted(call, given, thinking, thinking["budget_tokens"]), config
        case "adaptive" if not model.takes_effort:
            budget = budget_tokens(effort, call.max_tokens)
            return _budgeted(call, given, thinking, budget) if model.takes_budget else {}, config
        case "disabled" if model.always_thinks:
            return {}, config
    return thinking, config


def _without_budget(thinking: Fields) -> Fields:
    return {name: value for name, value in thinking.items() if name != "budget_tokens"}


def _budgeted(call: Call, given: Fields, thinking: Fields, budget: int) -> Fields:
    """Return ``thinking`` with a budget that fits into ``max_tokens``; empty where Anthropic would refuse any budget."""
    budget = min(budget, call.max_tokens - 1)
    is_refused = budget < THINKING_TOKENS_MIN or _continues_unsigned(given["messages"])
    return {} if is_refused else {**thinking, "type": "enabled", "budget_tokens": budget}


def _continues_unsigned(given: list[Fields]) -> bool:
    """Return whether the model is to go on after a tool's result, in a turn that another maker's model began.

    With a budget, the turn would have to begin with signed thinking.
    """
    has_result = False
    for message in reversed(given):
        blocks = [] if isinstance(message["content"], str) else message["content"]
        if message["role"] == "assistant":
            if any(block["type"] in ("thinking", "redacted_thinking") and not _is_unsigned(block) for block in blocks):
                return False
        elif message["role"] == "user":
            if not any(block["type"] == "tool_result" for block in blocks):
                break
            has_result = True
    return has_result
