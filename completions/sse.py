"""The framing of server-sent events, in and out. Pure."""

DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": keep-alive\n\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventTooLarge(Exception):
    """An event exceeded the size limit without ending."""


class Decoder:
    """Decodes bytes to the data of complete events. Lines end in LF, CRLF or CR. Ignores comments and other fields.

    A byte order mark may come before the first line: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """

    def __init__(self, event_bytes_max: int) -> None:
        self._event_bytes_max = event_bytes_max
        self._rest = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._follows_cr = False  # the next LF is the second half of a CRLF
        self._is_first_line = True

    def feed(self, received: bytes) -> list[bytes]:
        """Return the data of the events that ``received`` completes. Raises EventTooLarge."""
        if not self._rest and not self._data and received.startswith(b"data: ") and received.endswith(b"\n\n"):
            # Whole events of one line each, which is how nearly all upstreams send them: no line needs to be looked at.
            found = received[6:-2].split(b"\n\ndata: ")
            if received.count(b"\n") == 2 * len(found) and b"\r" not in received and b"" not in found:
                self._follows_cr = self._is_first_line = False
                return found
        if self._follows_cr:
            received = received.removeprefix(b"\n")
        self._follows_cr = received.endswith(b"\r")
        lines = (self._rest + received).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *complete, self._rest = lines.split(b"\n")
        events = []
        for line in complete:
            if self._is_first_line:
                line, self._is_first_line = line.removeprefix(_BYTE_ORDER_MARK), False
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

    def end(self) -> list[bytes]:
        """Return the data of the event that the end of the stream completes: some upstreams leave its blank line out."""
        return self.feed(b"\n\n")
