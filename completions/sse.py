"""The framing of server-sent events, in and out. Pure."""

DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": keep-alive\n\n"


class EventTooLarge(Exception):
    """An event exceeded the size limit without ending."""


class Decoder:
    """Decodes bytes to the data of complete events. Lines end in LF, CRLF or CR. Ignores comments and other fields."""

    def __init__(self, event_bytes_max: int) -> None:
        self._event_bytes_max = event_bytes_max
        self._rest = b""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, received: bytes) -> list[bytes]:
        """Return the data of the events that ``received`` completes. Raises EventTooLarge."""
        if not self._rest and not self._data and received.startswith(b"data: ") and received.endswith(b"\n\n"):
            # Whole events of one line each, which is how nearly all upstreams send them: no line needs to be looked at.
            found = received[6:-2].split(b"\n\ndata: ")
            if received.count(b"\n") == 2 * len(found) and b"\r" not in received and b"" not in found:
                return found
        lines = (self._rest + received).replace(b"\r\n", b"\n")
        # A CR at the very end may be the first half of CRLF.
        held_back = b"\r" if lines.endswith(b"\r") else b""
        *complete, self._rest = lines[: len(lines) - len(held_back)].replace(b"\r", b"\n").split(b"\n")
        self._rest += held_back
        events = []
        for line in complete:
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._data.append(value)
                self._data_bytes += len(value) + 1
            elif line == b"data":
                self._data.append(b"")
            elif not line and self._data:
                if data := b"\n".join(self._data):  # an event without data is ignored
                    events.append(data)
                self._data, self._data_bytes = [], 0
        if not events and len(self._rest) + self._data_bytes > self._event_bytes_max:
            raise EventTooLarge  # when this read also completed events, at the next one: those are passed on first
        return events
