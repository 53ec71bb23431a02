"""The framing of server-sent events, in and out. Pure."""

import json
import re

DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": keep-alive\n\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# No JSON has this in it: there are several events, without blank lines between (github.com/rexxars/eventsource-parser/pull/31).
_BETWEEN_EVENTS = re.compile(rb"(?<=\})\n(?=\{|\[DONE\])")


class EventTooLarge(Exception):
    """An event exceeded the size limit without ending."""


class Decoder:
    """Decodes bytes to the data of complete events, after a byte order mark. Lines end in LF, CRLF or CR. Ignores comments."""

    def __init__(self, event_bytes_max: int) -> None:
        self._event_bytes_max = event_bytes_max
        self._rest = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._follows_cr = False  # the next LF is the second half of a CRLF
        self._is_first_line = True
        self._is_error = False  # the event that has begun

    def feed(self, received: bytes) -> list[bytes]:
        """Return the data of the events that ``received`` completes. Raises EventTooLarge."""
        if not self._rest and not self._data and received.startswith(b"data: ") and received.endswith(b"\n\n"):
            # Whole events of one line each, which is how nearly all providers send them: no line needs to be looked at.
            found = received[6:-2].split(b"\n\ndata: ")
            if received.count(b"\n") == 2 * len(found) and b"\r" not in received and b"" not in found:
                self._follows_cr = self._is_first_line = False
                return found
        if self._follows_cr:
            received = received.removeprefix(b"\n")
        self._follows_cr = received.endswith(b"\r")
        if b"\n" in received or b"\r" in received:
            lines = (self._rest + received).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            *complete, self._rest = lines.split(b"\n")
        else:  # a long line is not looked at again and again
            complete, self._rest = [], self._rest + received
        events: list[bytes] = []
        for line in complete:
            if self._is_first_line:
                line, self._is_first_line = line.removeprefix(_BYTE_ORDER_MARK), False
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._data.append(value)
                self._data_bytes += len(value) + 1
            elif line == b"data":
                self._data.append(b"")
            elif line.startswith(b"event:"):
                self._is_error = line[6:].strip() == b"error"
            elif not line and self._data:
                if data := b"\n".join(self._data):  # an event without data is ignored
                    data = _as_error(data) if self._is_error else data
                    events += _BETWEEN_EVENTS.split(data) if len(self._data) > 1 else [data]
                self._data, self._data_bytes, self._is_error = [], 0, False
        if not events and len(self._rest) + self._data_bytes > self._event_bytes_max:
            raise EventTooLarge  # when this read also completed events, at the next one: those are passed on first
        return events

    def end(self) -> list[bytes]:
        """Return the data of the event that the end of the stream completes: some providers leave its blank line out."""
        return self.feed(b"\n\n")


def _as_error(data: bytes) -> bytes:
    """Return the object of an error, for the data of an event of this name."""
    if b'"error"' in data:  # as OpenAI and Anthropic have it
        return data
    return b'{"error":%b}' % (data if data.startswith(b"{") else json.dumps(data.decode(errors="replace")).encode())
