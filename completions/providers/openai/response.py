"""Reads replies in OpenAI's wire format: whole ones and the events of a stream, with their usage and text sizes. Pure."""

import json
import re
from typing import Any

from completions.chat import Chunk, Usage, WholeReply
from completions.providers import wire
from completions.providers.exchange import UnusableResponse, read_each_event
from gateway_project import compact_json

# Matches the whole ``choices`` array of an event that brings text and nothing else, so that a match is valid JSON by itself.
_TEXT = rb'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*)*'
_PLAIN = re.compile(
    rb'\[\{"index":0,"delta":\{(?:"role":"assistant",)?"content":"(' + _TEXT + rb')"(?:,"\w+":null)*\}(?:,"\w+":null)*\}\]'
)


# --- A stream ---------------------------------------------------------------------------------------------------


class StreamReader:
    """Converts the data of events to Chunks. ``choices`` is the number of choices that were requested.

    Most events of a stream differ only in their choices. So the bytes before and after the choices of one event are kept, and
    an event that begins and ends with the same bytes is not parsed: a JSON round trip for each token is too slow for a relay.
    """

    def __init__(self, choices: int = 1) -> None:
        self.has_passed_on = False
        self.has_ended = False  # true after [DONE]; later events are ignored
        self._choices = choices
        self._begun: set[int] = set()  # indexes of the choices whose role has arrived
        self._finished: set[int] = set()  # indexes of the choices whose finish reason has arrived
        self._before, self._after = b"\x00", b"\x00"  # no event begins or ends with these

    @property
    def has_finish_reason(self) -> bool:
        """True when every choice has finished. Upstreams that ignore ``n`` send one choice only: then [DONE] decides."""
        return len(self._finished) >= self._choices or (self.has_ended and bool(self._finished))

    def read_events(self, events: list[bytes]) -> tuple[list[Chunk], UnusableResponse | None]:
        """Return the chunks of the events of one read, and the failure, if any, to raise after they are passed on."""
        chunks, failure = read_each_event(self._read, events)
        if failure and not self.has_finish_reason and not any(chunk.text_bytes for chunk in chunks):
            chunks = []  # no text has been passed on in this read: the caller can still get the error's own status
        self.has_passed_on = self.has_passed_on or bool(chunks)
        return chunks, failure

    def _read(self, data: bytes) -> list[Chunk]:
        if self.has_ended:
            return []
        if data == b"[DONE]":
            self.has_ended = True
            return []
        if data.startswith(self._before) and data.endswith(self._after) and not self._finished:
            plain = _PLAIN.fullmatch(data, len(self._before), len(data) - len(self._after))
            if plain and _is_utf8(plain[1]):
                return [Chunk(plain[0], text_bytes=_unescaped_text_bytes(plain[1]))]
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
        self._keep_frame(data.decode())
        chunks = []
        if choices := self._normalize(event.get("choices") or []):
            chunks.append(self._chunk(choices))
        if usage := parse_usage(event.get("usage")):
            chunks.append(Chunk(b"[]", usage=usage))
        return chunks

    def _normalize(self, choices: Any) -> list[Any]:
        """Give every choice one role, at its start, and one finish reason, whatever the upstream omits or repeats."""
        try:
            choices = [choice for choice in choices if choice.get("index", 0) not in self._finished or _has_text(choice)]
            for choice in choices:
                index = choice.get("index", 0)
                if index not in self._begun:
                    delta = choice.get("delta") or {}
                    choice["delta"] = {**delta, "role": delta.get("role") or "assistant"}
                if index in self._finished:
                    choice["finish_reason"] = None
                self._begun.add(index)
        except (AttributeError, TypeError) as error:
            raise UnusableResponse("an event's choices are not choices") from error
        return list(choices)

    def _chunk(self, choices: list[Any]) -> Chunk:
        try:
            finished = {choice.get("index", 0) for choice in choices if choice.get("finish_reason")}
            text_bytes = sum(_generated_bytes(choice.get("delta") or {}) for choice in choices)
        except (AttributeError, TypeError) as error:
            raise UnusableResponse("an event's choices are not choices") from error
        self._finished |= finished
        has_finish_reason = bool(finished) and self.has_finish_reason
        return Chunk(compact_json.dumps_ascii(choices), text_bytes=text_bytes, has_finish_reason=has_finish_reason)

    def _keep_frame(self, text: str) -> None:
        """Keep what comes before and after the choices of this event."""
        before, name, after = text.partition('"choices":')
        if not name or name in after:  # there are none, or it is unclear which ones are meant
            return
        start = len(before) + len(name)
        try:
            _, end = json.JSONDecoder().raw_decode(text, start)
        except ValueError:  # there is white space before the value: all events of this upstream are parsed
            return
        self._before, self._after = text[:start].encode(), text[end:].encode()


# --- A whole reply ----------------------------------------------------------------------------------------------


def parse_reply(body: bytes) -> WholeReply:
    """Return the reply in a chat completion object. Raises UnusableResponse."""
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


# --- Usage and sizes --------------------------------------------------------------------------------------------


def parse_usage(value: Any) -> Usage | None:
    """Return the usage in a usage object; None when a count is missing or impossible. Zero is possible."""
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


def _has_text(choice: Any) -> bool:
    return _generated_bytes(choice.get("delta") or {}) > 0


def _generated_bytes(message: Any) -> int:
    """Return the UTF-8 size of the text that the model generated in a message or a delta: content, reasoning and tool calls.

    Raises AttributeError or TypeError for anything else.
    """
    texts = [message.get("content"), message.get("refusal"), message.get("reasoning") or message.get("reasoning_content")]
    calls = [call.get("function") or call.get("custom") or {} for call in message.get("tool_calls") or []]
    for called in (*calls, message.get("function_call") or {}):
        texts += [called.get("name"), called.get("arguments"), called.get("input")]
    return sum(wire.text_bytes(text) for text in texts if isinstance(text, str))


def _unescaped_text_bytes(text: bytes) -> int:
    """Return the UTF-8 size of the text that a JSON string stands for. ``text`` is the string without its quotes."""
    return wire.text_bytes(json.loads(b'"%s"' % text)) if b"\\" in text else len(text)


def _is_utf8(text: bytes) -> bool:
    return text.isascii() or text.decode(errors="ignore").encode() == text
