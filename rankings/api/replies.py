"""Replies of GET /api/rankings, ready to be sent: rendered once a moment, a publication and a query.

The time of a reply is in it, and so is how old its figures are; "now" moves in steps, so within a step the same data gives the
same bytes, which is what a strong ETag promises. The tag says which data and which step: who comes back with a tag of the same
data has a copy that is as good as a new one, for as long as replies may be kept. Only what was validated is a key of this
memory, and it is bounded.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway_project import compact_json, timestamps
from gateway_project.db import pool
from rankings.api import filters
from rankings.api.filters import Query
from rankings.publishing import health, listing
from rankings.publishing.listing import Published, Row

STEP_SECONDS = 10
KEPT_SECONDS_MAX = 3_600  # spec: up to an hour
_REPLIES_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Reply:
    """A body; what of it is data, as a digest; and when it was rendered, in steps since the epoch."""

    body: bytes
    data: str
    step: int

    @property
    def etag(self) -> str:
        return f'"{self.data}-{self.step:x}"'

    def is_as_good_as(self, etag: str) -> bool:
        """Whether a copy with this tag has the same data, and is not too old."""
        data, _, step = etag.strip('"').partition("-")
        try:
            age_seconds = (self.step - int(step, 16)) * STEP_SECONDS
        except ValueError:
            return False
        return data == self.data and 0 <= age_seconds <= KEPT_SECONDS_MAX


@dataclass
class _Memory:
    step: int = 0
    published: Published | None = None
    sources: bytes = b""


_memory = _Memory()
_replies: dict[Query, Reply] = {}  # of one step and one publication


def reply(query: Query, now_seconds: float) -> Reply:
    """As of ``now_seconds`` since the epoch. Raises the database's errors while nothing was ever read."""
    published = listing.published()
    _turn(int(now_seconds // STEP_SECONDS), published)
    known = _replies.get(query)
    if known is None:
        if len(_replies) >= _REPLIES_MAX:
            _replies.clear()
        known = _replies[query] = _rendered(query, published)
    return known


def _turn(step: int, published: Published) -> None:
    """Forget what is of another step or another publication."""
    if _memory.step == step and _memory.published is published:
        return
    _replies.clear()
    _memory.sources = _health(_moment(step)) or _memory.sources
    _memory.step, _memory.published = step, published


def _health(now: datetime) -> bytes:
    """Nothing when the database is away, and what it said before still serves."""
    try:
        with pool.time_limit():
            return compact_json.dumps(health.items(now))
    except pool.DATABASE_ERRORS:
        if not _memory.sources:
            raise
        return b""


def _rendered(query: Query, published: Published) -> Reply:
    rows = filters.apply(query, published.board(query.source, query.board)).rows
    page = rows[query.offset : query.offset + query.limit]
    has_more = query.offset + len(page) < len(rows)
    pagination = compact_json.dumps({"total": len(rows), "limit": query.limit, "offset": query.offset, "hasMore": has_more})
    now = _moment(_memory.step)
    body = b'{"rankings":[%s],"pagination":%s,"sources":%s,"timestamp":"%s"}' % (
        b",".join(row.json(now) for row in page),
        pagination,
        _memory.sources,
        timestamps.iso_millis(now).encode(),
    )
    return Reply(body, _digest(page, pagination), _memory.step)


def _digest(page: tuple[Row, ...], pagination: bytes) -> str:
    digest = hashlib.sha256(pagination + _memory.sources)
    for row in page:
        digest.update(row.head)
    return digest.hexdigest()[:24]


def _moment(step: int) -> datetime:
    return datetime.fromtimestamp(step * STEP_SECONDS, UTC)
