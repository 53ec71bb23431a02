"""GLM at Z.ai: docs.z.ai/api-reference (chat completion, API code), github.com/zai-org/GLM-5/issues/148."""

from typing import Any

from tests.completions.providers.recipes.imitation import (
    Answered,
    Recipe,
    Refused,
    call,
    called,
    chunk,
    json_reply,
    streamed,
    whole,
)

_HEAD = {"model": "glm-5.3", "request_id": "20260922232915e8288c66f9ff4aaa"}
_BALANCE = {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}
_UNSAFE = {
    "code": "1301",
    "message": "System detected potentially unsafe or sensitive content in input or generation. Please avoid using prompts that"
    " may generate sensitive content. Thank you for your cooperation.",
}


def _usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**counts, "prompt_tokens_details": {"cached_tokens": cached}}


def _chunk(finish: str | None = None, usage: Any = None, **delta: str) -> dict[str, Any]:
    return chunk({"role": "assistant", **delta}, finish, **_HEAD, **({"usage": usage} if usage else {}))


_STREAM = [
    _chunk(reasoning_content="A greeting."),
    _chunk(content="Hello "),
    _chunk(content="you"),
    _chunk("stop", _usage(2_000, 30, 1_500), content=""),
]
_REASONED = {"content": "Hello you", "reasoning_content": "A greeting."}

RECIPES = {
    "glm": Recipe(
        path="/api/paas/v4/chat/completions",
        model="glm-5.3",
        chat=Answered(whole({"content": "Hello you"}, _usage(13, 3), **_HEAD), 13, 3, nanos=31_400),
        stream=Answered(streamed(*_STREAM), 2_000, 30, cached=1_500, nanos=1_222_000, thoughts="A greeting."),
        tools=called(
            whole({"content": "", "tool_calls": [call("call_-81", index=0)]}, _usage(170, 20), "tool_calls", **_HEAD),
            *(170, 20),
            nanos=326_000,
        ),
        tools_stream=called(
            streamed(
                chunk({"role": "assistant", "tool_calls": [call("call_-81", index=0)]}, **_HEAD),
                _chunk("tool_calls", _usage(170, 20), content=""),
            ),
            *(170, 20),
            nanos=326_000,
        ),
        reasoning=Answered(whole(_REASONED, _usage(13, 43), **_HEAD), 13, 43, nanos=207_400, thoughts="A greeting."),
        error=Refused(json_reply({"error": _BALANCE}, 429), 502, "upstream_error"),
        refusal=Refused(
            json_reply({"contentFilter": [{"level": 1, "role": "user"}], "error": _UNSAFE}, 400),
            *(400, "content_filter", "unsafe or sensitive content"),
        ),
    )
}
