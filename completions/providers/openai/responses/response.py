"""Reads replies of OpenAI's Responses: whole ones, the events of a stream and errors, in the terms of chat. Pure."""

import json
import re
from functools import partial
from typing import Any

from completions.chat import Chunk, WholeReply
from completions.pricing.usage import Usage
from completions.providers import error_body, sealed_reasoning, wire
from completions.providers.error_body import ProviderError
from completions.providers.exchange import InBandError, UnusableResponse
from completions.providers.reported_usage import Report
from completions.providers.sealed_reasoning import PlacedReasoning, Seal
from completions.providers.translated_streams import StreamedCall, TranslatedStream
from completions.request.fields import Fields

_FORMAT = "openai-responses-v1"  # of reasoning, in OpenRouter's words
_INCOMPLETE = {"content_filter": "content_filter"}  # every other reason is a limit of tokens
# Type of a call -> its type in chat, and the member of either that has its input.
_CALLS = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
# Type of an event -> the member of a delta that has its text.
_TEXTS = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning_content",
    "response.reasoning_text.delta": "reasoning_content",
}
_BETWEEN_PARTS = "\n\n"  # of a summary
# Code of an error -> HTTP status, where the error arrives with a 2xx status.
_STATUSES = {
    **{"invalid_api_key": 401, "insufficient_quota": 402, "rate_limit_exceeded": 429, "too_many_requests": 429},
    **{"server_is_overloaded": 503, "slow_down": 503, "vector_store_timeout": 504},
}
# Codes of what OpenAI does not do for this request. Others fail whatever is asked, and another route may not.
_ABOUT_REQUEST = re.compile("image|policy|^invalid_")
_SEARCH = "web_search_call"
_SENT_BACK = ("type", "id", "summary", "content", "encrypted_content")  # of an item of reasoning
_chunk = partial(wire.chunk, logprobs=None)


# --- A stream ---------------------------------------------------------------------------------------------------


class StreamReader(TranslatedStream):
    """Converts the data of events to Chunks: none before the first item, so that a failure before has a status of its own."""

    chunk = staticmethod(_chunk)
    form = _FORMAT

    def __init__(self, seal: Seal | None = None, *, searches: bool = False, report: Report | None = None) -> None:
        super().__init__(report or Report())
        self._searches = searches
        self._reasoning = _Reasoning(seal)

    def _read(self, event: Fields) -> list[Chunk]:
        kind = event.get("type")
        if member := _TEXTS.get(kind or ""):
            text = event["delta"]
            if member == "reasoning_content":
                return self._reasoned(text, self._reasoning.index)
            return self._said(member, text, logprobs=_logprobs(event.get("logprobs"))) if text else []
        match kind:
            case "response.output_item.added":
                return self._begin_item(event["output_index"], event["item"])
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                return self._called(event["output_index"], event["delta"])
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return self._reasoned(_BETWEEN_PARTS, self._reasoning.index)
            case "response.output_text.annotation.added" if self._searches:
                return [*self._begin(), _chunk({"annotations": _citations([event["annotation"]])})]
            case "response.output_item.done":
                return self._end_item(event["output_index"], event["item"])
            case "response.completed" | "response.incomplete":
                return self._end(event["response"])
            case "response.failed":
                response = event["response"]
                raise read_error(response.get("error") or {}, _usage(response, self._report, searches=self._searches))
            case "error":
                raise read_error(event.get("error") or event)
            case _ if isinstance(response := event.get("response"), dict):  # it has begun: OpenAI's word is what was asked for
                self._report.note_tier("service_tier", response.get("service_tier"))
        if error_body.is_error(event) and not kind:
            raise read_error(event["error"] if isinstance(event.get("error"), dict) else event)
        return []  # also for the types that OpenAI may add

    def _begin_item(self, index: int, item: Fields) -> list[Chunk]:
        match item["type"]:
            case "reasoning":
                self._reasoning.begin((self._characters, len(self._calls)))
            case "function_call" | "custom_tool_call" as kind:
                return self._begin_call(index, StreamedCall(len(self._calls), *_CALLS[kind]), item["call_id"], item["name"])
        return []

    def _end_item(self, index: int, item: Fields) -> list[Chunk]:
        if item["type"] == "reasoning":
            return self._detailed(self._reasoning.end(item))
        if item["type"] == _SEARCH and self._searches:
            self._begins = True
            return [*self._begin(), _chunk({"web_searches": [_search(item, self._report)]})]
        call = self._calls.get(index)
        if call and not call.has_input:  # some servers tell the input of a call at its end alone
            return self._called(index, item[call.member])
        return []

    def _end(self, response: Fields) -> list[Chunk]:
        usage = _usage(response, self._report, searches=self._searches)
        reason = _finish_reason(response, has_calls=bool(self._calls))
        chunks = [*self._begin(), _chunk({}, finish_reason=reason), *self._usage(usage)]
        self.has_finish_reason = self.has_ended = True
        return chunks


class _Reasoning(PlacedReasoning):
    """The items of reasoning of one reply."""

    def end(self, item: Fields) -> Fields | None:
        """Return the detail of an item that has ended; None where it cannot be sent back: OpenAI has not stored it."""
        kept = {name: item[name] for name in _SENT_BACK if item.get(name) or name == "summary" and name in item}
        self.index += 1
        if self._seal is None or not (kept.get("encrypted_content") or kept.get("content")):
            return None
        return sealed_reasoning.hidden_detail(self._sealed({"item": kept}), _FORMAT, self.index - 1)


# --- Searches ---------------------------------------------------------------------------------------------------


def _search(item: Fields, report: Report) -> Fields:
    """Count a search of the web. Return what the caller is told of it. No usage says how many there were: each is an item.

    A page that is opened, or searched itself, is an item of the same type, and costs no more than its tokens. Neither does a
    search that failed.
    """
    given = item.get("action")
    action: Fields = given if isinstance(given, dict) else {"type": "search"}
    report.results += action.get("type", "search") == "search" and item.get("status") != "failed"
    return {"action": action}


def _found(items: list[Fields], report: Report) -> Fields:
    """Count the searches of a whole reply. Return them, and what its text cites, as members of chat's message."""
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    cited = [each for part in parts for each in _citations(part.get("annotations"))]
    return {"web_searches": [_search(item, report) for item in items if item["type"] == _SEARCH], "annotations": cited}


def _citations(annotations: Any) -> list[Fields]:
    found = annotations if isinstance(annotations, list) else []
    return [each for each in found if isinstance(each, dict) and each.get("type") == "url_citation"]


# --- A whole reply ----------------------------------------------------------------------------------------------


def parse_reply(body: bytes, seal: Seal | None = None, *, searches: bool = False, report: Report | None = None) -> WholeReply:
    """Return the reply in a response object. Raises UnusableResponse."""
    report = report or Report()
    try:
        reply = wire.parse_json(body)
        if error := reply.get("error"):
            raise read_error(error if isinstance(error, dict) else {"message": error})
        message, logprobs = _message(reply["output"], seal)
        if searches:
            message |= _found(reply["output"], report)
        reason = _finish_reason(reply, has_calls=bool(message.get("tool_calls")))
        text_bytes = wire.generated_bytes(message)
    except wire.MALFORMED as error:
        raise UnusableResponse(f"{len(body)} bytes are not a response: {type(error).__name__}") from error
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": reason}
    choices = wire.replace_lone_surrogates(body, [choice])
    return WholeReply(choices, usage=_usage(reply, report, searches=searches), text_bytes=text_bytes)


def _message(items: list[Fields], seal: Seal | None) -> tuple[Fields, Fields | None]:
    """Return the message of the items, and the probabilities of its tokens. Items of other types have no place in chat."""
    reasoning = _Reasoning(seal)
    texts, thoughts, logprobs = {"output_text": "", "refusal": ""}, list[str](), list[Any]()
    details, calls, ids = list[Fields](), list[Fields](), set[str]()
    for item in items:
        match item["type"]:
            case "message":
                for part in item["content"]:
                    if (kind := part["type"]) in texts:
                        texts[kind] += part["text" if kind == "output_text" else "refusal"]
                        logprobs += part.get("logprobs") or []
            case "reasoning":
                reasoning.begin((len(texts["output_text"]) + len(texts["refusal"]), len(calls)))
                # A summary, and at other makers the text itself.
                shown = [part["text"] for name in ("summary", "content") for part in item.get(name) or []]
                if text := _BETWEEN_PARTS.join(shown):
                    thoughts.append(text)
                    details.append(sealed_reasoning.text_detail(text, _FORMAT, reasoning.index))
                if detail := reasoning.end(item):
                    details.append(detail)
            case "function_call" | "custom_tool_call":
                calls.append(_call(item, ids))
    message = {
        "role": "assistant",
        "content": None if not texts["output_text"] and (calls or texts["refusal"]) else texts["output_text"],
        "refusal": texts["refusal"] or None,
        **{name: "".join(thoughts) for name in ("reasoning_content", "reasoning") if thoughts},
        **({"reasoning_details": details} if details else {}),
        **({"tool_calls": calls} if calls else {}),
    }
    return message, _logprobs(logprobs)


def _call(item: Fields, ids: set[str]) -> Fields:
    kind, member = _CALLS[item["type"]]
    called = {"name": item["name"], member: item[member]}
    if not (isinstance(called["name"], str) and isinstance(called[member], str)):
        raise TypeError("a call without a name, or without its input")
    return {"id": wire.own_id(item["call_id"], ids), "type": kind, kind: called}


def _finish_reason(response: Fields, *, has_calls: bool) -> str:
    match response.get("status"):
        case "completed":
            return "tool_calls" if has_calls else "stop"
        case "incomplete":
            return _INCOMPLETE.get((response.get("incomplete_details") or {}).get("reason", ""), "length")
    raise ValueError(f"a response that is {response.get('status')}")


def _logprobs(tokens: Any) -> Fields | None:
    return {"content": [_token(token) for token in tokens], "refusal": None} if tokens else None


def _token(token: Fields) -> Fields:
    """Return a token in chat's words, which has bytes and a list of others."""
    known = {"token": token["token"], "logprob": token["logprob"]}
    encoded = token.get("bytes") or list(token["token"].encode(errors="replace"))
    others = [{**other, "bytes": list(other["token"].encode(errors="replace"))} for other in token.get("top_logprobs") or []]
    return {**known, "bytes": encoded, "top_logprobs": others}


# --- Usage and errors -------------------------------------------------------------------------------------------


def _usage(response: Fields, report: Report, *, searches: bool) -> Usage | None:
    report.note_tier("service_tier", response.get("service_tier"))
    report.is_number_of_searches_final = not searches
    return report.add(response.get("usage"))


def read_error(error: Fields, usage: Usage | None = None) -> InBandError:
    """Return the exception for an error that arrived with a 2xx status: one without a code is of the server."""
    parsed = error_body.from_json({"error": error})
    message = parsed.message or f"it reports {json.dumps(error)[:200]}"
    is_about_request = parsed.caller_code or _ABOUT_REQUEST.search(parsed.code) or error.get("type") == "invalid_request_error"
    status = _STATUSES.get(parsed.code) or parsed.status or (400 if is_about_request else 500)
    return InBandError(ProviderError(message, parsed.code, parsed.param, parsed.names), status, usage)
