"""The requests of an account as a CSV file: those that the filters of the list select, newest first.

It is made page by page, as the list is, and no database connection is held between two pages. Text that callers or members
chose cannot act as a spreadsheet formula.
"""

from collections.abc import Generator, Iterator
from typing import Any
from uuid import UUID

from billing.models import Account
from completions.history import explanation, reading
from completions.history.reading import Selection
from completions.models import Completion
from gateway_project.db import pool
from gateway_project.text import compact_json, csv_text, dollars, timestamps

EXPORTED_MAX = 50_000
COLUMNS = [
    *("completionId", "requestId", "at", "model", "provider", "keyId", "keyName", "status", "promptTokens", "completionTokens"),
    *("costInDollars", "firstTokenMs", "totalMs", "endUser", "tags", "dataDemanded", "dataPromised", "run"),
]
_TEXTS = ("keyName", "endUser")  # which others chose
_ROWS_AT_ONCE = 250
_SEARCHES_MAX = 50  # each of which reads reading.SEARCHED_MAX requests at most


def write_requests(account_id: UUID, selection: Selection) -> Generator[bytes, None, None]:
    """Yield the file: EXPORTED_MAX requests at most, of as many as _SEARCHES_MAX searches find."""
    yield csv_text.write_lines([COLUMNS])
    older, written, searches = None, 0, 0
    while written < EXPORTED_MAX and searches < _SEARCHES_MAX:
        page = reading.read_page(account_id, selection, limit=_ROWS_AT_ONCE, older_than=older)
        described = [describe(each).items() for each in page.completions]
        rows = [[csv_text.text_cell(value) if name in _TEXTS else value for name, value in items] for items in described]
        pool.release_connection()
        if rows:
            yield csv_text.write_lines(rows)
        written, searches = written + len(rows), searches + (page.searched_to is not None)
        if page.older is None:
            return
        older = page.older


def read_all(account: Account) -> Iterator[dict[str, Any]]:
    """Return all requests of the account that are kept, newest first, a page at a time."""
    page = reading.read_page(account.pk, Selection(), limit=_ROWS_AT_ONCE)
    while True:
        rows = [describe(each) for each in page.completions]
        pool.release_connection()
        yield from rows
        if page.older is None:
            return
        page = reading.read_page(account.pk, Selection(), limit=_ROWS_AT_ONCE, older_than=page.older)


def describe(completion: Completion) -> dict[str, Any]:
    values = [
        *(completion.pk, completion.request_id, timestamps.iso_millis(completion.created_at)),
        *(completion.model_id, completion.provider_id, completion.key_id, completion.key.name),
        *(explanation.status_of(completion).words, completion.prompt_tokens, completion.completion_tokens),
        None if completion.cost_nanos is None else dollars.format_plain(completion.cost_nanos),
        *(completion.first_token_ms, explanation.total_ms(completion), completion.end_user),
        *[
            compact_json.dumps(value).decode() if value else None
            for value in (completion.tags, completion.data_demanded, completion.data_promised)
        ],
        completion.run,
    ]
    return dict(zip(COLUMNS, values, strict=True))
