"""The body of a request in OpenAI's format: what a host's own switches do. ``test_adapter`` has what is sent."""

import dataclasses

import msgspec
import pytest

from completions.providers.openai import request as openai_request
from tests.completions.offers import make_call, make_offer
from tests.completions.providers.chat_requests import make_request

SWITCHES = ("reasoning", "reasoning_effort", "thinking", "enable_thinking")


@pytest.mark.parametrize(
    ("host", "fields", "is_off"),
    [
        ("api.openai.com", {"reasoning_effort": "none"}, True),
        ("api.openai.com", {"reasoning_effort": "minimal"}, False),
        ("api.openai.com", {"thinking": {"type": "disabled"}}, False),  # it is not sent
        ("api.z.ai", {"thinking": {"type": "disabled", "clear_thinking": True}}, True),
        ("api.z.ai", {"thinking": {"enabled": False}}, False),
        ("api.z.ai", {"reasoning_effort": "none"}, True),
        ("api.deepseek.com", {"reasoning_effort": "none"}, True),
        ("api.deepseek.com", {"thinking": {"type": "enabled"}}, False),
        ("dashscope-intl.aliyuncs.com", {"enable_thinking": False}, True),
        ("dashscope-intl.aliyuncs.com", {"reasoning": {"enabled": False}}, True),
        ("api.groq.com", {"reasoning_effort": "none"}, False),  # gpt-oss reasons whatever it is told
        ("api.together.ai", {"reasoning": {"enabled": False}}, False),
        ("models.example.org", {"reasoning_effort": "none"}, False),
        ("models.example.org", {"": "none"}, False),
        ("api.openai.com", {"reasoning": {"enabled": False}}, True),
        ("api.z.ai", {"reasoning": {"effort": "none"}}, True),
        ("api.z.ai", {"reasoning": {"effort": "low"}}, False),
    ],
    ids=str,
)
def test_reasoning_is_switched_off_only_by_the_switch_of_the_host(host, fields, is_off):
    call = make_call(make_request(**fields), make_offer(base_url=f"https://{host}/v1"), 50)
    assert openai_request.switches_reasoning_off(call) == is_off


@pytest.mark.parametrize(
    ("host", "passes", "reasoning", "sent"),
    [
        ("api.openai.com", False, {"max_tokens": 2_000}, {"reasoning_effort": "medium"}),
        ("api.openai.com", False, {"enabled": False}, {"reasoning_effort": "none"}),
        ("api.openai.com", False, {"exclude": True}, {}),
        ("api.z.ai", False, {"enabled": False}, {"thinking": {"type": "disabled"}}),
        ("api.deepseek.com", False, {"effort": "none"}, {"thinking": {"type": "disabled"}}),
        ("api.deepseek.com", False, {"effort": "high"}, {"reasoning_effort": "high"}),
        ("dashscope.aliyuncs.com", False, {"enabled": False}, {"enable_thinking": False}),
        ("api.together.ai", False, {"enabled": True}, {"reasoning_effort": "medium", "reasoning": {"enabled": True}}),
        ("models.example.org", True, {"effort": "low"}, {"reasoning_effort": "low", "reasoning": {"effort": "low"}}),
    ],
    ids=str,
)
def test_openrouters_reasoning_is_what_the_host_takes(host, passes, reasoning, sent):
    call = make_call(make_request(reasoning=reasoning), make_offer(base_url=f"https://{host}/v1"), 50)
    route = dataclasses.replace(call.route, passes_unknown_fields=passes)
    asked = openai_request.body(msgspec.structs.replace(call, route=route), stream=False)
    assert {name: value for name, value in asked.items() if name in SWITCHES} == sent


@pytest.mark.parametrize(
    ("host", "switch"),
    [
        ("api.openai.com", {"reasoning_effort": "none"}),
        ("api.z.ai", {"thinking": {"type": "disabled"}}),
        ("api.deepseek.com", {"thinking": {"type": "disabled"}}),
        ("dashscope.aliyuncs.com", {"enable_thinking": False}),
        ("models.example.org", {"reasoning_effort": "none"}),
    ],
    ids=str,
)
def test_openais_effort_none_is_the_switch_of_the_host(host, switch):
    call = make_call(make_request(reasoning_effort="none"), make_offer(base_url=f"https://{host}/v1"), 50)
    asked = openai_request.body(call, stream=False)
    assert {name: value for name, value in asked.items() if name in SWITCHES} == switch


@pytest.mark.parametrize(
    ("host", "role"),
    [
        ("api.openai.com", "developer"),
        ("mine.openai.azure.com", "developer"),
        ("api.mistral.ai", "system"),
        # 400: github.com/earendil-works/pi/issues/1048, github.com/proma-ai/Proma/issues/1496,
        # github.com/vastsa/PI-Desktop/issues/30, github.com/agno-agi/agno/issues/6697
        ("api.deepseek.com", "system"),
        ("dashscope.aliyuncs.com", "system"),
        ("api.z.ai", "system"),
        ("ark.cn-beijing.volces.com", "system"),
        ("models.example.org", "system"),
    ],
)
def test_a_developers_message_has_the_role_that_the_host_knows(host, role):
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    call = make_call(make_request(messages=messages), make_offer(base_url=f"https://{host}/v1"), 50)
    asked = openai_request.body(call, stream=False)["messages"]
    assert [(message["role"], message["content"]) for message in asked] == [(role, "Be brief."), ("user", "Hi")]
