"""Whether and how much a request asks the model to reason: to generate tokens that its reply need not show. Pure."""

from typing import Any

from completions.chat import Reasoning
from completions.request.fields import Fields, check_object, read_boolean, read_choice, read_integer, refuse

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
BUDGET_TOKENS_MAX = 2**31 - 1
THINKING_TOKENS_MIN = 1_024  # Anthropic's
_ENABLED_EFFORT = "medium"  # OpenRouter's, of a model that is only told to reason
# The effort that is sent where a provider takes no budget, as at Google's OpenAI-compatible endpoint.
_EFFORT_BY_TOKENS = ((1_024, "low"), (8_192, "medium"), (BUDGET_TOKENS_MAX, "high"))
HEEDED = frozenset({"effort", "max_tokens", "exclude", "enabled"})

# OpenAI's field, and those by which other providers switch reasoning on and off. ``include_reasoning`` only hides it.
_FIELDS = (
    *("reasoning_effort", "reasoning", "thinking", "enable_thinking"),
    *("thinking_budget", "chat_template_kwargs", "extra_body"),
)
_OFF = (False, "none", 0)
# The members of an object that switch reasoning on and off. Others say how much of it, or something else.
_SWITCHES = ("type", "enabled", "enable_thinking", "thinking", "effort")
_SWITCHED_OFF = (False, "none", "disabled")


def is_asked_for(fields: Fields) -> bool | None:
    """Return whether the body asks for reasoning, or may ask: some fields have several uses. None without such a field."""
    given = [fields[name] for name in _FIELDS if fields.get(name) is not None]
    return not all(map(_is_off, given)) if given else None


def _is_off(value: Any) -> bool:
    """Return whether a field switches reasoning off. An object does if it has switches and all of them are off."""
    if not isinstance(value, dict):
        return value in _OFF
    switches = [value[name] for name in _SWITCHES if value.get(name) is not None]
    return bool(switches) and all(switch in _SWITCHED_OFF for switch in switches)


def read(fields: Fields) -> Reasoning:
    """Read ``reasoning``, OpenRouter's object, with a ``reasoning_effort`` that is checked already. Raises InvalidRequest."""
    given = check_object(fields["reasoning"], "reasoning")
    is_enabled = read_boolean(given, "enabled", "reasoning")
    effort, beside = read_choice(given, "effort", EFFORTS, "reasoning"), fields.get("reasoning_effort")
    if effort and beside and effort != beside:
        refuse("reasoning.effort", "must be equal to reasoning_effort")
    effort = effort or beside
    budget_tokens = read_integer(given, "max_tokens", 1, BUDGET_TOKENS_MAX, "reasoning")
    if budget_tokens and effort:
        refuse("reasoning.max_tokens", "must not be given together with an effort")
    if budget_tokens:
        effort = next(effort for tokens, effort in _EFFORT_BY_TOKENS if budget_tokens <= tokens)
    elif is_enabled:
        effort = effort or _ENABLED_EFFORT
    is_off = given.get("enabled") is False
    return Reasoning(
        effort="none" if is_off else effort,
        budget_tokens=None if is_off else budget_tokens,
        is_excluded=read_boolean(given, "exclude", "reasoning"),
        name="reasoning",
        unheeded=tuple(f"reasoning.{name}" for name, value in given.items() if name not in HEEDED and value is not None),
    )
