"""vLLM: ``vllm/entrypoints/openai/chat_completion/protocol.py`` in github.com/vllm-project/vllm; its events as in
github.com/vllm-project/vllm-ascend/issues/10940, its error as version 0.30 has it.
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

_MODEL = "Qwen/Qwen3.8-27B"
_TOO_LONG = {
    "message": "This model's maximum context length is 131072 tokens. However, you requested 16384 output tokens and your"
    " prompt contains at least 114689 input tokens, for a total of at least 131073 tokens. Please reduce the length of the"
    " input prompt or the number of requested output tokens. (parameter=input_tokens, value=114689)",
    "type": "BadRequestError",
    "param": "input_tokens",
    "code": 400,
}
_SORRY = "I'm sorry, but I can't help with that."
_REASONED = {"content": "Hello you", "reasoning": "A greeting."}
_NULLS = dict.fromkeys(("refusal", "annotations", "audio", "function_call"))


def _usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    details = {"cached_tokens": cached} if cached else None
    total = prompt + completion
    return {
        "prompt_tokens": prompt,
        "total_tokens": total,
        "completion_tokens": completion,
        "prompt_tokens_details": details,
    }


def _whole(message: dict[str, Any], prompt: int, completion: int, finish: str = "stop") -> Any:
    message = {"role": "assistant", **_NULLS, "reasoning": None, **message}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish, "stop_reason": None, "token_ids": None}
    head = {"id": "chatcmpl-8789903475a14a93", "object": "chat.completion", "created": 1_777_486_804, "model": _MODEL}
    tail = {"prompt_logprobs": None, "prompt_token_ids": None, "kv_transfer_params": None, "metrics": None}
    return json_reply(
        {
            **head,
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": "vllm-0.30.0-tp1-628bf3dd",
            "usage": _usage(prompt, completion),
            **tail,
        }
    )


def _chunk(delta: dict[str, Any] | None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": None}
    head = {"id": "chatcmpl-740c22ad", "object": "chat.completion.chunk", "created": 1_773_161_262, "model": _MODEL}
    return {**head, "choices": [] if delta is None else [choice], **fields}


_STREAM = [
    _chunk({"role": "assistant", "content": ""}, prompt_token_ids=None),
    _chunk({"reasoning": "A greeting."}),
    _chunk({"content": "Hello "}),
    _chunk({"content": "you"}),
    _chunk({"content": ""}, "stop"),
    _chunk(None, usage=_usage(2_000, 30, cached=1_920)),
]
_NAMED = {"id": "chatcmpl-tool-9cfff31470c8d39b", "type": "function", "index": 0, "function": {"name": "weather"}}
_CALL_STREAM = [
    _chunk({"role": "assistant", "content": ""}, prompt_token_ids=None),
    _chunk({"tool_calls": [_NAMED]}),
    *(_chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in ('{"city":', '"Rome"}')),
    _chunk({"content": ""}, "tool_calls"),
    _chunk(None, usage=_usage(377, 78)),
]

RECIPES = {
    "vllm": Recipe(
        path="/v1/chat/completions",
        model=_MODEL,
        chat=Answered(_whole({"content": "Hello you"}, 15, 3), 15, 3, nanos=4_800),
        stream=Answered(streamed(*_STREAM), 2_000, 30, cached=1_920, nanos=72_400, thoughts="A greeting."),
        tools=called(
            _whole({"content": None, "tool_calls": [call("chatcmpl-tool-9cfff31470c8d39b")]}, 377, 78, "tool_calls"),
            *(377, 78),
            nanos=122_200,
        ),
        tools_stream=called(streamed(*_CALL_STREAM), 377, 78, nanos=122_200),
        reasoning=Answered(_whole(_REASONED, 15, 43), 15, 43, nanos=28_800, thoughts="A greeting."),
        error=Refused(json_reply({"error": _TOO_LONG}, 400), 400, "context_length_exceeded", "maximum context length"),
        refusal=Answered(_whole({"content": _SORRY}, 15, 11), 15, 11, nanos=9_600, text=_SORRY),
    )
}
