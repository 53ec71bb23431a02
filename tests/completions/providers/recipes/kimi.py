"""Kimi at Moonshot AI: platform.kimi.ai/docs/api/chat; usage of streams as in github.com/earendil-works/pi/issues/2017."""

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

_HEAD = {"model": "kimi-k3"}
_RATE = {
    "message": "Your account org-0123 request reached max request per minute: 3, please try again after 1 seconds",
    "type": "rate_limit_reached_error",
}
_RISK = {"message": "The request was rejected because it was considered high risk", "type": "content_filter"}
_REASONED = {"content": "Hello you", "reasoning_content": "A greeting."}


def _usage(prompt: int, completion: int, cached: int = 0) -> dict[str, int]:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**counts, "cached_tokens": cached} if cached else counts


_LAST: Any = chunk({}, "stop", **_HEAD)
_LAST["choices"][0]["usage"] = _usage(2_989, 30, 2_816)  # in the choice alone
_STREAM = [
    chunk({"role": "assistant", "content": ""}, **_HEAD),
    chunk({"reasoning_content": "A greeting."}, **_HEAD),
    chunk({"content": "Hello "}, **_HEAD),
    chunk({"content": "you"}, **_HEAD),
    _LAST,
]

_LAST_OF_CALL: Any = chunk({}, "tool_calls", **_HEAD)
_LAST_OF_CALL["choices"][0]["usage"] = _usage(100, 20)
_PIECES = [chunk(delta, **_HEAD) for delta in call_deltas("weather:0", "", '{"city":', '"Rome"}')]

RECIPES = {
    "kimi": Recipe(
        path="/v1/chat/completions",
        model="kimi-k3",
        chat=Answered(whole({"content": "Hello you"}, _usage(10, 3), **_HEAD), 10, 3, nanos=75_000),
        stream=Answered(streamed(*_STREAM), 2_989, 30, cached=2_816, nanos=1_813_800, thoughts="A greeting."),
        tools=called(
            whole({"content": "", "tool_calls": [call("weather:0")]}, _usage(100, 20), "tool_calls", **_HEAD),
            *(100, 20),
            nanos=600_000,
        ),
        tools_stream=called(
            streamed(chunk({"role": "assistant", "content": ""}, **_HEAD), *_PIECES, _LAST_OF_CALL), 100, 20, nanos=600_000
        ),
        reasoning=Answered(
            whole(_REASONED, _usage(10, 43), **_HEAD),
            *(10, 43),
            nanos=675_000,
            thoughts="A greeting.",
            sent={"reasoning_effort": "max"},
        ),
        error=Refused(json_reply({"error": _RATE}, 429), 503, "upstream_error"),
        refusal=Refused(json_reply({"error": _RISK}, 400), 400, "content_filter", "high risk"),
    )
}
