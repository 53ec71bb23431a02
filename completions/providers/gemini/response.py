"""Reads replies in Gemini's wire format: whole ones, the events of a stream and errors, in OpenAI's terms. Pure.

A whole reply and an event are the same object, a GenerateContentResponse: https://ai.google.dev/api/generate-content
"""

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from completions.chat import Chunk, WholeReply
from completions.providers import error_body, finish_reasons, sealed_reasoning, wire
from completions.providers.error_body import ProviderError
from completions.providers.exchange import InBandError, UnusableResponse
from completions.providers.gemini.messages import OWN_ID
from completions.providers.reported_usage import GEMINI, Report
from completions.providers.sealed_reasoning import Seal
from completions.providers.translated_streams import TranslatedStream
from completions.request.fields import Fields
from gateway_project.text import compact_json

_FORMAT = "google-gemini-v1"  # of reasoning, in OpenRouter's words
_chunk = partial(wire.chunk, logprobs=None)


# --- A stream ---------------------------------------------------------------------------------------------------


class StreamReader(TranslatedStream):
    """Converts the data of events to Chunks. The stream has no end marker: ``last`` returns the finish reason at its end."""

    chunk = staticmethod(_chunk)

    def __init__(self, seal: Seal | None = None, report: Report | None = None) -> None:
        super().__init__(report or Report(GEMINI))
        self._seal = seal
        self._signatures = self._calls_before = 0
        self.finish_reason: str | None = None  # OpenAI's

    def last(self) -> list[Chunk]:
        """Return the chunk that ends the stream. Call it only after a finish reason has arrived."""
        return [*self._begin(), _chunk({}, finish_reason=self.finish_reason)]

    def _read(self, event: Fields) -> list[Chunk]:
        response = _checked(event)
        generated = _generated(response, self._seal, self._ids, self._signatures)
        # The event with the finish reason does not repeat the calls of earlier events.
        finish_reason, unknown = _finish_reason(response, has_calls=bool(self._calls_before or generated.calls))
        self.finish_reason, self.unknown_reason = finish_reason or self.finish_reason, unknown or self.unknown_reason
        self.has_finish_reason = self.finish_reason is not None
        chunks = []
        self._signatures += len(generated.signatures)
        late = generated.take_signatures_of_text()
        if generated.text or generated.thoughts or generated.calls or generated.logprobs:
            delta = generated.message()
            text_bytes = wire.generated_bytes(delta)
            if generated.calls:
                delta["tool_calls"] = [
                    {"index": index, **call} for index, call in enumerate(generated.calls, self._calls_before)
                ]
                self._calls_before += len(generated.calls)
            chunks = [*self._begin(), _chunk(delta, logprobs=generated.logprobs, text_bytes=text_bytes)]
        chunks += [*self._begin(), _chunk({"reasoning_details": late})] if late else []
        return chunks + self._usage(self._report.add(response.get("usageMetadata")))


# --- A whole reply ----------------------------------------------------------------------------------------------


def parse_reply(body: bytes, seal: Seal | None = None, report: Report | None = None) -> WholeReply:
    """Return the reply in a GenerateContentResponse. Raises UnusableResponse."""
    try:
        response = _checked(wire.parse_json(body))
        generated = _generated(response, seal, set())
        finish_reason, unknown = _finish_reason(response, has_calls=bool(generated.calls))
        if not response.get("candidates") and not finish_reason:
            raise ValueError("no candidates")
    except wire.MALFORMED as error:
        raise UnusableResponse(f"{len(body)} bytes are not a response: {type(error).__name__}") from error
    message = {"role": "assistant", "content": None if generated.calls else "", "refusal": None, **generated.message()}
    choice = {"index": 0, "message": message, "logprobs": generated.logprobs, "finish_reason": finish_reason or "stop"}
    usage = (report or Report(GEMINI)).add(response.get("usageMetadata"))
    choices = wire.replace_lone_surrogates(body, [choice])
    return WholeReply(choices, usage=usage, text_bytes=wire.generated_bytes(message), unknown_finish_reason=unknown)


# --- A GenerateContentResponse ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Generated:
    """The output of the model in one response, in OpenAI's terms. ``signatures`` are sealed, as details of its reasoning."""

    text: str = ""
    thoughts: str = ""
    calls: list[Fields] = field(default_factory=list)
    logprobs: Fields | None = None
    signatures: list[Fields] = field(default_factory=list)

    def take_signatures_of_text(self) -> list[Fields]:
        """Remove the signatures that belong to text: in a stream they come after it."""
        taken = [detail for detail in self.signatures if "id" not in detail]
        self.signatures = [detail for detail in self.signatures if "id" in detail]
        return taken

    def message(self) -> Fields:
        """Return the fields of a message, or of a delta, that are not empty."""
        shown = sealed_reasoning.text_members(self.thoughts, _FORMAT) if self.thoughts else {}
        details = [*shown.get("reasoning_details", []), *self.signatures]
        fields = {"content": self.text, **shown, "reasoning_details": details, "tool_calls": self.calls}
        return {name: value for name, value in fields.items() if value}


def _checked(response: Fields) -> Fields:
    """Return a response that is no error. Raises InBandError."""
    if error := response.get("error"):
        parsed = error_body.from_json(response)
        message = parsed.message or "an error without a message"
        raise InBandError(ProviderError(message, names=parsed.names), _error_status(error))
    return response


def _generated(response: Fields, seal: Seal | None, ids: set[str], signatures: int = 0) -> _Generated:
    """Return what one response has. ``ids`` of calls, and as many ``signatures``, came before it in the reply."""
    candidate = response["candidates"][0] if response.get("candidates") else {}
    generated = _Generated(logprobs=_logprobs(candidate.get("logprobsResult")))
    for part in (candidate.get("content") or {}).get("parts") or []:
        signature, call_id = part.get("thoughtSignature"), None
        if (call := part.get("functionCall")) is not None:
            generated.calls.append(_call(call, signature, ids))
            call_id = generated.calls[-1]["id"]
        if seal and isinstance(signature, str) and signature and not part.get("thought"):
            sealed = seal({"signature": signature, "call": call_id})
            index = 1 + signatures + len(generated.signatures)  # 0 is that of the text
            generated.signatures.append(sealed_reasoning.hidden_detail(sealed, _FORMAT, index, call_id))
        if call is not None:
            continue
        if part.get("thought"):
            generated.thoughts += part.get("text") or ""
        else:  # parts without text, such as images and code that ran, have no place in a message; no request can ask for them
            generated.text += part.get("text") or ""
    return generated


def _call(call: Fields, signature: Any, ids: set[str]) -> Fields:
    arguments = compact_json.dumps_text(call.get("args") or {})
    if not isinstance(call["name"], str):
        raise TypeError("a function without a name")
    function = {"name": call["name"], "arguments": arguments}
    given = call.get("id")
    own_id = wire.own_id(f"{OWN_ID}{given}" if isinstance(given, str) and given else None, ids)
    tool_call = {"id": own_id, "type": "function", "function": function}
    # Placed as at Google's OpenAI-compatible endpoint, so that its clients send it back:
    # ai.google.dev/gemini-api/docs/thought-signatures
    if not isinstance(signature, str):
        return tool_call
    return {**tool_call, "extra_content": {"google": {"thought_signature": signature}}}


def _finish_reason(response: Fields, *, has_calls: bool) -> tuple[str | None, str]:
    """Return OpenAI's finish reason, None when the reply continues; and an unknown word. Raises InBandError for a failure."""
    if not response.get("candidates"):
        return "content_filter" if (response.get("promptFeedback") or {}).get("blockReason") else None, ""
    candidate = response["candidates"][0]
    if not (theirs := candidate.get("finishReason")):
        return None, ""
    ours, unknown = finish_reasons.read(theirs, finish_reasons.GEMINI)
    if ours == finish_reasons.FAILURE:
        raise InBandError(ProviderError(f"{theirs}: {candidate.get('finishMessage') or 'the model made no valid call'}"), 500)
    return "tool_calls" if ours == "stop" and has_calls else ours, unknown


def _logprobs(result: Any) -> Fields | None:
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


def _token(candidate: Fields) -> Fields:
    token, logprob = candidate.get("token") or "", candidate.get("logProbability", 0.0)
    if type(logprob) not in (int, float):
        raise TypeError("a probability that is not a number")
    return {"token": token, "logprob": logprob, "bytes": list(token.encode(errors="replace"))}


# --- Errors -----------------------------------------------------------------------------------------------------


def read_refusal(status: int, body: bytes) -> tuple[int, str]:
    """Return the status that a refusal should have had: Google sends 400 for a wrong key, too; and the seconds to wait."""
    try:
        response = json.loads(body)
        error = (response[0] if isinstance(response, list) else response)["error"]
        return (_error_status({**error, "code": status}), _wait_seconds(error))
    except wire.MALFORMED:
        return status, ""


def _error_status(error: Any) -> int:
    if not isinstance(error, dict):
        return 500
    reasons = [str(detail.get("reason")) for detail in _details(error)]
    is_about_key = any(reason.startswith("API_KEY_") for reason in reasons)
    names_key = isinstance(error.get("message"), str) and error["message"].lower().startswith("api key ")
    is_about_us = is_about_key or names_key or error.get("status") == "FAILED_PRECONDITION"
    status = error.get("code")
    if status == 400 and is_about_us:
        return 403
    return status if type(status) is int and 400 <= status <= 599 else 500


def _wait_seconds(error: Fields) -> str:
    """Return RetryInfo's delay, such as "58s" or "58.9s", rounded up to whole seconds."""
    for detail in _details(error):
        whole, point, _ = str(detail.get("retryDelay", "")).removesuffix("s").partition(".")
        if whole.isascii() and whole.isdigit() and len(whole) < 10:
            return str(int(whole) + 1) if point else whole
    return ""


def _details(error: Fields) -> list[Fields]:
    details = error.get("details")
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
