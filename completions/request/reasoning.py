"""Whether a request asks the model to reason: to generate tokens that its reply need not show. Pure."""

from completions.request.fields import Fields

# OpenAI's field, and those by which other providers switch reasoning on and off.
_FIELDS = (
    *("reasoning_effort", "reasoning", "include_reasoning", "thinking", "enable_thinking", "thinking_budget"),
    *("chat_template_kwargs", "extra_body"),
)
_OFF = (False, "none", 0, {"type": "disabled"}, {"effort": "none"}, {"enabled": False}, {"enable_thinking": False})


def is_asked_for(fields: Fields) -> bool | None:
    """Return whether the body asks for reasoning, or may: some fields have more than one use. None: it says nothing of it."""
    given = [fields[name] for name in _FIELDS if fields.get(name) is not None]
    return any(value not in _OFF for value in given) if given else None
