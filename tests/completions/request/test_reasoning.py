"""Whether a request asks for reasoning is read from the members that switch it, whatever stands beside them."""

import pytest

from completions.request import reasoning

OFF = [
    {"reasoning_effort": "none"},
    {"enable_thinking": False},
    {"thinking_budget": 0},
    {"thinking": {"type": "disabled"}},
    {"thinking": {"type": "disabled", "budget_tokens": 0}},
    {"reasoning": {"enabled": False}},
    {"reasoning": {"effort": "none", "exclude": True}},
    {"reasoning": {"enabled": False, "effort": "none"}},
    {"chat_template_kwargs": {"enable_thinking": False, "date": "x"}},
    {"chat_template_kwargs": {"thinking": False}},
    {"reasoning_effort": "none", "thinking": {"type": "disabled"}},
]
ASKED_FOR = [
    {"reasoning_effort": "low"},
    {"thinking_budget": 100},
    {"thinking": {"type": "enabled", "budget_tokens": 1_024}},
    {"thinking": {"type": "adaptive"}},
    {"reasoning": {"max_tokens": 100}},
    {"reasoning": {"enabled": False, "effort": "high"}},  # providers differ in which of the two they obey
    {"reasoning": {}},
    {"chat_template_kwargs": {"date": "x"}},
    {"extra_body": {"google": {"thinking_config": {"thinking_budget": 0}}}},
    {"reasoning_effort": "none", "enable_thinking": True},
    {"thinking": ["disabled"]},
]


@pytest.mark.parametrize("fields", OFF, ids=str)
def test_reasoning_is_switched_off(fields):
    assert reasoning.is_asked_for(fields) is False


@pytest.mark.parametrize("fields", ASKED_FOR, ids=str)
def test_reasoning_is_asked_for_or_may_be(fields):
    assert reasoning.is_asked_for(fields) is True


@pytest.mark.parametrize("fields", [{}, {"thinking": None}, {"max_tokens": 5}], ids=str)
def test_a_request_says_nothing_of_reasoning(fields):
    assert reasoning.is_asked_for(fields) is None
