"""Files streamed while they are made: one part is in memory at a time, and a downloader gets few files at a time."""

from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from typing import Self

from django.http import StreamingHttpResponse

from gateway_project import errors

DOWNLOADS_MAX = 2  # at a time, of one downloader in one process
_RETRY_AFTER = timedelta(seconds=5)
_running: Counter[str] = Counter()  # by downloader


def respond(
    parts: Generator[bytes, None, None], *, filename: str, content_type: str, downloader: str, subject: str
) -> StreamingHttpResponse:
    """Return the streaming reply. The first part is made here, so that an error before it still has an error status.

    Raises RateLimitExceeded when ``downloader`` has DOWNLOADS_MAX files under way in this process. ``subject`` names them.
    """
    body = _Download(downloader, parts, subject)
    headers = {
        "Content-Disposition": f'attachment; filename="{filename}"',
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }
    charset = "; charset=utf-8" if content_type.startswith("text/") else ""
    return StreamingHttpResponse(body, content_type=f"{content_type}{charset}", headers=headers)


class _Download:
    """The parts of one file. It counts as under way until it is closed, as the server does at the end and on a disconnect."""

    def __init__(self, downloader: str, parts: Generator[bytes, None, None], subject: str) -> None:
        if _running[downloader] >= DOWNLOADS_MAX:
            message = f"{DOWNLOADS_MAX} downloads of {subject} are under way already: wait for one to end."
            raise errors.RateLimitExceeded(message, headers=errors.retry_after(_RETRY_AFTER))
        _running[downloader] += 1
        self._downloader: str | None = downloader
        self._parts = parts
        try:
            self._first: bytes | None = next(parts)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        first, self._first = self._first, None
        return next(self._parts) if first is None else first

    def close(self) -> None:
        self._parts.close()
        downloader, self._downloader = self._downloader, None
        if downloader is not None:
            _running[downloader] -= 1
            if not _running[downloader]:
                del _running[downloader]
