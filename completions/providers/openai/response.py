"""Replies in OpenAI's wire format, read: whole ones, the events of a stream, errors, and how much text is in each. Pure."""

import json
import re
from typing import Any

from completions.chat import Chunk, Usage, WholeReply
from completions.providers import wire
from completions.providers.exchange import UnusableResponse, read_each_event
from gateway_project import compact_json

# The choices of an event that brings text and nothing else: all of them, so that what matches is valid JSON by itself.
_TEXT = rb'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*)*'
_PLAIN = re.compile(
    rb'\[\{"index":0,"delta":\{(?:"role":"assistant",)?"content":"(' + _TEXT + rb')"(?:,"\w+":null)*\}(?:,"\w+":null)*\}\]'
)


# --- A stream ---------------------------------------------------------------------------------------------------


class StreamReader:
    """The data of events in, Chunks out. ``choices``: how many were asked for.

    Most events of a stream differ in their choices alone. So the bytes before and after the choices of one event are
    remembered, and an event between the same bytes needs no parsing: a JSON round trip a token is what a relay cannot afford.
    """

    def __init__(self, choices: int = 1) -> None:
        self.has_passed_on = False  # any chunk
        self._choices = choices
        self._begun: set[int] = set()  # the choices whose role came
        self._ended: set[int] = set()  # ... and whose finish reason did
        self.has_ended = False  # [DONE] came; what comes behind it is nothing
        self._before, self._after = b"\x00", b"\x00"  # which no event begins or ends with

    @property
    def has_finish_reason(self) -> bool:
        """Nothing more is to come of any choice. Not every upstream knows of several: then [DONE] says so."""
        return len(self._ended) >= self._choices or (self.has_ended and bool(self._ended))

    def read_events(self, events: list[bytes]) -> tuple[list[Chunk], UnusableResponse | None]:
        """The chunks to pass on of the events that one read brought; and the failure that ended them, if one did."""
        chunks, failure = read_each_event(self._read, events)
        if failure and not self.has_finish_reason and not any(chunk.text_bytes for chunk in chunks):
            chunks = []  # an error right after the role is still an early one, which a true status can tell
        self.has_passed_on = self.has_passed_on or bool(chunks)
        return chunks, failure

    def _read(self, data: bytes) -> list[Chunk]:
        if self.has_ended:
            return []
        if data == b"[DONE]":
            self.has_ended = True
            return []
        if data.startswith(self._before) and data.endswith(self._after) and not self._ended:
            plain = _PLAIN.fullmatch(data, len(self._before), len(data) - len(self._after))
            if plain and _is_utf8(plain[1]):
                return [Chunk(plain[0], text_bytes=_unescaped_bytes(plain[1]))]
        return self._parse(data)

    def _parse(self, data: bytes) -> list[Chunk]:
        try:
            event = wire.parse_json(data)
            if not isinstance(event, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            raise UnusableResponse("an event is not JSON") from error
        if event.get("error"):
            raise UnusableResponse(f"it reports {json.dumps(event['error'])}")
        self._remember(data.decode())
        chunks = []
        if choices := self._once(event.get("choices") or []):
            chunks.append(self._chunk(choices))
        if usage := parse_usage(event.get("usage")):
            chunks.append(Chunk(b"[]", usage=usage))
        return chunks

    def _once(self, choices: Any) -> list[Any]:
        """Each begins with a role and has one finish reason, whatever the upstream forgets or repeats."""
        try:
            choices = [choice for choice in choices if choice.get("index", 0) not in self._ended or _is_worth(choice)]
            for choice in choices:
                index = choice.get("index", 0)
                if index not in self._begun:
                    delta = choice.get("delta") or {}
                    choice["delta"] = {**delta, "role": delta.get("role") or "assistant"}
                if index in self._ended:
                    choice["finish_reason"] = None
                self._begun.add(index)
        except (AttributeError, TypeError) as error:
            raise UnusableResponse("an event's choices are not choices") from error
        return list(choices)

    def _chunk(self, choices: list[Any]) -> Chunk:
        try:
            ended = {choice.get("index", 0) for choice in choices if choice.get("finish_reason")}
            text_bytes = sum(_generated_bytes(choice.get("delta") or {}) for choice in choices)
        except (AttributeError, TypeError) as error:
            raise UnusableResponse("an event's choices are not choices") from error
        self._ended |= ended
        finishes = bool(ended) and self.has_finish_reason
        return Chunk(compact_json.dumps_ascii(choices), text_bytes=text_bytes, has_finish_reason=finishes)

    def _remember(self, text: str) -> None:
        before, name, after = text.partition('"choices":')
        if not name or name in after:  # none, or who knows which
            return
        start = len(before) + len(name)
        try:
            _, end = json.JSONDecoder().raw_decode(text, start)
        except ValueError:  # white space before the value: this upstream is parsed event by event
            return
        self._before, self._after = text[:start].encode(), text[end:].encode()


# --- A whole reply ----------------------------------------------------------------------------------------------


def parse_reply(body: bytes) -> WholeReply:
    """A chat completion object. Raises UnusableResponse."""
    try:
        reply = wire.parse_json(body)
        choices = reply["choices"]
        text_bytes = sum(_generated_bytes(choice["message"]) for choice in choices)
        if not choices:
            raise ValueError("no choices")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnusableResponse(f"{len(body)} bytes are not a chat completion: {type(error).__name__}") from error
    choices = wire.replace_lone_surrogates(body, choices)
    return WholeReply(choices, usage=parse_usage(reply.get("usage")), text_bytes=text_bytes)


# --- How much it is ---------------------------------------------------------------------------------------------


def parse_usage(value: Any) -> Usage | None:
    """A usage object, or None when it is not one that can be true. Zeros are honoured."""
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens")
    if not (wire.is_token_count(prompt) and wire.is_token_count(completion)):
        return None
    cached = wire.detail_tokens(value, "prompt_tokens_details", "cached_tokens")
    written = wire.detail_tokens(value, "prompt_tokens_details", "cache_write_tokens")
    reasoning = wire.detail_tokens(value, "completion_tokens_details", "reasoning_tokens")
    cached = min(cached, prompt)
    return Usage(prompt, completion, cached, min(written, prompt - cached), min(reasoning, completion))


def _is_worth(choice: Any) -> bool:
    """Whether there is anything generated in it."""
    return _generated_bytes(choice.get("delta") or {}) > 0


def _generated_bytes(message: Any) -> int:
    """UTF-8 bytes of what the model generated in a message or a delta: what it says, thinks and calls tools with.

    Raises AttributeError or TypeError for what is neither.
    """
    texts = [message.get("content"), message.get("refusal"), message.get("reasoning") or message.get("reasoning_content")]
    calls = [call.get("function") or call.get("custom") or {} for call in message.get("tool_calls") or []]
    for called in (*calls, message.get("function_call") or {}):
        texts += [called.get("name"), called.get("arguments"), called.get("input")]
    return sum(wire.text_bytes(text) for text in texts if isinstance(text, str))


def _unescaped_bytes(text: bytes) -> int:
    """UTF-8 bytes of a JSON string's text."""
    return wire.text_bytes(json.loads(b'"%s"' % text)) if b"\\" in text else len(text)


def _is_utf8(text: bytes) -> bool:
    return text.isascii() or text.decode(errors="ignore").encode() == text
