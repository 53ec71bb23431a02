"""OpenRouter: openrouter.ai/docs (api/reference/streaming, errors-and-debugging, guides/best-practices/reasoning-tokens)."""

from typing import Any

from tests.completions.providers.recipes.imitation import (
    Answered,
    Recipe,
    Refused,
    call,
    call_deltas,
    called,
    json_reply,
    streamed,
)

_MODEL = "anthropic/claude-haiku-4.5"
_HEAD = {"id": "gen-1790265391-ZVhUC1KCyLNpE8fKfI0G", "provider": "Anthropic", "model": _MODEL, "created": 1_790_265_391}
_PROCESSING = b": OPENROUTER PROCESSING\n\n"
_DETAIL = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
_THOUGHT = {"reasoning": "A greeting.", "reasoning_details": [{**_DETAIL, "text": "A greeting."}]}
_SIGNED = {"reasoning": None, "reasoning_details": [{**_DETAIL, "signature": "EqoBCkgIARABGAIiQL"}]}
_BUSY = {
    "message": "Provider returned error",
    "code": 429,
    "metadata": {
        "raw": f"{_MODEL} is temporarily rate-limited upstream. Please retry shortly, or add your own key to accumulate your"
        " rate limits: https://openrouter.ai/settings/integrations",
        "provider_name": "Anthropic",
        "is_byok": False,
        "limit_source": "upstream_provider_shared_pool",
    },
}
_MODERATED = {
    "message": f'{_MODEL} requires moderation on Amazon Bedrock. Your input was flagged for "self-harm/instructions,'
    ' self-harm/intent". No credits were charged.',
    "code": 403,
    "metadata": {
        "reasons": ["self-harm/instructions", "self-harm/intent"],
        "flagged_input": "Say hello, please.",
        "provider_name": "Amazon Bedrock",
        "model_slug": _MODEL,
    },
}


def _usage(prompt: int, completion: int, cached: int = 0, written: int = 0, reasoning: int = 0) -> dict[str, Any]:
    read = {"cached_tokens": cached, "cache_write_tokens": written, "audio_tokens": 0, "video_tokens": 0}
    costs = {
        "upstream_inference_cost": 0.001,
        "upstream_inference_prompt_cost": 0,
        "upstream_inference_completions_cost": 0.001,
    }
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "cost": 0.001,
        "is_byok": False,
        "prompt_tokens_details": read,
        "cost_details": costs,
        "completion_tokens_details": {"reasoning_tokens": reasoning, "image_tokens": 0, "audio_tokens": 0},
    }


def _whole(message: dict[str, Any], usage: Any, finish: str = "stop", native: str = "end_turn") -> Any:
    message = {"role": "assistant", "content": None, "refusal": None, "reasoning": None, **message}
    ended = {"logprobs": None, "finish_reason": finish, "native_finish_reason": native}
    tail = {"system_fingerprint": None, "service_tier": "default", "usage": usage}
    return json_reply({**_HEAD, "object": "chat.completion", "choices": [{**ended, "index": 0, "message": message}], **tail})


def _chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    ended = {"finish_reason": finish, "native_finish_reason": "end_turn" if finish else None, "logprobs": None}
    choice = {"index": 0, "delta": {"content": "", "role": "assistant", **delta}, **ended}
    return {**_HEAD, "object": "chat.completion.chunk", "choices": [choice], **fields}


# The last event repeats the finish reason.
_STREAM = [
    _PROCESSING,
    _chunk(_THOUGHT),
    _chunk(_SIGNED),
    _PROCESSING,
    _chunk({"content": "Hello "}),
    _chunk({"content": "you"}),
    _chunk({}, "stop"),
    _chunk({}, "stop", usage=_usage(5_021, 20, cached=4_000, written=1_000, reasoning=14)),
]
_REASONED = {
    "content": "Hello you",
    "reasoning": "A greeting.",
    "reasoning_details": [{**_DETAIL, "text": "A greeting.", "signature": "EqoBCkgIARABGAIiQL"}],
}
_CALL_STREAM = [
    _PROCESSING,
    *(_chunk({"content": None, **delta}) for delta in call_deltas("toolu_bdrk_01", "", '{"city":', '"Rome"}')),
    _chunk({}, "tool_calls"),
    _chunk({}, "tool_calls", usage=_usage(66, 15)),
]

RECIPES = {
    "openrouter": Recipe(
        path="/api/v1/chat/completions",
        model=_MODEL,
        chat=Answered(_whole({"content": "Hello you"}, _usage(14, 9)), 14, 9, nanos=59_000),
        stream=Answered(streamed(*_STREAM), 5_021, 20, cached=4_000, nanos=1_771_000, thoughts="A greeting."),
        tools=called(
            _whole({"tool_calls": [call("toolu_bdrk_01", index=0)]}, _usage(66, 15), "tool_calls", "tool_use"),
            *(66, 15),
            nanos=141_000,
        ),
        tools_stream=called(streamed(*_CALL_STREAM), 66, 15, nanos=141_000),
        reasoning=Answered(_whole(_REASONED, _usage(14, 50, reasoning=40)), 14, 50, nanos=264_000, thoughts="A greeting."),
        error=Refused(json_reply({"error": _BUSY, "user_id": "user_2x"}, 429), 503, "upstream_error"),
        refusal=Refused(json_reply({"error": _MODERATED}, 403), 400, "content_filter", "Your input was flagged"),
    )
}
