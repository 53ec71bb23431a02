"""Files streamed while they are made: one part is in memory at a time, and a downloader gets few files at a time."""

from collections import Counter
from collections.abc import Generator
from contextlib import closing
from datetime import timedelta

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
    body = _counted(parts, downloader, subject)
    next(body)
    headers = {
        "Content-Disposition": f'attachment; filename="{filename}"',
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }
    charset = "; charset=utf-8" if content_type.startswith("text/") else ""
    return StreamingHttpResponse(body, content_type=f"{content_type}{charset}", headers=headers)


def _counted(parts: Generator[bytes, None, None], downloader: str, subject: str) -> Generator[bytes, None, None]:
    """Yield nothing when the first part is made, and then all parts. The server closes it at the end and on a disconnect."""
    if _running[downloader] >= DOWNLOADS_MAX:
        message = f"{DOWNLOADS_MAX} downloads of {subject} are under way already: wait for one to end."
        raise errors.RateLimitExceeded(message, headers=errors.retry_after(_RETRY_AFTER))
    _running[downloader] += 1
    try:
        with closing(parts):
            made = [next(parts)]
            yield b""
            yield made.pop()  # so that it is not kept
            yield from parts
    finally:
        _running[downloader] -= 1
        if not _running[downloader]:
            del _running[downloader]
