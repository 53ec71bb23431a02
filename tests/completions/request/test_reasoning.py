"""Whether a request asks for reasoning is read from the members that switch it, whatever stands beside them."""

import pytest

from completions.request import reasoning, schema
from gateway_project import errors

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


# --- OpenRouter's object ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "effort", "budget_tokens"),
    [
        ({}, None, None),
        ({"exclude": True}, None, None),
        ({"effort": "xhigh"}, "xhigh", None),
        ({"effort": "none"}, "none", None),
        ({"enabled": True}, "medium", None),
        ({"enabled": True, "effort": "low"}, "low", None),
        ({"enabled": True, "max_tokens": 9_000}, "high", 9_000),
        ({"enabled": False, "effort": "high"}, "none", None),
        ({"enabled": False, "max_tokens": 100}, "none", None),
        ({"enabled": None, "effort": None, "max_tokens": None}, None, None),
        ({"max_tokens": 1}, "low", 1),
        ({"max_tokens": 1_024}, "low", 1_024),
        ({"max_tokens": 1_025}, "medium", 1_025),
        ({"max_tokens": 8_192}, "medium", 8_192),
        ({"max_tokens": 8_193}, "high", 8_193),
    ],
    ids=str,
)
def test_how_much_to_reason_is_an_effort_and_perhaps_a_budget(given, effort, budget_tokens):
    read = reasoning.read({"reasoning": given})
    assert (read.effort, read.budget_tokens, read.is_excluded) == (effort, budget_tokens, bool(given.get("exclude")))


def test_reasoning_effort_may_stand_beside_it():
    assert reasoning.read({"reasoning": {"exclude": True}, "reasoning_effort": "low"}).effort == "low"
    assert reasoning.read({"reasoning": {"effort": "low"}, "reasoning_effort": "low"}).effort == "low"


def test_members_that_no_provider_gets_are_named():
    assert reasoning.read({"reasoning": {"effort": "low", "summary": "auto", "x": None}}).unheeded == ("reasoning.summary",)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning": "high"}, "reasoning"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"reasoning": {"effort": "high"}, "reasoning_effort": "low"}, "reasoning.effort"),
        ({"reasoning": {"max_tokens": 0}}, "reasoning.max_tokens"),
        ({"reasoning": {"max_tokens": 1.5}}, "reasoning.max_tokens"),
        ({"reasoning": {"max_tokens": 2**31}}, "reasoning.max_tokens"),
        ({"reasoning": {"max_tokens": 100, "effort": "low"}}, "reasoning.max_tokens"),
        ({"reasoning": {"max_tokens": 100}, "reasoning_effort": "low"}, "reasoning.max_tokens"),
        ({"reasoning": {"max_tokens": 100}, "max_tokens": 100}, "reasoning.max_tokens"),
        ({"reasoning": {"exclude": 1}}, "reasoning.exclude"),
        ({"reasoning": {"enabled": "yes"}}, "reasoning.enabled"),
        ({"usage": True}, "usage"),
        ({"usage": {"include": 1}}, "usage.include"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_by_name(fields, param):
    with pytest.raises(errors.InvalidRequest) as refusal:
        schema.parse({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields})
    assert refusal.value.param == param
    assert refusal.value.message.startswith(param)
