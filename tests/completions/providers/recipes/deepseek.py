"""DeepSeek: api-docs.deepseek.com/api/create-chat-completion; github.com/666ghj/BettaFish/issues/108 and 286."""

from typing import Any

from tests.completions.providers.recipes.imitation import (
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

_HEAD = {"model": "deepseek-flash", "system_fingerprint": "fp_a49d71b8a1_prod0820_fp8_kvcache"}
_KEEPALIVE = b": keep-alive\n\n"  # while a request waits for its turn: api-docs.deepseek.com/quick_start/rate_limit
_RISK = {"message": "Content Exists Risk", "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}
_BALANCE = {"message": "Insufficient Balance", "type": "unknown_error", "param": None, "code": "invalid_request_error"}


def _usage(hit: int, miss: int, completion: int, reasoning: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": hit + miss,
        "completion_tokens": completion,
        "total_tokens": hit + miss + completion,
        "prompt_tokens_details": {"cached_tokens": hit},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
        "prompt_cache_hit_tokens": hit,
        "prompt_cache_miss_tokens": miss,
    }


_STREAM = [
    _KEEPALIVE,
    chunk({"role": "assistant", "content": None, "reasoning_content": ""}, **_HEAD),
    chunk({"content": None, "reasoning_content": "A greeting."}, **_HEAD),
    chunk({"content": "Hello ", "reasoning_content": None}, **_HEAD),
    chunk({"content": "you", "reasoning_content": None}, **_HEAD),
    chunk({"content": "", "reasoning_content": None}, "stop", usage=_usage(1_024, 76, 30, 20), **_HEAD),
]
_PIECES = [
    chunk(delta, **_HEAD) for delta in call_deltas("call_00_Wq", "", '{"city":', '"Rome"}', role="assistant", content=None)
]
_CALL = {"content": "", "tool_calls": [call("call_00_Wq", index=0)]}
_REASONED = {"content": "Hello you", "reasoning_content": "A greeting."}

RECIPES = {
    "deepseek": Recipe(
        path="/chat/completions",
        model="deepseek-flash",
        chat=Answered(whole({"content": "Hello you"}, _usage(0, 9, 3), **_HEAD), 9, 3, nanos=6_300),
        stream=Answered(streamed(*_STREAM), 1_100, 30, cached=1_024, nanos=64_944, thoughts="A greeting."),
        tools=called(whole(_CALL, _usage(0, 170, 20), "tool_calls", **_HEAD), 170, 20, nanos=75_000),
        tools_stream=called(
            streamed(*_PIECES, chunk({"content": ""}, "tool_calls", usage=_usage(128, 42, 20), **_HEAD)),
            *(170, 20),
            cached=128,
            nanos=37_368,
        ),
        reasoning=Answered(whole(_REASONED, _usage(0, 9, 43, 40), **_HEAD), 9, 43, nanos=54_300, thoughts="A greeting."),
        error=Refused(json_reply({"error": _BALANCE}, 402), 502, "upstream_error"),
        refusal=Refused(json_reply({"error": _RISK}, 400), 400, "content_filter", "Content Exists Risk"),
    )
}
