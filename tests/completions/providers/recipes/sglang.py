"""SGLang: ``python/sglang/srt/entrypoints/openai`` in github.com/sgl-project/sglang; its error as in
github.com/QwenLM/Qwen3/issues/1321.
"""

from typing import Any

from tests.completions.providers.recipes.imitation import (
    Answered,
    Recipe,
    Refused,
    call,
    called,
    json_reply,
    streamed,
)

_MODEL = "openai/gpt-oss-120b"
_TOO_LONG = {
    "object": "error",
    "message": "The input (161709 tokens) is longer than the model's context length (131072 tokens).",
    "type": "BadRequestError",
    "param": None,
    "code": 400,
}
_SORRY = "I'm sorry, but I can't help with that."
_REASONED = {"content": "Hello you", "reasoning_content": "A greeting."}
_NULLS: dict[str, Any] = dict.fromkeys(("role", "content", "reasoning_content", "tool_calls"))
_HEAD = {"id": "e87468f1c6b847ba99036a3aa37141dc", "created": 1_769_180_234, "model": _MODEL}


def _usage(prompt: int, completion: int, cached: int = 0, reasoning: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached} if cached else None,
        "reasoning_tokens": reasoning,
    }


def _whole(message: dict[str, Any], usage: Any, finish: str = "stop") -> Any:
    message = {**_NULLS, "role": "assistant", **message}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish, "matched_stop": 200_002}
    tail = {"usage": usage, "metadata": {"weight_version": "default"}}
    return json_reply({**_HEAD, "object": "chat.completion", "choices": [choice], **tail})


def _chunk(delta: dict[str, Any] | None, finish: str | None = None, usage: Any = None) -> dict[str, Any]:
    stop = 200_002 if finish else None
    choice = {
        "index": 0,
        "delta": {**_NULLS, **(delta or {})},
        "logprobs": None,
        "finish_reason": finish,
        "matched_stop": stop,
    }
    return {**_HEAD, "object": "chat.completion.chunk", "choices": [] if delta is None else [choice], "usage": usage}


_STREAM = [
    _chunk({"role": "assistant", "content": ""}),
    _chunk({"reasoning_content": "A greeting."}),
    _chunk({"content": "Hello "}),
    _chunk({"content": "you"}),
    _chunk({}, "stop"),
    _chunk(None, usage=_usage(1_300, 28, cached=1_280, reasoning=20)),
]
_PIECE = {"id": None, "index": 0, "type": "function"}
_CALL_STREAM = [
    _chunk({"role": "assistant", "content": ""}),
    _chunk({"tool_calls": [call("call_6f8a1b", "", index=0)]}),
    *(
        _chunk({"tool_calls": [{**_PIECE, "function": {"name": None, "arguments": piece}}]})
        for piece in ('{"city":', '"Rome"}')
    ),
    _chunk({}, "tool_calls"),
    _chunk(None, usage=_usage(160, 22)),
]

RECIPES = {
    "sglang": Recipe(
        path="/v1/chat/completions",
        model=_MODEL,
        chat=Answered(_whole({"content": "Hello you"}, _usage(26, 3)), 26, 3, nanos=5_700),
        stream=Answered(streamed(*_STREAM), 1_300, 28, cached=1_280, nanos=45_400, thoughts="A greeting."),
        tools=called(
            _whole({"tool_calls": [call("call_6f8a1b", index=0)]}, _usage(160, 22), "tool_calls"),
            *(160, 22),
            nanos=37_200,
        ),
        tools_stream=called(streamed(*_CALL_STREAM), 160, 22, nanos=37_200),
        reasoning=Answered(_whole(_REASONED, _usage(26, 40, reasoning=32)), 26, 40, nanos=27_900, thoughts="A greeting."),
        error=Refused(json_reply(_TOO_LONG, 400), 400, "context_length_exceeded", "longer than the model's context length"),
        refusal=Answered(_whole({"content": _SORRY}, _usage(26, 11)), 26, 11, nanos=10_500, text=_SORRY),
    )
}
