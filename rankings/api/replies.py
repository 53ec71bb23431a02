"""Rendered replies of GET /api/rankings: each query is rendered once per step of ten seconds and per publication.

The ETag names the data, not the times in a reply, so it is weak. A 304 lets a cache keep its copy for another
``FRESH_SECONDS``: so that no copy is older than ``KEPT_SECONDS_MAX``, the ETag also names a period of time. Every process and
host counts the same periods. Only valid queries are cached, and a bounded number of them.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from gateway_project.cache import StaleWhileRefresh
from gateway_project.db import pool
from gateway_project.text import compact_json, timestamps
from rankings.api import filters
from rankings.api.filters import RankingsQuery
from rankings.identity import mapping
from rankings.models import Source
from rankings.publishing import health, listing
from rankings.publishing.listing import PublishedRankings, RankedEntry
from rankings.sources import registry

STEP_SECONDS = 10
_PREVIOUS_SECONDS_MAX = 3 * STEP_SECONDS
FRESH_SECONDS = 300
KEPT_SECONDS_MAX = 3_600  # spec: up to an hour
_PERIOD_SECONDS = KEPT_SECONDS_MAX - 2 * FRESH_SECONDS  # one for the last 304, one to spare
_REPLIES_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Reply:
    """A body, the weak ETag of the data in it, and what its sources ask to be cited as, for the header Link."""

    body: bytes
    etag: str
    citation: str


@dataclass(frozen=True)
class _Batch:
    """The data that all replies of one step and one publication share, and the replies rendered so far."""

    step: int
    published: PublishedRankings
    sources: bytes  # the health of the sources, as JSON
    citations: Mapping[str, str]  # by source
    replies: dict[RankingsQuery, Reply] = field(default_factory=dict)


_batches: StaleWhileRefresh[None, _Batch] = StaleWhileRefresh(seconds=math.inf, stale_seconds_max=_PREVIOUS_SECONDS_MAX)


def reply(query: RankingsQuery, now_seconds: float) -> Reply:
    """Return the reply as of ``now_seconds`` since the epoch. Raises the database's errors while nothing was ever read.

    While one request begins the batch of a new step, the others get replies of the previous one, unless that is older than
    ``_PREVIOUS_SECONDS_MAX``: a process may have been idle for hours.
    """
    published = listing.published()
    step = int(now_seconds // STEP_SECONDS)
    batch = _batches.get(None, partial(_begin_batch, step, published), version=(step, published))
    cached = batch.replies.get(query)
    if cached is None:
        if len(batch.replies) >= _REPLIES_MAX:
            batch.replies.clear()
        cached = batch.replies[query] = _render(query, batch)
    return cached


def _begin_batch(step: int, published: PublishedRankings, previous: _Batch | None) -> _Batch:
    """Read the sources' health. While the database is unavailable, the previous batch's is used."""
    try:
        with pool.time_limit():
            sources = compact_json.dumps(health.report_for_api(_time(step)))
            citations = _citations()
    except pool.DATABASE_ERRORS:
        if previous is None:
            raise
        sources, citations = previous.sources, previous.citations
    return _Batch(step, published, sources, citations)


def _citations() -> Mapping[str, str]:
    """Return how each source that is shown wants to be cited (RFC 8574). INTERNAL cites those that it is made of."""
    found: dict[str, str] = {}
    for spec in registry.fetched_specs():
        if snapshot := mapping.latest_snapshot(spec.source):
            words = snapshot.attribution.encode("ascii", "ignore").decode().replace("\\", "").replace('"', "'").split()
            found[spec.source] = f'<{spec.home_url}>; rel="cite-as"; title="{" ".join(words)}"'
    made_of = [found[spec.source] for spec in registry.weighted_specs() if spec.source in found]
    return {**found, Source.INTERNAL: ", ".join(made_of)}


def _render(query: RankingsQuery, batch: _Batch) -> Reply:
    entries = filters.apply(query, batch.published.leaderboard(query.source, query.board))
    page = entries[query.offset : query.offset + query.limit]
    has_more = query.offset + len(page) < len(entries)
    pagination = compact_json.dumps({"total": len(entries), "limit": query.limit, "offset": query.offset, "hasMore": has_more})
    now = _time(batch.step)
    body = b'{"rankings":[%s],"pagination":%s,"sources":%s,"timestamp":"%s"}' % (
        b",".join(entry.json(now) for entry in page),
        pagination,
        batch.sources,
        timestamps.iso_millis(now).encode(),
    )
    return Reply(body, _etag(page, pagination, batch), batch.citations.get(query.source, ""))


def _etag(page: list[RankedEntry], pagination: bytes, batch: _Batch) -> str:
    digest = hashlib.sha256(pagination + batch.sources)
    for entry in page:
        digest.update(entry.json_head)
    return f'W/"{digest.hexdigest()[:24]}-{batch.step * STEP_SECONDS // _PERIOD_SECONDS:x}"'


def _time(step: int) -> datetime:
    return datetime.fromtimestamp(step * STEP_SECONDS, UTC)
