"""Reads the completions of an account, newest first, one page at a time, as fast with millions as with ten.

Ids sort by time, and an index orders the completions of each key. A page merges the latest of all keys: one index seek for each
key. An index over whole accounts would cost every admission a write. A page begins after the id of a completion, so the last
page costs as much as the first.

A run has an index. Model, status, end user and tag have none beside the order. A page with one of these filters searches
SEARCHED_MAX completions at most, and says how far it came; the next one continues there.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from completions.history.explanation import Status
from completions.models import Completion
from gateway_project.db import cell

SEARCHED_MAX = 20_000  # of all keys together
FIRST, _LAST = "0", "~"  # before and after every id


@dataclass(frozen=True)
class Selection:
    """Selects completions by columns, and by ``since <= created_at < until``. None selects all."""

    key_id: str | None = None
    model_id: str | None = None
    status: Status | None = None
    end_user: str | None = None
    tag: tuple[str, str] | None = None  # its name and value
    run: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def needs_search(self) -> bool:
        return any((self.model_id, self.status, self.end_user, self.tag))


@dataclass(frozen=True)
class Page:
    """Completions, newest first, and the ids from which the pages beside this one continue; None where there is none.

    ``searched_to`` is how far a search came that ended before it filled the page.
    """

    completions: list[Completion]
    newer: str | None
    older: str | None
    searched_to: str | None = None


def read_page(
    account_id: UUID, selection: Selection, *, limit: int, older_than: str | None = None, newer_than: str | None = None
) -> Page:
    """Return the newest completions of the selection, or those next to an id in a direction."""
    is_backward = newer_than is not None  # towards newer ones
    scan = _Scan(account_id, selection, older_than, newer_than)
    searched_to = scan.horizon() if selection.needs_search else None
    ids = scan.ids(limit + 1, searched_to)
    if len(ids) > limit:
        searched_to = None  # the page is full: whatever comes next follows its last one
    beyond, ids = (ids[limit - 1] if len(ids) > limit else searched_to), ids[:limit]
    if is_backward:
        ids.reverse()
    completions = Completion.objects.filter(pk__in=ids).select_related("key").order_by("-id")
    behind = ids[-1 if is_backward else 0] if ids else (newer_than or older_than)
    if newer_than == FIRST or (newer_than, older_than) == (None, None):
        behind = None  # the page is at an end of the list
    newer, older = (beyond, behind) if is_backward else (behind, beyond)
    return Page(list(completions), newer, older, searched_to)


# Where most completions are of one key, PostgreSQL looks for those of any key among all, from the newest on: of a key that has
# none, it would read them all, for each of thousands of idle keys. It does not do so for a range; OFFSET keeps this apart.
_WAS_USED = """EXISTS (
    SELECT FROM completions_completion AS used WHERE used.key_id >= key.id AND used.key_id <= key.id OFFSET 0
)"""
_COUNT_KEYS = "SELECT count(*) FROM keys_apikey WHERE account_id = %(account_id)s"
_HORIZON = """
SELECT {extreme}(nth.id) FROM keys_apikey AS key CROSS JOIN LATERAL (
    SELECT id FROM completions_completion WHERE key_id = key.id AND id > %(after)s AND id < %(before)s
    ORDER BY id {order} OFFSET %(searched_max)s - 1 LIMIT 1
) AS nth WHERE key.account_id = %(account_id)s AND (%(key_id)s::text IS NULL OR key.id = %(key_id)s) AND {was_used}
"""
_IDS = """
SELECT found.id FROM keys_apikey AS key CROSS JOIN LATERAL (
    SELECT id FROM completions_completion WHERE key_id = key.id AND id > %(after)s AND id < %(before)s {conditions}
    ORDER BY id {order} LIMIT %(limit)s
) AS found WHERE key.account_id = %(account_id)s AND (%(key_id)s::text IS NULL OR key.id = %(key_id)s) AND {was_used}
ORDER BY found.id {order} LIMIT %(limit)s
"""


class _Scan:
    """The statements of one page: a range of ids, read from one of its ends."""

    def __init__(self, account_id: UUID, selection: Selection, older_than: str | None, newer_than: str | None) -> None:
        since = Completion.least_id(selection.since) if selection.since else FIRST
        until = Completion.least_id(selection.until) if selection.until else _LAST
        tag_name, tag_value = selection.tag or (None, None)
        self._selection = selection
        order, extreme, self._up_to = ("ASC", "min", "<=") if newer_than is not None else ("DESC", "max", ">=")
        self._parts = {"was_used": _WAS_USED, "order": order, "extreme": extreme}
        self._values: dict[str, Any] = {
            "account_id": account_id,
            "key_id": selection.key_id,
            "after": max(since, newer_than or FIRST),
            "before": min(until, older_than or _LAST),
            **{"model_id": selection.model_id, "end_user": selection.end_user, "tag_name": tag_name, "tag_value": tag_value},
            "run": selection.run,
            "settlements": list(selection.status.settlements) if selection.status else [],
        }

    def horizon(self) -> str | None:
        """Return the id to which all keys together are searched; None if that is the whole range."""
        keys = 1 if self._selection.key_id else cell.execute(_COUNT_KEYS, self._values)[0][0]
        values = {**self._values, "searched_max": max(SEARCHED_MAX // max(keys, 1), 1)}
        horizon: str | None = cell.execute(_HORIZON.format(**self._parts), values)[0][0]
        return horizon

    def ids(self, limit: int, horizon: str | None) -> list[str]:
        """Return the first ids of the range that are selected, up to the horizon."""
        selection = self._selection
        conditions = {
            "model_id = %(model_id)s": selection.model_id,
            "end_user = %(end_user)s": selection.end_user,
            "run = %(run)s": selection.run,
            "tags ->> %(tag_name)s = %(tag_value)s": selection.tag,
            f"id {self._up_to} %(horizon)s": horizon,
            "settlement = ANY(%(settlements)s)": selection.status and selection.status.settlements,
            "settlement IS NULL": selection.status is Status.RUNNING,
        }
        wanted = "".join(f" AND {condition}" for condition, value in conditions.items() if value)
        values = {**self._values, "horizon": horizon, "limit": limit}
        return [id for (id,) in cell.execute(_IDS.format(**self._parts, conditions=wanted), values)]
