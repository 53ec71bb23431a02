"""Replies of GET /api/rankings, ready to be sent: rendered once a moment, a publication and a query.

The time of a reply is in it, and so is how old its figures are; "now" moves in steps, so within a step the same data gives the
same bytes, which is what a strong ETag promises. The tag says which data and which step: who comes back with a tag of the same
data has a copy that is as good as a new one, for as long as replies may be kept. Only what was validated is a key of this
memory, and it is bounded.
"""

import hashlib
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from gateway_project import compact_json, timestamps
from gateway_project.cache import StaleWhileRefresh
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


@dataclass(frozen=True)
class _Batch:
    """What the replies of one step and one publication share, and those that are rendered so far."""

    step: int
    published: Published
    sources: bytes
    replies: dict[Query, Reply] = field(default_factory=dict)


_batches: StaleWhileRefresh[None, _Batch] = StaleWhileRefresh(seconds=math.inf)


def reply(query: Query, now_seconds: float) -> Reply:
    """As of ``now_seconds`` since the epoch. Raises the database's errors while nothing was ever read."""
    published = listing.published()
    step = int(now_seconds // STEP_SECONDS)
    batch = _batches.get(None, partial(_begin, step, published), version=(step, published))
    known = batch.replies.get(query)
    if known is None:
        if len(batch.replies) >= _REPLIES_MAX:
            batch.replies.clear()
        known = batch.replies[query] = _rendered(query, batch)
    return known


def forget() -> None:
    """Render every reply again when it is next asked for."""
    _batches.clear()


def _begin(step: int, published: Published, previous: _Batch | None) -> _Batch:
    """When the database is unavailable, what the sources' health was before still serves."""
    try:
        with pool.time_limit():
            sources = compact_json.dumps(health.items(_moment(step)))
    except pool.DATABASE_ERRORS:
        if previous is None:
            raise
        sources = previous.sources
    return _Batch(step, published, sources)


def _rendered(query: Query, batch: _Batch) -> Reply:
    rows = filters.apply(query, batch.published.board(query.source, query.board)).rows
    page = rows[query.offset : query.offset + query.limit]
    has_more = query.offset + len(page) < len(rows)
    pagination = compact_json.dumps({"total": len(rows), "limit": query.limit, "offset": query.offset, "hasMore": has_more})
    now = _moment(batch.step)
    body = b'{"rankings":[%s],"pagination":%s,"sources":%s,"timestamp":"%s"}' % (
        b",".join(row.json(now) for row in page),
        pagination,
        batch.sources,
        timestamps.iso_millis(now).encode(),
    )
    return Reply(body, _digest(page, pagination, batch.sources), batch.step)


def _digest(page: tuple[Row, ...], pagination: bytes, sources: bytes) -> str:
    digest = hashlib.sha256(pagination + sources)
    for row in page:
        digest.update(row.head)
    return digest.hexdigest()[:24]


def _moment(step: int) -> datetime:
    return datetime.fromtimestamp(step * STEP_SECONDS, UTC)
