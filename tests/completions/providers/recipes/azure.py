"""Azure OpenAI, and Claude in Foundry: learn.microsoft.com/azure/foundry/openai (content filters, content streaming)."""

from typing import Any

from tests.completions.providers.anthropic import scripts
from tests.completions.providers.recipes.imitation import (
    KEY_PATTERN,
    Answered,
    Recipe,
    Refused,
    call,
    call_deltas,
    called,
    json_reply,
    streamed,
)

_SAFE = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}
_FILTERED = {**_SAFE, "violence": {"filtered": True, "severity": "medium"}}
_PROMPT = [{"prompt_index": 0, "content_filter_results": {**_SAFE, "jailbreak": {"filtered": False, "detected": False}}}]
_HEADERS: Any = {"apim_request_id": "f7bfc3ce", "x_ms_region": "Sweden Central", "x_ratelimit_remaining_tokens": "-1"}
_DEPLOYMENT = {
    "code": "DeploymentNotFound",
    "message": "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes,"
    " please wait a moment and try again.",
}
_RATE = {
    "code": "429",
    "message": "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token"
    " rate limit of your current OpenAI S0 pricing tier. Please retry after 6 seconds.",
}
_POLICY = {
    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify"
    " your prompt and retry.",
    "type": None,
    "param": "prompt",
    "code": "content_filter",
    "status": 400,
    "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": _FILTERED},
}


def _usage(prompt: int, completion: int, cached: int = 0, reasoning: int = 0) -> dict[str, Any]:
    generated = {"accepted_prediction_tokens": 0, "audio_tokens": 0, "reasoning_tokens": reasoning}
    return {
        "completion_tokens": completion,
        "completion_tokens_details": {**generated, "rejected_prediction_tokens": 0},
        "prompt_tokens": prompt,
        "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": cached},
        "total_tokens": prompt + completion,
    }


def _whole(message: dict[str, Any], usage: dict[str, Any], finish: str = "stop", verdict: Any = _SAFE) -> Any:
    message = {"annotations": [], "refusal": None, "role": "assistant", **message}
    choice = {"content_filter_results": verdict, "finish_reason": finish, "index": 0, "logprobs": None, "message": message}
    head = {"created": 1_764_374_400, "id": "chatcmpl-B1", "model": "gpt-5.4-mini-2026-03-17", "object": "chat.completion"}
    body = {"choices": [choice], **head, "prompt_filter_results": _PROMPT, "system_fingerprint": "fp_b0", "usage": usage}
    return json_reply(body, **_HEADERS)


def _chunk(delta: dict[str, Any], finish: str | None = None, verdict: Any = _SAFE) -> dict[str, Any]:
    choice = {"content_filter_results": verdict, "delta": delta, "finish_reason": finish, "index": 0, "logprobs": None}
    return {"choices": [choice], **_HEAD, "usage": None}


_HEAD = {"created": 1_764_374_400, "id": "chatcmpl-B1", "model": "gpt-5.4-mini-2026-03-17", "object": "chat.completion.chunk"}
_NOBODY = {"created": 0, "id": "", "model": "", "object": ""}
_FIRST = {"choices": [], **_NOBODY, "prompt_filter_results": _PROMPT}  # before the role
_OFFSETS = {"check_offset": 44, "start_offset": 44, "end_offset": 198}
# Of the asynchronous filter, between the texts that it judges.
_VERDICT = {
    "choices": [{"content_filter_offsets": _OFFSETS, "content_filter_results": _SAFE, "finish_reason": None, "index": 0}],
    **_NOBODY,
}
_ROLE = _chunk({"content": "", "refusal": None, "role": "assistant"}, verdict={})
_TEXTS = [_chunk({"content": "Hello "}), _VERDICT, _chunk({"content": "you"})]
_LAST = [_chunk({}, "stop", {}), {"choices": [], **_HEAD, "usage": _usage(2_020, 10, cached=1_920)}]
_PIECES = [
    _chunk(delta, verdict={}) for delta in call_deltas("call_7JhS", "", '{"city":', '"Rome"}', role="assistant", content=None)
]
_CALL = {"content": None, "tool_calls": [call("call_7JhS")]}
_KEY_ALONE = {"api-key": KEY_PATTERN}
_CLAUDE = {"input_tokens": 12, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 6}
_CLAUDE_CACHED = {**_CLAUDE, "input_tokens": 21, "cache_read_input_tokens": 4_000}

RECIPES = {
    "azure": Recipe(
        path="/openai/v1/chat/completions",
        model="gpt-5.4-mini",
        shows=_KEY_ALONE,
        chat=Answered(_whole({"content": "Hello you"}, _usage(14, 9)), 14, 9, nanos=51_000),
        stream=Answered(streamed(_FIRST, _ROLE, *_TEXTS, *_LAST), 2_020, 10, cached=1_920, nanos=264_000),
        tools=called(_whole(_CALL, _usage(66, 15), "tool_calls", {}), 66, 15, nanos=117_000),
        tools_stream=called(
            streamed(_FIRST, *_PIECES, _chunk({}, "tool_calls", {}), {"choices": [], **_HEAD, "usage": _usage(66, 15)}),
            *(66, 15),
            nanos=117_000,
        ),
        reasoning=Answered(_whole({"content": "Hello you"}, _usage(14, 200, reasoning=192)), 14, 200, nanos=910_500),
        error=Refused(json_reply({"error": _DEPLOYMENT}, 404, **_HEADERS), 502, "upstream_error"),
        refusal=Refused(json_reply({"error": _POLICY}, 400, **_HEADERS), 400, "content_filter", "content management policy"),
    ),
    "azure-classic": Recipe(
        path="/openai/deployments/gpt-4.1/chat/completions?api-version=2024-10-21",
        model="gpt-4.1",
        shows=_KEY_ALONE,
        chat=Answered(_whole({"content": "Hello you"}, _usage(14, 9)), 14, 9, nanos=100_000),
        stream=Answered(streamed(_FIRST, _ROLE, *_TEXTS, *_LAST), 2_020, 10, cached=1_920, nanos=1_240_000),
        tools=called(_whole(_CALL, _usage(66, 15), "tool_calls", {}), 66, 15, nanos=252_000),
        error=Refused(json_reply({"error": _RATE}, 429, retry_after="6", **_HEADERS), 503, "upstream_error"),
        refusal=Answered(
            _whole({"content": ""}, _usage(14, 2), "content_filter", _FILTERED),
            *(14, 2),
            nanos=44_000,
            text="",
            finish="content_filter",
        ),
    ),
    "azure-claude": Recipe(
        path="/anthropic/v1/messages",
        model="claude-haiku-4-5",
        shows={"x-api-key": KEY_PATTERN, "anthropic-version": "2023-06-01"},
        chat=Answered(scripts.whole(usage=_CLAUDE), 12, 6, nanos=42_000),
        stream=Answered(
            scripts.stream(
                scripts.start({**_CLAUDE_CACHED, "output_tokens": 1}),
                scripts.PING,
                scripts.text("Hello ", "you"),
                scripts.message_delta(usage={"output_tokens": 6}),
                scripts.STOP,
            ),
            *(4_021, 6),
            cached=4_000,
            nanos=451_000,
        ),
        tools=called(
            scripts.whole(scripts.tool_use_block("toolu_01", "weather", city="Rome"), stop_reason="tool_use", usage=_CLAUDE),
            *(12, 6),
            nanos=42_000,
        ),
        tools_stream=called(
            scripts.stream(
                scripts.start({**_CLAUDE, "output_tokens": 1}),
                scripts.tool("toolu_01", "weather", '{"city":', '"Rome"}'),
                scripts.message_delta("tool_use", usage={"output_tokens": 6}),
                scripts.STOP,
            ),
            *(12, 6),
            nanos=42_000,
        ),
        reasoning=Answered(
            scripts.whole(scripts.thinking_block("A greeting."), scripts.text_block("Hello you"), usage=_CLAUDE),
            *(12, 6),
            nanos=42_000,
            thoughts="A greeting.",
        ),
        error=Refused(
            scripts.refusal(400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
            *(400, "context_length_exceeded"),
        ),
        refusal=Answered(
            scripts.whole(scripts.text_block("I can't"), stop_reason="refusal", usage=_CLAUDE),
            *(12, 6),
            nanos=42_000,
            text="I can't",
            finish="content_filter",
        ),
    ),
}
