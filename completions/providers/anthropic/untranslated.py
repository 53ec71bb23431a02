"""Requests that are in the language of the Messages API already: they are sent as they came, and so are their replies. Pure.

``completions.inbound.messages`` has checked them field by field, so that they have nothing that no price covers. Only that is
changed which a model would refuse: of a conversation that another maker's model was in, or that was begun with a newer model.
"""

import re
from collections.abc import Iterator, Mapping

from completions.chat import Call, ModelRules
from completions.providers import call_ids, sealed_reasoning, wire
from completions.providers.anthropic import fallbacks, messages
from completions.providers.anthropic.request import budget_tokens, loses_stops, stop_sequences
from completions.providers.call_ids import OpenCalls
from completions.providers.model_rules import PREFILL, nearest_effort
from completions.request import media
from completions.request.fields import Fields
from completions.request.messages import as_reminder
from completions.request.reasoning import EFFORTS, THINKING_TOKENS_MIN

_NOT_SENT = frozenset({"context_management", "echo", "models", "provider"})  # the gateway's own, and what asks for nothing
# The betas that change neither the price nor what is kept, beside those of the computer. Others do, such as a longer context
# window; the fields of some are refused or priced by themselves: ``context_management``, ``ttl``.
_PASSED_BETAS = frozenset(
    (
        *("advanced-tool-use-2025-11-20", "claude-code-20250219", "context-management-2025-06-27", "effort-2025-11-24"),
        *("extended-cache-ttl-2025-04-11", "fine-grained-tool-streaming-2025-05-14", "interleaved-thinking-2025-05-14"),
        *("mid-conversation-system-2026-04-07", "output-128k-2025-02-19", "pdfs-2024-09-25", "prompt-caching-2024-07-31"),
        *("search-results-2025-06-09", "structured-outputs-2025-11-13", "structured-outputs-2025-12-15"),
        *("thinking-token-count-2026-05-13", "token-efficient-tools-2025-02-19"),
    )
)
_SEARCH_BETA = "web-search-2025-03-05"  # at Google's cloud (github.com/BerriAI/litellm/issues/16269); else it is no beta now
_OFF = ("disabled", "between_tools")
_DEFAULT_EFFORT = "high"  # Anthropic's
_THINKING_TOP_P_MIN = 0.95
_COMPUTER_BETA = re.compile(r"computer-use-\d{4}-\d{2}-\d{2}")  # one for each version of the tool


def body(call: Call, given: Fields, *, stream: bool) -> Fields:
    """Return the body of POST /v1/messages: the caller's, with the model's name there and the tokens that the hold pays for."""
    rules, replaced = call.route.rules, ("thinking", "output_config")
    *reasoning, _ = _reasoning(call, given, rules)
    left_out = {*_NOT_SENT, *replaced, *_refused_sampling(given, reasoning[0], rules)}
    fields = {name: value for name, value in given.items() if value is not None and name not in left_out}
    fields |= {name: value for name, value in zip(replaced, reasoning, strict=True) if value}
    fields["messages"] = list(_conversation(given["messages"], takes_system=rules.system_messages))
    if given.get("tools"):
        fields["tools"] = [_tool(tool) for tool in given["tools"]]
    if given.get("stop_sequences"):
        fields |= stop_sequences({"stop": given["stop_sequences"]})
    if isinstance(given.get("system"), list):
        fields["system"] = messages.without_blank(given["system"])
    fields = fallbacks.without_prefill(fallbacks.without_force(fields, rules), rules)
    return {**fields, "model": call.route.upstream_model, "max_tokens": call.max_tokens, "stream": stream}


def _tool(tool: Fields) -> Fields:
    tool = {name: value for name, value in tool.items() if value is not None}
    return {**tool, "input_schema": wire.object_schema(tool["input_schema"])} if "input_schema" in tool else tool


def headers(call: Call) -> dict[str, str]:
    known = call.route.target.betas
    passed = [name for beta in call.request.betas if (name := _passed(beta, known))]
    passed += [_SEARCH_BETA] if call.request.web_search_at and _SEARCH_BETA in (known or ()) else []
    return {"anthropic-beta": ",".join(dict.fromkeys(passed))} if passed else {}


def _passed(beta: str, known: Mapping[str, str] | None) -> str:
    """Return the name of a beta at the provider; "" of one that is not passed on. ``known``: see ``Target.betas``."""
    if _COMPUTER_BETA.fullmatch(beta):
        return beta
    if known is not None:
        return known.get(beta, "")
    return beta if beta in _PASSED_BETAS else ""


def ignored_fields(call: Call, given: Fields) -> list[str]:
    """Return what is left out, the betas that are not passed on, and what only the gateway's own echo reads."""
    betas = [f"anthropic-beta.{beta}" for beta in call.request.betas if not _passed(beta, call.route.target.betas)]
    rules = call.route.rules
    thinking, _, unheeded = _reasoning(call, given, rules)
    unheeded += [name for name in _refused_sampling(given, thinking, rules) if (name, given[name]) != ("temperature", 1)]
    unheeded += ["tool_choice"] if fallbacks.is_forced(given.get("tool_choice") or {}) and not rules.forced_tools else []
    if not rules.prefill and given["messages"][-1]["role"] == "assistant":
        sent = list(_conversation(given["messages"], takes_system=rules.system_messages))
        unheeded += [PREFILL] if fallbacks.is_prefilled(sent) else []
    unsigned = ["messages.thinking"] if call.request.has_unsigned_thinking else []
    unsigned += ["messages.reasoning_details"] if "reasoning_details" in call.request.contents.message_fields else []
    unsigned += loses_stops(given, "stop_sequences")
    return [*unheeded, *unsigned, *betas, *(name for name in ("echo",) if name in call.request.fields)]


def _conversation(given: list[Fields], *, takes_system: bool) -> Iterator[Fields]:
    """Yield the messages with blocks that Anthropic takes. A message that has none of them is left out."""
    calls = OpenCalls[str](call_ids.ANTHROPIC)
    for message in given:
        calls.begin_turn()
        content = message["content"]
        if message["role"] == "system" and not takes_system:
            texts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            yield {"role": "user", "content": [{**block, "text": as_reminder(block["text"])} for block in texts]}
        elif isinstance(content, str):
            if content.strip():
                yield message
        elif said := messages.without_blank([block for block in content if not _is_unsigned(block)]):
            yield {**message, "content": [_with_id(_with_media_type(block), calls) for block in said]}


def _is_unsigned(block: Fields) -> bool:
    """Return whether a block is thinking of another maker's model, which Anthropic refuses."""
    if block["type"] == "redacted_thinking":
        return sealed_reasoning.is_sealed(block.get("data"))
    return block["type"] == "thinking" and not block.get("signature")


def _with_id(block: Fields, calls: OpenCalls[str]) -> Fields:
    match block["type"]:
        case "tool_use":
            made = calls.make_id(block["id"])
            calls.add(block["id"], made)
            return block if made == block["id"] else {**block, "id": made}
        case "tool_result":
            answered = calls.answer(block["tool_use_id"]) or call_ids.ANTHROPIC.fit(block["tool_use_id"], 0)
            return block if answered == block["tool_use_id"] else {**block, "tool_use_id": answered}
    return block


def _with_media_type(block: Fields) -> Fields:
    """Return a block with the registered names of its media types, and of those in it."""
    source, content = block.get("source"), block.get("content")
    if isinstance(source, dict):
        return {**block, "source": _with_media_type(source)}
    if isinstance(content, list) and block["type"] != "web_search_tool_result":
        return {**block, "content": [_with_media_type(each) for each in messages.without_blank(content)]}
    return {**block, "media_type": media.media_type(block["media_type"])} if "media_type" in block else block


def _reasoning(call: Call, given: Fields, rules: ModelRules) -> tuple[Fields, Fields, list[str]]:
    """Return ``thinking`` and ``output_config`` as the model takes them, and the fields whose demand that does not meet."""
    asked, config = given.get("thinking") or {}, given.get("output_config") or {}
    thinking, unheeded = _thinking(call, given, asked, rules)
    effort = config.get("effort") or _implied_effort(call, asked, thinking, rules)
    level = nearest_effort(effort, rules) if effort else None
    if level and thinking.get("type") in _OFF and EFFORTS.index(level) > EFFORTS.index(rules.off_effort_max):
        level = rules.off_effort_max
    is_budget = asked.get("type") == "adaptive" and thinking.get("type") == "enabled"  # which spends about as much
    if config.get("effort") not in (None, level) and not is_budget:
        unheeded.append("output_config.effort")
    return thinking, {**config, "effort": level} if level else fallbacks.without(config, "effort"), unheeded


def _thinking(call: Call, given: Fields, asked: Fields, rules: ModelRules) -> tuple[Fields, list[str]]:
    """Return ``thinking`` as the model takes it: with a budget, or adaptive. Off is what is nearest to that."""
    kind = asked.get("type")
    if not kind or kind == rules.thinking_off:
        return asked, []
    if kind in _OFF:
        return {"type": rules.thinking_off} if rules.thinking_off else {}, ["thinking"]
    if fallbacks.is_forced(given.get("tool_choice") or {}) and rules.forced_tools and not rules.thinks_when_forced:
        return {}, ["thinking"]
    if kind == "adaptive" and rules.adaptive:
        return asked, []
    if rules.budget_max:
        effort = (given.get("output_config") or {}).get("effort") or _DEFAULT_EFFORT
        budget = asked["budget_tokens"] if kind == "enabled" else budget_tokens(effort, call.max_tokens)
        budget = min(budget, call.max_tokens - 1)
        if budget < THINKING_TOKENS_MIN or _continues_unsigned(given["messages"]):  # Anthropic would refuse any budget
            return {}, ["thinking"]
        return {**asked, "type": "enabled", "budget_tokens": budget}, []
    if rules.adaptive:
        return {**fallbacks.without(asked, "budget_tokens"), "type": "adaptive"}, ["thinking.budget_tokens"]
    return {}, ["thinking"]


def _implied_effort(call: Call, asked: Fields, thinking: Fields, rules: ModelRules) -> str | None:
    """Return the effort that is nearest to a budget which the model does not take, up to the default; the lowest for "off"."""
    if asked.get("type") in _OFF and not thinking:
        return rules.efforts[0] if rules.efforts else None
    if asked.get("type") != "enabled" or thinking.get("type") != "adaptive":
        return None
    effort = call.request.reasoning.effort
    return None if effort is None or EFFORTS.index(effort) > EFFORTS.index("medium") else effort


def _refused_sampling(given: Fields, thinking: Fields, rules: ModelRules) -> list[str]:
    """Return what the model would refuse. A model that thinks takes a few values (extended thinking, feature compatibility)."""
    asked = [name for name in ("temperature", "top_p", "top_k") if given.get(name) is not None]
    if rules.sampling == "none":
        return asked
    if thinking and thinking["type"] not in _OFF:
        taken = {"temperature": given.get("temperature") == 1, "top_p": (given.get("top_p") or 0) >= _THINKING_TOP_P_MIN}
        return [name for name in asked if not taken.get(name)]
    return ["top_p"] if rules.sampling == "one" and {"temperature", "top_p"} <= set(asked) else []


def _continues_unsigned(given: list[Fields]) -> bool:
    """Return whether a turn with a result began with another maker's model: a budget demands signed thinking there."""
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
