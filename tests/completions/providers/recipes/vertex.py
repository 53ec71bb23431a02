"""Vertex AI: docs.cloud.google.com/gemini-enterprise-agent-platform (models/migrate/openai, reference/models/inference,
models/partner-models/claude); a reply without a message as in github.com/agentgateway/agentgateway/issues/1464, errors as in
github.com/BerriAI/litellm/issues/18781 and github.com/cline/cline/issues/651.
"""

from typing import Any

from tests.completions.providers.anthropic import scripts as anthropic
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.providers.recipes.imitation import Answered, Recipe, Refused, call, called, json_reply, streamed

_ACCESS = {"authorization": r"Bearer ya29\.\S+"}
_PROJECT = "/v1/projects/PROJECT/locations/global"
_LITE, _HAIKU = "gemini-3.1-flash-lite", "claude-haiku-4-5@20251001"
_HEAD = {
    "created": 1_772_141_949,
    "id": "fb2gafiLBIK9odAP1tGMmQc",
    "model": "google/gemini-3.5-flash",
    "system_fingerprint": "",
}
_TRAFFIC = {"extra_properties": {"google": {"traffic_type": "ON_DEMAND"}}}
_SIGNED: dict[str, Any] = {"extra_content": {"google": {"thought_signature": gemini.SIGNATURE}}}
_MISSING = {
    "code": 404,
    "message": "Publisher Model `projects/PROJECT/locations/global/publishers/google/models/gemini-3.5-flash` was not found or"
    " your project does not have access to it. Please ensure you are using a valid model version. For more information, see:"
    " https://cloud.google.com/vertex-ai/generative-ai/docs/learn/model-versions",
    "status": "NOT_FOUND",
}
_EXHAUSTED = (
    "Resource exhausted. Please try again later. Please refer to"
    " https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details."
)
_DENIED = (
    "Permission 'aiplatform.endpoints.predict' denied on resource"
    f" '//aiplatform.googleapis.com{_PROJECT}/publishers/anthropic/models/{_HAIKU}' (or it may not exist)."
)


def _usage(prompt: int, completion: int, reasoning: int = 0) -> dict[str, Any]:
    """Return a usage, whose counts of 0 are left out, and whose ``completion_tokens`` is the visible text."""
    counts = {"completion_tokens": completion, "prompt_tokens": prompt, "total_tokens": prompt + completion + reasoning}
    details = {"completion_tokens_details": {"reasoning_tokens": reasoning}} if reasoning else {}
    return {**{name: count for name, count in counts.items() if count}, **details, **_TRAFFIC}


def _whole(message: dict[str, Any], usage: Any, finish: str = "stop") -> Any:
    choice = {"finish_reason": finish, "index": 0, "logprobs": None, **({"message": message} if message else {})}
    return json_reply({"choices": [choice], "object": "chat.completion", "usage": usage, **_HEAD})


def _chunk(delta: dict[str, Any], **fields: Any) -> dict[str, Any]:
    choice = {"delta": {"role": "assistant", **delta}, "index": 0, "logprobs": None}
    ended = {"finish_reason": fields.pop("finish")} if "finish" in fields else {}
    return {"choices": [{**choice, **ended}], "object": "chat.completion.chunk", **_HEAD, **fields}


_CALL = call("function-call-c855348a", **_SIGNED)
_HELLO = {"content": "Hello you", "role": "assistant"}
_STREAM = [
    _chunk({"content": "Hello "}),
    _chunk({"content": "you", "extra_content": _SIGNED["extra_content"]}, finish="stop", usage=_usage(9, 3, 43)),
]


def _counts(prompt: int, generated: int, cached: int = 0, thoughts: int = 0) -> dict[str, Any]:
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": generated, "totalTokenCount": prompt + generated + thoughts}
    others = {"cachedContentTokenCount": cached, "thoughtsTokenCount": thoughts}
    details = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}], "trafficType": "ON_DEMAND"}
    return {**counts, **{name: count for name, count in others.items() if count}, **details}


_ABOUT = {"modelVersion": _LITE, "createTime": "2026-11-20T08:40:38.791866Z"}
_THOUGHT = gemini.thought_part("A greeting.")
_CITY = gemini.call("weather", {"city": "Rome"}, gemini.SIGNATURE)
_GEMINI_STREAM = [
    gemini.response(_THOUGHT, usage={"trafficType": "ON_DEMAND"}, **_ABOUT),
    gemini.text_response("Hello ", usage={"trafficType": "ON_DEMAND"}, **_ABOUT),
    gemini.text_response("you", finish="STOP", usage=_counts(2_100, 3, 2_048, 40), **_ABOUT),
]
_BLOCKED = {
    "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
    "usageMetadata": {"promptTokenCount": 638, "totalTokenCount": 638, "trafficType": "ON_DEMAND"},
    **_ABOUT,
    "responseId": "Bh17abqqMOSS4_UPqqeqoAc",
}


def _gemini(*parts: dict[str, Any], usage: Any) -> Any:
    return gemini.answered(gemini.response(*parts, finish="STOP", usage=usage, **_ABOUT))


_CLAUDE = {"input_tokens": 12, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 6}
_CLAUDE_CACHED = {**_CLAUDE, "input_tokens": 21, "cache_read_input_tokens": 4_000, "output_tokens": 1}
_VERSION = {"anthropic_version": "vertex-2023-10-16"}

RECIPES = {
    "vertex": Recipe(
        path=f"{_PROJECT}/endpoints/openapi/chat/completions",
        model="google/gemini-3.5-flash",
        shows=_ACCESS,
        has_account=True,
        chat=Answered(_whole(_HELLO, _usage(9, 3)), 9, 3, nanos=40_500),
        stream=Answered(streamed(*_STREAM), 9, 46, nanos=427_500),
        tools=called(
            _whole({"role": "assistant", "tool_calls": [_CALL]}, _usage(66, 15), "tool_calls"),
            *(66, 15),
            nanos=234_000,
        ),
        tools_stream=called(
            streamed(_chunk({"tool_calls": [{**_CALL, "index": 0}]}, finish="tool_calls", usage=_usage(66, 15))),
            *(66, 15),
            nanos=234_000,
        ),
        reasoning=Answered(_whole(_HELLO, _usage(9, 3, 43)), 9, 46, nanos=427_500, sent={"reasoning_effort": "low"}),
        error=Refused(json_reply([{"error": _MISSING}], 404), 502, "upstream_error"),
        refusal=Answered(_whole({}, _usage(910, 0), "content_filter"), 910, 0, 1_365_000, text="", finish="content_filter"),
    ),
    "vertex-gemini": Recipe(
        path=f"{_PROJECT}/publishers/google/models/{_LITE}:generateContent",
        stream_path=f"{_PROJECT}/publishers/google/models/{_LITE}:streamGenerateContent?alt=sse",
        model=None,
        shows=_ACCESS,
        has_account=True,
        chat=Answered(_gemini({"text": "Hello you"}, usage=_counts(9, 3)), 9, 3, nanos=6_750),
        stream=Answered(gemini.streamed(*_GEMINI_STREAM), 2_100, 43, cached=2_048, nanos=128_700, thoughts="A greeting."),
        tools=called(_gemini(_CITY, usage=_counts(66, 15)), 66, 15, nanos=39_000),
        tools_stream=called(
            gemini.streamed(gemini.response(_CITY, finish="STOP", usage=_counts(66, 15), **_ABOUT)), 66, 15, nanos=39_000
        ),
        reasoning=Answered(
            _gemini(_THOUGHT, {"text": "Hello you"}, usage=_counts(9, 3, thoughts=43)),
            *(9, 46),
            nanos=71_250,
            thoughts="A greeting.",
        ),
        error=Refused(gemini.answered(gemini.error(429, "RESOURCE_EXHAUSTED", _EXHAUSTED), 429), 503, "upstream_error"),
        refusal=Answered(gemini.answered(_BLOCKED), 638, 0, nanos=159_500, text="", finish="content_filter"),
    ),
    "vertex-claude": Recipe(
        path=f"{_PROJECT}/publishers/anthropic/models/{_HAIKU}:rawPredict",
        stream_path=f"{_PROJECT}/publishers/anthropic/models/{_HAIKU}:streamRawPredict",
        model=None,
        shows=_ACCESS,
        has_account=True,
        chat=Answered(anthropic.whole(usage=_CLAUDE), 12, 6, nanos=42_000, sent=_VERSION),
        stream=Answered(
            anthropic.stream(
                anthropic.start(_CLAUDE_CACHED),
                anthropic.PING,
                anthropic.text("Hello ", "you"),
                anthropic.message_delta(usage={"output_tokens": 6}),
                anthropic.STOP,
            ),
            *(4_021, 6),
            cached=4_000,
            nanos=451_000,
            sent={**_VERSION, "stream": True},
        ),
        tools=called(
            anthropic.whole(
                anthropic.tool_use_block("toolu_vrtx_01", "weather", city="Rome"), stop_reason="tool_use", usage=_CLAUDE
            ),
            *(12, 6),
            nanos=42_000,
        ),
        tools_stream=called(
            anthropic.stream(
                anthropic.start({**_CLAUDE, "output_tokens": 1}),
                anthropic.tool("toolu_vrtx_01", "weather", '{"city":', '"Rome"}'),
                anthropic.message_delta("tool_use", {"output_tokens": 6}),
                anthropic.STOP,
            ),
            *(12, 6),
            nanos=42_000,
            sent={**_VERSION, "stream": True},
        ),
        reasoning=Answered(
            anthropic.whole(anthropic.thinking_block("A greeting."), anthropic.text_block("Hello you"), usage=_CLAUDE),
            *(12, 6),
            nanos=42_000,
            thoughts="A greeting.",
        ),
        error=Refused(gemini.answered(gemini.error(403, "PERMISSION_DENIED", _DENIED), 403), 502, "upstream_error"),
        refusal=Answered(
            anthropic.whole(anthropic.text_block("I can't"), stop_reason="refusal", usage=_CLAUDE),
            *(12, 6),
            nanos=42_000,
            text="I can't",
            finish="content_filter",
        ),
    ),
}
