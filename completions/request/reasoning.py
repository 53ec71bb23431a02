"""Whether a request asks the model to reason: to generate tokens that its reply need not show. Pure."""

from typing import Any

from completions.request.fields import Fields

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
    """Return whether the body asks for reasoning, or may: some fields have more than one use. None: it says nothing of it."""
    given = [fields[name] for name in _FIELDS if fields.get(name) is not None]
    return not all(map(_is_off, given)) if given else None


def _is_off(value: Any) -> bool:
    """Return whether a field switches reasoning off. An object does if it has a switch, and each that it has is off."""
    if not isinstance(value, dict):
        return value in _OFF
    switches = [value[name] for name in _SWITCHES if value.get(name) is not None]
    return bool(switches) and all(switch in _SWITCHED_OFF for switch in switches)
