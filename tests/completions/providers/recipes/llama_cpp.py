"""llama-server: tools/server in github.com/ggml-org/llama.cpp; events as in github.com/openai-php/client/issues/780."""

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

_HEAD = {"model": "gpt-oss-20b-mxfp4.gguf", "system_fingerprint": "b9554-d403f00ec"}
_TOO_LONG = {
    "code": 400,
    "message": "request (5039 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 5039,
    "n_ctx": 4096,
}
_SORRY = "I'm sorry, but I can't help with that."
_REASONED = {"content": "Hello you", "reasoning_content": "A greeting."}


def _usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"completion_tokens": completion, "prompt_tokens": prompt, "total_tokens": prompt + completion}


def _timings(cached: int, read: int, generated: int) -> dict[str, Any]:
    return {"cache_n": cached, "prompt_n": read, "prompt_ms": 251.51, "predicted_n": generated, "predicted_ms": 407.596}


def _whole(message: dict[str, Any], prompt: int, completion: int, finish: str = "stop") -> Any:
    return whole(message, _usage(prompt, completion), finish, **_HEAD, timings=_timings(0, prompt, completion))


_DETAILS = {"prompt_tokens_details": {"cached_tokens": 60}}
_STREAM = [
    chunk({"role": "assistant", "content": None}, **_HEAD),
    chunk({"reasoning_content": "A greeting."}, **_HEAD, timings=_timings(60, 10, 4)),
    chunk({"content": "Hello "}, **_HEAD),
    chunk({"content": "you"}, **_HEAD),
    chunk({}, "stop", **_HEAD),
    chunk(None, **_HEAD, usage={**_usage(70, 30), **_DETAILS}, timings=_timings(60, 10, 30)),
]

_PIECES = [chunk(delta, **_HEAD) for delta in call_deltas("Xb1", "", '{"city":', '"Rome"}', role="assistant", content=None)]

RECIPES = {
    "llama-cpp": Recipe(
        path="/v1/chat/completions",
        model="gpt-oss-20b",
        chat=Answered(_whole({"content": "Hello you"}, 70, 3), 70, 3, nanos=4_100),
        stream=Answered(streamed(*_STREAM), 70, 30, cached=60, nanos=6_800, thoughts="A greeting."),
        tools=called(_whole({"content": "", "tool_calls": [call("Xb1")]}, 170, 20, "tool_calls"), 170, 20, nanos=12_500),
        tools_stream=called(
            streamed(*_PIECES, chunk({}, "tool_calls", **_HEAD), chunk(None, **_HEAD, usage=_usage(170, 20))),
            *(170, 20),
            nanos=12_500,
        ),
        reasoning=Answered(_whole(_REASONED, 70, 43), 70, 43, nanos=12_100, thoughts="A greeting."),
        error=Refused(json_reply({"error": _TOO_LONG}, 400), 400, "context_length_exceeded", "exceeds the available"),
        refusal=Answered(_whole({"content": _SORRY}, 70, 11), 70, 11, nanos=5_700, text=_SORRY),
    )
}
