"""Alibaba's Model Studio: alibabacloud.com/help/en/model-studio (qwen-api-via-openai-chat-completions, deep-thinking, stream);
its refusals as in github.com/camel-ai/owl/issues/432.
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

_HEAD = {"created": 1_782_800_450, "system_fingerprint": None, "model": "qwen3.8-flash", "id": "chatcmpl-5c204aa7-23bd-90ab"}
_TOO_LONG = {
    "code": "invalid_parameter_error",
    "param": None,
    "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 991808]",
    "type": "invalid_request_error",
}
_INSPECTED = {
    "code": "data_inspection_failed",
    "param": None,
    "message": "Input data may contain inappropriate content.",
    "type": "data_inspection_failed",
}
_IDS = {"id": "chatcmpl-deab386b-2562-9a7b", "request_id": "deab386b-2562-9a7b"}
_REASONED = {"content": "Hello you", "reasoning_content": "A greeting."}


def _usage(prompt: int, completion: int, cached: int = 0, reasoning: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "completion_tokens_details": {"reasoning_tokens": reasoning, "text_tokens": completion - reasoning},
        "prompt_tokens_details": {"cached_tokens": cached, "text_tokens": prompt},
    }


def _whole(message: dict[str, Any], usage: Any, finish: str = "stop") -> Any:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": finish, "index": 0, "logprobs": None}
    return json_reply({"choices": [choice], "object": "chat.completion", "usage": usage, **_HEAD})


def _chunk(delta: dict[str, Any] | None, finish: str | None = None, usage: Any = None) -> dict[str, Any]:
    choices = [] if delta is None else [{"delta": delta, "finish_reason": finish, "index": 0, "logprobs": None}]
    return {"choices": choices, "object": "chat.completion.chunk", "usage": usage, **_HEAD}


_STREAM = [
    _chunk({"content": None, "reasoning_content": "", "role": "assistant"}),
    _chunk({"content": None, "reasoning_content": "A greeting."}),
    _chunk({"content": "Hello ", "reasoning_content": None}),
    _chunk({"content": "you", "reasoning_content": None}),
    _chunk({"content": "", "reasoning_content": None}, "stop"),
    _chunk(None, usage=_usage(1_500, 60, cached=1_024, reasoning=40)),
]
_PIECE = {"index": 0, "id": "", "type": "function"}
_CALL_STREAM = [
    _chunk({"content": None, "tool_calls": [call("call_8f08d2b0fc0c", "", index=0)], "role": "assistant"}),
    *(
        _chunk({"content": None, "tool_calls": [{**_PIECE, "function": {"arguments": piece}}]})
        for piece in ('{"city":', '"Rome"}')
    ),
    _chunk({"content": "", "tool_calls": [{**_PIECE, "function": {"arguments": ""}}]}, "tool_calls"),
    _chunk(None, usage=_usage(170, 20)),
]

RECIPES = {
    "qwen": Recipe(
        path="/compatible-mode/v1/chat/completions",
        model="qwen3.8-flash",
        chat=Answered(_whole({"content": "Hello you"}, _usage(22, 17)), 22, 17, nanos=11_290),
        stream=Answered(streamed(*_STREAM), 1_500, 60, cached=1_024, nanos=115_984, thoughts="A greeting."),
        tools=called(
            _whole({"content": "", "tool_calls": [call("call_8f08d2b0fc0c", index=0)]}, _usage(170, 20), "tool_calls"),
            *(170, 20),
            nanos=34_900,
        ),
        tools_stream=called(streamed(*_CALL_STREAM), 170, 20, nanos=34_900),
        reasoning=Answered(_whole(_REASONED, _usage(22, 60, reasoning=40)), 22, 60, nanos=31_500, thoughts="A greeting."),
        error=Refused(json_reply({"error": _TOO_LONG, **_IDS}, 400), 400, "context_length_exceeded", "Range of input length"),
        refusal=Refused(json_reply({"error": _INSPECTED, **_IDS}, 400), 400, "content_filter", "inappropriate content"),
    )
}
