"""Replies in Gemini's wire format, read: whole ones, the events of a stream, what refusals mean, and how much it is. Pure.

Whole or an event, each is a GenerateContentResponse: https://ai.google.dev/api/generate-content
"""

import json
from dataclasses import dataclass, field
from typing import Any

from completions.chat import Chunk, Usage, WholeReply
from completions.providers import wire
from completions.providers.exchange import InBandError, UnusableResponse, parse_error, read_each_event
from gateway_project import compact_json, identifiers

# STOP, and what nobody has heard of yet, is "stop".
_FINISH_REASONS = {
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        [
            "SAFETY",
            "RECITATION",
            "LANGUAGE",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "OTHER",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "IMAGE_OTHER",
        ],
        "content_filter",
    ),
}
_SHAPE_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


# --- A stream ---------------------------------------------------------------------------------------------------


class StreamReader:
    """The data of events in, Chunks out. There is no [DONE]: the finish reason is kept until the stream has ended."""

    has_ended = False

    def __init__(self) -> None:
        self.has_passed_on = False  # any chunk
        self.finish_reason: str | None = None  # in OpenAI's words
        self._has_begun = False
        self._calls = 0

    @property
    def has_finish_reason(self) -> bool:
        return self.finish_reason is not None

    def read_events(self, events: list[bytes]) -> tuple[list[Chunk], UnusableResponse | None]:
        """The chunks to pass on of the events that one read brought; and the failure that ended them, if one did."""
        chunks, failure = read_each_event(self._read, events)
        self.has_passed_on = self.has_passed_on or bool(chunks)
        return chunks, failure

    def last(self) -> list[Chunk]:
        """What ends the stream; only once there is a finish reason."""
        return [*self._role(), _chunk({}, finish_reason=self.finish_reason)]

    def _read(self, data: bytes) -> list[Chunk]:
        try:
            response = _response(data)
            said = _said(response)
            # Of a call in an earlier event, the one that finishes says nothing.
            finish_reason = _finish_reason(response, has_calls=bool(self._calls or said.calls))
        except _SHAPE_ERRORS as error:
            raise UnusableResponse("an event is not a response") from error
        self.finish_reason = finish_reason or self.finish_reason
        chunks = []
        if said.text or said.thoughts or said.calls or said.logprobs:
            chunks = [*self._role(), _chunk(self._delta(said), logprobs=said.logprobs, text_bytes=said.text_bytes)]
        usage = parse_usage(response.get("usageMetadata"))
        return [*chunks, Chunk(b"[]", usage=usage)] if usage else chunks

    def _role(self) -> list[Chunk]:
        if self._has_begun:
            return []
        self._has_begun = True
        return [_chunk({"role": "assistant", "content": ""})]

    def _delta(self, said: "_Said") -> dict[str, Any]:
        delta = said.message()
        if said.calls:
            delta["tool_calls"] = [{"index": self._calls + index, **call} for index, call in enumerate(said.calls)]
        self._calls += len(said.calls)
        return delta


def _chunk(delta: dict[str, Any], *, finish_reason: str | None = None, logprobs: Any = None, text_bytes: int = 0) -> Chunk:
    choices = [{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}]
    return Chunk(compact_json.dumps_ascii(choices), text_bytes, has_finish_reason=finish_reason is not None)


# --- A whole reply ----------------------------------------------------------------------------------------------


def parse_reply(body: bytes) -> WholeReply:
    """A GenerateContentResponse. Raises UnusableResponse."""
    try:
        response = _response(body)
        said = _said(response)
        finish_reason = _finish_reason(response, has_calls=bool(said.calls))
        if not response.get("candidates") and not finish_reason:
            raise ValueError("no candidates")
    except _SHAPE_ERRORS as error:
        raise UnusableResponse(f"{len(body)} bytes are not a response: {type(error).__name__}") from error
    message = {"role": "assistant", "content": None if said.calls else "", "refusal": None, **said.message()}
    choice = {"index": 0, "message": message, "logprobs": said.logprobs, "finish_reason": finish_reason or "stop"}
    usage = parse_usage(response.get("usageMetadata"))
    return WholeReply(choices=wire.replace_lone_surrogates(body, [choice]), usage=usage, text_bytes=said.text_bytes)


# --- What both are made of --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Said:
    """What the parts of a response say, in OpenAI's words."""

    text: str = ""
    thoughts: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: dict[str, Any] | None = None

    @property
    def text_bytes(self) -> int:
        called = [call["function"][name] for call in self.calls for name in ("name", "arguments")]
        return sum(map(wire.text_bytes, [self.text, self.thoughts, *called]))

    def message(self) -> dict[str, Any]:
        """The fields of a message, or of a delta, that are not empty."""
        fields = {"content": self.text, "reasoning_content": self.thoughts, "tool_calls": self.calls}
        return {name: value for name, value in fields.items() if value}


def _response(data: bytes) -> dict[str, Any]:
    response = wire.parse_json(data)
    if not isinstance(response, dict):
        raise ValueError("not an object")
    if error := response.get("error"):
        raise InBandError(parse_error(data) or "an error without a message", _error_status(error))
    return response


def _candidate(response: dict[str, Any]) -> dict[str, Any]:
    candidates = response.get("candidates")
    candidate: dict[str, Any] = candidates[0] if candidates else {}
    return candidate


def _said(response: dict[str, Any]) -> _Said:
    candidate = _candidate(response)
    said = _Said(logprobs=_logprobs(candidate.get("logprobsResult")))
    for part in (candidate.get("content") or {}).get("parts") or []:
        if (call := part.get("functionCall")) is not None:
            said.calls.append(_call(call, part.get("thoughtSignature")))
        elif part.get("thought"):
            said.thoughts += part.get("text") or ""
        else:  # images, and code that ran, have no place in a message; nobody could have asked for them
            said.text += part.get("text") or ""
    return said


def _call(call: dict[str, Any], signature: Any) -> dict[str, Any]:
    arguments = compact_json.text(call.get("args") or {})
    if not isinstance(call["name"], str):
        raise TypeError("a function without a name")
    function = {"name": call["name"], "arguments": arguments}
    made = {"id": f"call_{identifiers.short_uuid7()}", "type": "function", "function": function}
    # As at Google's OpenAI-compatible endpoint, whose clients send it back: ai.google.dev/gemini-api/docs/thought-signatures
    if not isinstance(signature, str):
        return made
    return {**made, "extra_content": {"google": {"thought_signature": signature}}}


def _finish_reason(response: dict[str, Any], *, has_calls: bool) -> str | None:
    """None when the reply goes on. A prompt that was blocked has no candidates at all."""
    if not response.get("candidates"):
        return "content_filter" if (response.get("promptFeedback") or {}).get("blockReason") else None
    theirs = _candidate(response).get("finishReason")
    ours = _FINISH_REASONS.get(theirs, "stop") if theirs else None
    return "tool_calls" if ours == "stop" and has_calls else ours


def _logprobs(result: Any) -> dict[str, Any] | None:
    if not result:
        return None
    chosen = result.get("chosenCandidates") or []
    top = [step.get("candidates") or [] for step in result.get("topCandidates") or []]
    top += [[]] * (len(chosen) - len(top))
    content = [
        {**_token(token), "top_logprobs": [_token(other) for other in others]}
        for token, others in zip(chosen, top, strict=False)
    ]
    return {"content": content, "refusal": None}


def _token(candidate: dict[str, Any]) -> dict[str, Any]:
    token, logprob = candidate.get("token") or "", candidate.get("logProbability", 0.0)
    if type(logprob) not in (int, float):
        raise TypeError("a probability that is no number")
    return {"token": token, "logprob": logprob, "bytes": list(token.encode(errors="replace"))}


# --- How much it is ---------------------------------------------------------------------------------------------


def parse_usage(metadata: Any) -> Usage | None:
    """A UsageMetadata, or None when it is not one that can be true. What is zero, it leaves out; no prompt is.

    Thoughts are generated tokens; whether ``candidatesTokenCount`` has them already, the total tells.
    """
    if not isinstance(metadata, dict) or "promptTokenCount" not in metadata:
        return None
    names = ("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    counts = [metadata.get(name, 0) for name in names]
    if not all(wire.is_token_count(count) for count in counts):
        return None
    prompt, tool_use, generated, thoughts = counts
    if prompt + tool_use + generated != metadata.get("totalTokenCount"):
        generated += thoughts
    prompt += tool_use
    cached = metadata.get("cachedContentTokenCount")
    return Usage(
        prompt,
        generated,
        cached_tokens=min(cached, prompt) if wire.is_token_count(cached) else 0,
        reasoning_tokens=min(thoughts, generated),
    )


# --- Refusing ---------------------------------------------------------------------------------------------------


def read_refusal(status: int, body: bytes) -> tuple[int, str]:
    """What a refusal's status should have been, and the seconds to wait, "" when it does not say.

    Google answers a wrong key, and a country or a bill that it does not like, with 400, as if the caller were at fault.
    """
    try:
        response = json.loads(body)
        error = (response[0] if isinstance(response, list) else response)["error"]
        return (_error_status({**error, "code": status}), _wait_seconds(error))
    except _SHAPE_ERRORS:
        return status, ""


def _error_status(error: Any) -> int:
    if not isinstance(error, dict):
        return 500
    reasons = [str(detail.get("reason")) for detail in _details(error)]
    is_about_key = any(reason.startswith("API_KEY_") for reason in reasons)
    is_about_us = is_about_key or error.get("status") == "FAILED_PRECONDITION" or _names_key(error.get("message"))
    status = error.get("code")
    if status == 400 and is_about_us:
        return 403
    return status if type(status) is int and 400 <= status <= 599 else 500


def _names_key(message: Any) -> bool:
    return isinstance(message, str) and message.lower().startswith("api key ")


def _wait_seconds(error: dict[str, Any]) -> str:
    """Of "58s" or "58.9s", as RetryInfo has it, the next whole second."""
    for detail in _details(error):
        whole, point, _ = str(detail.get("retryDelay", "")).removesuffix("s").partition(".")
        if whole.isascii() and whole.isdigit() and len(whole) < 10:
            return str(int(whole) + 1) if point else whole
    return ""


def _details(error: dict[str, Any]) -> list[dict[str, Any]]:
    details = error.get("details")
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
