"""Bedrock: docs.aws.amazon.com/bedrock/latest/userguide (inference-chat-completions, bedrock-mantle, guardrails); its reasoning
as in github.com/openshift/lightspeed-service/pull/3084, its errors as in botocore's model of bedrock-runtime.
"""

from typing import Any

from tests.completions.providers.anthropic import scripts
from tests.completions.providers.recipes.imitation import (
    BEARER,
    Answered,
    Recipe,
    Refused,
    call,
    call_deltas,
    called,
    chunk,
    json_reply,
    streamed,
    whole,
)

_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
_SIGNED = (
    r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/us-west-2/bedrock-mantle/aws4_request, SignedHeaders=host;x-amz-date,"
    r" Signature=[0-9a-f]{64}"
)
_REASONED = {"content": "Hello you", "reasoning": "A greeting."}
_BLOCKED = "Sorry, the model cannot answer this question."
_TOO_MANY = {"message": "Too many tokens, please wait before trying again."}
_OUT_OF_CREDENTIALS = {"message": "The security token included in the request is expired"}
_CLAUDE = {"input_tokens": 20, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 8}
_CACHED = {**_CLAUDE, "cache_read_input_tokens": 3_000, "cache_creation_input_tokens": 400, "output_tokens": 1}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"completion_tokens": completion, "prompt_tokens": prompt, "total_tokens": prompt + completion}


def _stream(model: str, usage: dict[str, int]) -> Any:
    head = {"model": model, "service_tier": "default"}
    return streamed(
        chunk({"content": "", "role": "assistant"}, **head),
        chunk({"reasoning": "A greeting."}, **head),
        chunk({"content": "Hello "}, **head),
        chunk({"content": "you"}, **head),
        chunk({}, "stop", **head),
        chunk(None, **head, usage=usage),
    )


def _refused(body: dict[str, str], status: int, kind: str) -> Any:
    return json_reply(body, status, x_amzn_errortype=kind, x_amzn_requestid="1c4e9321-6bfa-4431-b1a1-bc546920626b")


def _call(model: str) -> Any:
    message = {"content": None, "tool_calls": [call("chatcmpl-tool-5d1")]}
    return whole(message, _usage(150, 25), "tool_calls", model=model)


def _call_stream(model: str) -> Any:
    head = {"model": model, "service_tier": "default"}
    deltas = call_deltas("chatcmpl-tool-5d1", "", '{"city":', '"Rome"}', role="assistant", content=None)
    usage = chunk(None, **head, usage=_usage(150, 25))
    return streamed(*(chunk(delta, **head) for delta in deltas), chunk({}, "tool_calls", **head), usage)


_LARGE, _SMALL = "openai.gpt-oss-120b-1:0", "openai.gpt-oss-20b"

RECIPES = {
    "bedrock": Recipe(
        path="/openai/v1/chat/completions",
        model=_LARGE,
        chat=Answered(whole({"content": "Hello you"}, _usage(74, 17), model=_LARGE), 74, 17, nanos=21_300),
        stream=Answered(_stream(_LARGE, _usage(74, 27)), 74, 27, nanos=27_300, thoughts="A greeting."),
        tools=called(_call(_LARGE), 150, 25, nanos=37_500),
        tools_stream=called(_call_stream(_LARGE), 150, 25, nanos=37_500),
        reasoning=Answered(whole(_REASONED, _usage(74, 57), model=_LARGE), 74, 57, nanos=45_300, thoughts="A greeting."),
        error=Refused(_refused(_TOO_MANY, 429, "ThrottlingException"), 503, "upstream_error"),
        refusal=Answered(
            whole(
                {"content": _BLOCKED},
                _usage(74, 0),
                "content_filter",
                model=_LARGE,
                **{"amazon-bedrock-guardrailAction": "INTERVENED"},
            ),
            *(74, 0),
            nanos=11_100,
            text=_BLOCKED,
            finish="content_filter",
        ),
    ),
    "bedrock-signed": Recipe(
        path="/v1/chat/completions",
        model=_SMALL,
        shows={"authorization": _SIGNED, "x-amz-date": r"\d{8}T\d{6}Z"},
        environment=_CREDENTIALS,
        chat=Answered(whole({"content": "Hello you"}, _usage(74, 17), model=_SMALL), 74, 17, nanos=10_280),
        stream=Answered(_stream(_SMALL, _usage(74, 27)), 74, 27, nanos=13_280, thoughts="A greeting."),
        tools=called(_call(_SMALL), 150, 25, nanos=18_000),
        tools_stream=called(_call_stream(_SMALL), 150, 25, nanos=18_000),
        reasoning=Answered(whole(_REASONED, _usage(74, 57), model=_SMALL), 74, 57, nanos=22_280, thoughts="A greeting."),
        error=Refused(_refused(_OUT_OF_CREDENTIALS, 403, "ExpiredTokenException"), 502, "upstream_error"),
        refusal=Answered(
            whole({"content": "I'm sorry, but I can't help with that."}, _usage(74, 12), model=_SMALL),
            *(74, 12),
            nanos=8_780,
            text="I'm sorry, but I can't help with that.",
        ),
    ),
    "bedrock-claude": Recipe(
        path="/anthropic/v1/messages",
        model="anthropic.claude-sonnet-5-5",
        shows={**BEARER, "anthropic-version": "2023-06-01"},
        chat=Answered(scripts.whole(usage=_CLAUDE), 20, 8, nanos=132_000),
        stream=Answered(
            scripts.stream(
                scripts.start(_CACHED),
                scripts.text("Hello ", "you"),
                scripts.message_delta(usage={"output_tokens": 8}),
                scripts.STOP,
            ),
            *(3_420, 8),
            cached=3_000,
            nanos=1_562_000,
        ),
        tools=called(
            scripts.whole(scripts.tool_use_block("toolu_01", "weather", city="Rome"), stop_reason="tool_use", usage=_CLAUDE),
            *(20, 8),
            nanos=132_000,
        ),
        tools_stream=called(
            scripts.stream(
                scripts.start({**_CLAUDE, "output_tokens": 1}),
                scripts.tool("toolu_01", "weather", '{"city":', '"Rome"}'),
                scripts.message_delta("tool_use", usage={"output_tokens": 8}),
                scripts.STOP,
            ),
            *(20, 8),
            nanos=132_000,
        ),
        reasoning=Answered(
            scripts.whole(scripts.thinking_block("A greeting."), scripts.text_block("Hello you"), usage=_CLAUDE),
            *(20, 8),
            nanos=132_000,
            thoughts="A greeting.",
        ),
        error=Refused(scripts.refusal(529, "overloaded_error", "Overloaded", retry_after="1"), 503, "upstream_error"),
        refusal=Answered(
            scripts.whole(scripts.text_block("I can't"), stop_reason="refusal", usage=_CLAUDE),
            *(20, 8),
            nanos=132_000,
            text="I can't",
            finish="content_filter",
        ),
    ),
}
