"""Reads replies in OpenAI's wire format: whole ones and the events of a stream, with their usage and text sizes. Pure."""

import json
import re
from typing import Any

from completions.chat import Chunk, WholeReply
from completions.providers import error_body, reported_usage, wire
from completions.providers.exchange import UnusableResponse, in_band_error
from completions.providers.openai.normal_form import FORMAT, ChoiceNormalizer
from completions.providers.reading import EventReader
from completions.providers.sealed_reasoning import Seal
from gateway_project.text import compact_json

# Matches the whole ``choices`` array of an event that brings text and nothing else, in the normal form already. A match is
# valid JSON by itself.
_TEXT = rb'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*)*'
_PLAIN = re.compile(
    rb'\[\{"index":0,"delta":\{(?:"role":"assistant",)?"content":"('
    + _TEXT
    + rb')"(?:,"(?!role)\w+":null)*\}(?:,"\w+":null)*\}\]'
)
_PLAIN_LINES = re.compile(rb"^" + _PLAIN.pattern + rb"$", re.MULTILINE)
_RUN_MIN = 8  # events, of which it pays to read them together
# The same for thoughts, and how they are told: under all their names.
_THOUGHTS = re.compile(
    rb'(\[\{"index":0,"delta":\{(?:"role":"assistant",)?(?:"content":(?:null|""),)?"reasoning_content":)"((?!")'
    + _TEXT
    + rb')"((?:,"(?!reasoning|role)\w+":null)*)(\}(?:,"\w+":null)*\}\])'
)
_TOLD = (
    b'%b"%b"%b,"reasoning":"%b","reasoning_details":[{"type":"reasoning.text","text":"%b","format":"'
    + FORMAT.encode()
    + b'","index":0}]%b'
)


# --- A stream ---------------------------------------------------------------------------------------------------


class StreamReader(EventReader):
    """Converts the data of events to Chunks. ``choices`` is how many were requested.

    Most events of a stream differ only in their choices. So the bytes before and after the choices of one event are kept, and
    an event that begins and ends with the same bytes is not parsed: a JSON round trip for each token is too slow for a relay.
    """

    def __init__(self, choices: int = 1, seal: Seal | None = None, report: reported_usage.Report | None = None) -> None:
        super().__init__()
        self._seal = seal
        self._report = report or reported_usage.Report()
        self._choices = choices
        self._normalizers: dict[int, ChoiceNormalizer] = {}  # by the index of their choice, of those whose role has arrived
        self._finished: set[int] = set()  # indexes of the choices whose finish reason has arrived
        self._is_plain = False  # true when later text of the first choice is in the normal form as it is
        self._before, self._after = b"\x00", b"\x00"  # no event begins or ends with these

    def _read_each(self, events: list[bytes]) -> tuple[list[Chunk], UnusableResponse | None]:
        """Return the chunks of the events up to an unusable one, and that failure. Plain text calls no function of Python's."""
        chunks: list[Chunk] = []
        place, may_run = 0, len(events) > _RUN_MIN
        try:
            while place < len(events):
                data = events[place]
                place += 1
                if data.startswith(self._before) and data.endswith(self._after) and not self._finished and not self.has_ended:
                    plain = _PLAIN.fullmatch(data, len(self._before), len(data) - len(self._after))
                    if plain and (self._is_plain or self._begins_plain(plain[1])):
                        text = plain[1]
                        if text.isascii() or _is_utf8(text):
                            chunks.append(Chunk(plain[0], _unescaped_text_bytes(text) if b"\\" in text else len(text)))
                            if may_run and len(events) - place >= _RUN_MIN:
                                run = self._read_run(events[place:])
                                chunks += run
                                place += len(run)
                                may_run = False
                            continue
                    thoughts = None if plain else _THOUGHTS.fullmatch(data, len(self._before), len(data) - len(self._after))
                    if thoughts and (self._is_plain or self._begins_plain(thoughts[2])):
                        before, text, others, after = thoughts.groups()
                        if text.isascii() or _is_utf8(text):
                            rewritten = _TOLD % (before, text, others, text, text, after)
                            chunks.append(Chunk(rewritten, _unescaped_text_bytes(text) if b"\\" in text else len(text)))
                            continue
                chunks += self._read_unusual(data)
        except UnusableResponse as unusable:
            return chunks, unusable
        return chunks, None

    def _read_run(self, events: list[bytes]) -> list[Chunk]:
        """Return the chunks of the plain text that these events begin with, from one search; none where it is not sure."""
        run = self._choices_of(events)
        while run and not _PLAIN.fullmatch(run[-1]):  # the finish reason
            run.pop()
        lines = b"\n".join(run)
        texts = _PLAIN_LINES.findall(lines)
        is_each_plain = len(texts) == len(run) and lines.count(b"\n") == len(run) - 1  # and none has two lines
        if not is_each_plain or not (lines.isascii() or _is_utf8(lines)):
            return []
        sizes = [_unescaped_text_bytes(text) if b"\\" in text else len(text) for text in texts]
        return list(map(Chunk, run, sizes))

    def _choices_of(self, events: list[bytes]) -> list[bytes]:
        """Return the choices of the events, without those at the end that have another frame; none if an earlier one has."""
        run = len(events)
        while run and not (events[run - 1].startswith(self._before) and events[run - 1].endswith(self._after)):
            run -= 1
        lines = b"\n".join(events[:run])
        if lines.count(b"\n") != run - 1:  # data of several lines, in which a frame may end and begin
            return []
        choices = lines[len(self._before) : len(lines) - len(self._after)].split(self._after + b"\n" + self._before)
        return choices if len(choices) == run and lines.startswith(self._before) else []

    def _read_unusual(self, data: bytes) -> list[Chunk]:
        if self.has_ended:
            return []
        if data.strip() == b"[DONE]":
            self.has_ended = True
            chunks = self._finish_unfinished()
            self.has_finish_reason = bool(self._finished)  # a provider that ignores ``n`` sends one choice only
            return chunks
        if (event := self.parse(data)) is None:
            return []
        if error_body.is_error(event):
            raise in_band_error(event, self._report.read({**event, "choices": None}))
        try:
            normalized = [self._normalized(choice) for choice in event.get("choices") or []]
            choices = [choice for choice in normalized if choice is not None]
            chunks = [self._chunk(choices)] if choices else []
        except (AttributeError, TypeError) as error:
            raise UnusableResponse("an event's choices are not choices") from error
        self._keep_frame(data)
        if usage := self._report.read(event):
            chunks.append(Chunk(b"[]", usage=usage))
        return chunks

    def _begins_plain(self, text: bytes) -> bool:
        """Return whether the first choice needs no more normalizing, given the next text of it as in JSON."""
        normalizer = self._normalizers.get(0)
        self._is_plain = normalizer is not None and normalizer.tags.begins_content(text)
        return self._is_plain

    def _normalized(self, choice: dict[str, Any]) -> dict[str, Any] | None:
        """Return a choice with one role, at its start, and one finish reason, at its end; None when it repeats its end."""
        if choice.get("error"):
            raise in_band_error({"error": choice["error"]})
        index, delta, reason = choice.get("index") or 0, choice.get("delta") or {}, choice.get("finish_reason") or None
        if "message" in choice:  # a whole reply as one event, or all of it again at the end
            choice = {**choice}
            said = choice.pop("message")
            delta = delta or (index not in self._normalizers and said) or {}
        if index in self._finished:
            reason = None
            if not wire.generated_bytes(delta):
                return None
        is_first = index not in self._normalizers
        normalizer = self._normalizers.setdefault(index, ChoiceNormalizer(self._seal))
        delta = normalizer.delta(delta, is_last=reason is not None)
        if is_first:
            delta = {"role": "assistant", **delta}
        if reason is not None:
            reason = normalizer.finish_reason(reason)
            if normalizer.unknown_reason:
                self.unknown_reason = normalizer.unknown_reason
            if normalizer.has_calls:
                normalizer.add_arguments(delta, reason)
        return {**choice, "index": index, "delta": delta, "finish_reason": reason}

    def _finish_unfinished(self) -> list[Chunk]:
        """Return a finish reason for each choice that has none at [DONE]. A whole reply without one is complete as well."""
        chunks = []
        for index, normalizer in self._normalizers.items():
            if index not in self._finished:
                if normalizer.is_broken_off:
                    raise UnusableResponse("the stream ended within the arguments of a call")
                delta, reason = normalizer.delta({}, is_last=True), normalizer.finish_reason(None)
                normalizer.add_arguments(delta, reason)
                chunks.append(self._chunk([{"index": index, "delta": delta, "finish_reason": reason}]))
        return chunks

    def _chunk(self, choices: list[dict[str, Any]]) -> Chunk:
        text_bytes = sum([wire.generated_bytes(choice["delta"]) for choice in choices])
        finished = {choice["index"] for choice in choices if choice["finish_reason"]}
        self._finished |= finished
        self.has_finish_reason = len(self._finished) >= self._choices or (self.has_ended and bool(self._finished))
        has_finish_reason = bool(finished) and self.has_finish_reason
        return Chunk(compact_json.dumps_ascii(choices), text_bytes=text_bytes, has_finish_reason=has_finish_reason)

    def _keep_frame(self, data: bytes) -> None:
        """Keep what comes before and after the choices of this event."""
        if data.startswith(self._before) and data.endswith(self._after):
            return
        text = data.decode()
        before, name, after = text.partition('"choices":')
        if not name or name in after:  # there are none, or it is unclear which ones are meant
            return
        start = len(before) + len(name)
        try:
            _, end = json.JSONDecoder().raw_decode(text, start)
        except ValueError:  # there is white space before the value: all events of this provider are parsed
            return
        self._before, self._after = text[:start].encode(), text[end:].encode()


# --- A whole reply ----------------------------------------------------------------------------------------------


def parse_reply(body: bytes, seal: Seal | None = None, report: reported_usage.Report | None = None) -> WholeReply:
    """Return the reply in a chat completion object. Raises UnusableResponse."""
    try:
        reply = wire.parse_json(body)
        if error_body.is_error(reply):
            raise in_band_error(reply)
        read = [_whole_choice(choice, position, seal) for position, choice in enumerate(reply["choices"])]
        choices, unknown_reason = [choice for choice, _ in read], "".join([unknown for _, unknown in read])
        text_bytes = sum([wire.generated_bytes(choice["message"]) for choice in choices])
        if not choices:
            raise ValueError("no choices")
    except wire.MALFORMED as error:
        raise UnusableResponse(f"{len(body)} bytes are not a chat completion: {type(error).__name__}") from error
    choices = wire.replace_lone_surrogates(body, choices)
    usage = (report or reported_usage.Report()).read(reply)
    return WholeReply(choices, usage=usage, text_bytes=text_bytes, unknown_finish_reason=unknown_reason)


def _whole_choice(choice: dict[str, Any], position: int, seal: Seal | None) -> tuple[dict[str, Any], str]:
    """Return a choice in the normal form, and its finish reason if that is unknown. Without an index it has its position."""
    if choice.get("error"):
        raise in_band_error({"error": choice["error"]})
    normalizer = ChoiceNormalizer(seal)
    # Google leaves an empty one out: github.com/agentgateway/agentgateway/issues/1464.
    message = normalizer.message(choice["message"] if "message" in choice or not choice.get("finish_reason") else {})
    index = position if choice.get("index") is None else choice["index"]
    if not choice.get("finish_reason") and normalizer.is_broken_off:
        raise UnusableResponse("the reply ended within the arguments of a call")
    reason = normalizer.finish_reason(choice.get("finish_reason"))
    if normalizer.has_calls:
        normalizer.add_arguments(message, reason, is_whole=True)
    return {**choice, "index": index, "message": message, "finish_reason": reason}, normalizer.unknown_reason


# --- Refusals ---------------------------------------------------------------------------------------------------


def read_refusal(status: int, body: bytes) -> tuple[int, str]:
    """Return the status that a refusal should have had: some send 400 for a wrong key; and no wait."""
    error = error_body.parse(body) if status == 400 else error_body.ProviderError()
    if error.code == "invalid_api_key" or error.message.startswith("Incorrect API key"):
        return 401, ""
    return status, ""


# --- Sizes ------------------------------------------------------------------------------------------------------


def _unescaped_text_bytes(text: bytes) -> int:
    """Return the UTF-8 size of the text that a JSON string stands for. ``text`` is the string without its quotes."""
    return wire.text_bytes(json.loads(b'"%s"' % text))


def _is_utf8(text: bytes) -> bool:
    return text.decode(errors="ignore").encode() == text
