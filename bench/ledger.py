"""A deep ledger: an account with very many entries, the cost of its pages, and the query plans.

    python -m bench.ledger [ENTRIES] [--verify]

Inserts the entries with triggers disabled, into a temporary database: 1,000,000 entries take half a minute and 1 GB. With
--verify the entries belong to 1,000 accounts, with holds and completions, and ``verify_ledger`` is timed.
"""

import atexit
import json
import logging
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from gateway_project.local import development

RUNS = 30
ACCOUNTS_AUDITED = 1_000

# Copies of the first account and its keys: in practice an audit reads the interleaved entries of many accounts.
ACCOUNTS = """
INSERT INTO billing_account SELECT (jsonb_populate_record(account, jsonb_build_object('id', uuidv7()))).*
FROM billing_account AS account, generate_series(2, %(accounts)s) WHERE id = %(account)s;

INSERT INTO keys_apikey SELECT (jsonb_populate_record(key, jsonb_build_object(
    'id', left(md5(account.id || key.id), 22), 'digest', md5(account.id || key.id), 'account_id', account.id
))).*
FROM keys_apikey AS key, billing_account AS account
WHERE key.account_id = %(account)s AND account.id NOT IN (%(account)s, %(example)s)
"""

# One entry in 10,000 is a credit; of the usage, one in 1,000 is the second key's. Usage is copied from an example.
ENTRIES = """
INSERT INTO billing_ledgerentry
    (id, account_id, seq, type, amount_nanos, balance_after_nanos, reference, metadata, spender, created_at)
SELECT uuidv7(), busy.account_id, place.seq, made.type, made.amount_nanos,
    credits * 1000000000000 + (place.seq - credits) * example.amount_nanos, made.reference, made.metadata, made.spender,
    coalesce(%(began)s::timestamptz, example.created_at) + n * %(step)s::interval
FROM generate_series(0, %(entries)s - 1) AS n
CROSS JOIN LATERAL (SELECT n %% %(accounts)s AS number, n / %(accounts)s + 1 AS seq) AS place
CROSS JOIN LATERAL (SELECT (place.seq - 1) / 10000 + 1 AS credits) AS sums
JOIN (
    SELECT account_id, min(id) FILTER (WHERE name = 'busy') AS key, min(id) FILTER (WHERE name = 'rare') AS rare_key,
        row_number() OVER (ORDER BY account_id) - 1 AS number
    FROM keys_apikey WHERE account_id <> %(example)s GROUP BY account_id
) AS busy USING (number)
JOIN billing_ledgerentry AS example ON example.account_id = %(example)s AND example.type = 'USAGE_DEBIT'
CROSS JOIN LATERAL (
    SELECT 'SUPPORT_CREDIT' AS type, 1000000000000 AS amount_nanos, 'support:' || n AS reference, '{}'::jsonb AS metadata,
        NULL AS spender
    WHERE place.seq %% 10000 = 1
    UNION ALL
    SELECT 'USAGE_DEBIT', example.amount_nanos, id, example.metadata || jsonb_build_object('completionId', id),
        CASE place.seq %% 1000 WHEN 2 THEN rare_key ELSE key END
    FROM (
        SELECT 'chatcmpl-' || lpad(to_hex(floor(extract(epoch FROM
            coalesce(%(began)s::timestamptz, example.created_at) + n * %(step)s::interval) * 1000)::bigint), 12, '0')
            || lpad(to_hex(n), 20, '0') AS id
    ) AS completion
    WHERE place.seq %% 10000 <> 1
) AS made;

UPDATE billing_account SET (balance_nanos, last_seq) = (
    SELECT balance_after_nanos, seq FROM billing_ledgerentry WHERE account_id = billing_account.id ORDER BY seq DESC LIMIT 1
) WHERE id <> %(example)s
"""

MANUAL_ENTRIES = """
INSERT INTO billing_manualentry
    (entry_id, account_id, type, amount_nanos, reference, metadata, issued_by_id, operator, created_at)
SELECT id, account_id, type, amount_nanos, reference, metadata, issued_by_id, 'bench', created_at
FROM billing_ledgerentry WHERE NOT (type = 'USAGE_DEBIT') AND account_id <> %(example)s
"""

HOLDS = """
INSERT INTO billing_hold (reference, account_id, amount_nanos, state, settled_nanos, created_at, expires_at, resolved_at)
SELECT reference, account_id, 1000 - amount_nanos, 'SETTLED', -amount_nanos, created_at, created_at, created_at
FROM billing_ledgerentry WHERE type = 'USAGE_DEBIT' AND account_id <> %(example)s
"""

COMPLETIONS = """
INSERT INTO completions_completion SELECT (jsonb_populate_record(completion, jsonb_build_object(
    'id', reference, 'key_id', spender, 'account_id', entry.account_id, 'spending_day', date(entry.created_at),
    'created_at', entry.created_at, 'finished_at', entry.created_at, 'request_id', 'req_' || md5(reference)
))).*
FROM completions_completion AS completion
JOIN billing_ledgerentry AS entry ON entry.type = 'USAGE_DEBIT' AND entry.account_id <> %(example)s;

DELETE FROM keys_spendingday;

INSERT INTO keys_spendingday (key_id, day, spent_nanos, held_nanos, completions, prompt_tokens, completion_tokens)
SELECT key_id, spending_day, sum(cost_nanos), 0, count(*), sum(prompt_tokens), sum(completion_tokens)
FROM completions_completion GROUP BY key_id, spending_day
"""


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--verify"]
    prepare()
    _measure(int(arguments[0]) if arguments else 1_000_000, is_verified="--verify" in sys.argv)


def prepare() -> None:
    """Start a temporary PostgreSQL, which runs as long as this process, and set the environment of a gateway on it."""
    directory = Path(tempfile.mkdtemp(prefix="bench-ledger-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # first, so that it runs when PostgreSQL has gone
    os.environ.update(GATEWAY_VAR=str(directory), GATEWAY_DEVELOPMENT="1", DJANGO_SETTINGS_MODULE="gateway_project.settings")
    for name in ("DATABASE_URL", "PROMETHEUS_MULTIPROC_DIR"):
        os.environ.pop(name, None)
    os.environ["REDIS_URL"] = ""
    development.prepare(os.environ)


def _measure(entries: int, *, is_verified: bool) -> None:
    import django

    django.setup()
    logging.disable(logging.INFO)  # it logs one line per request
    if is_verified:
        Ledger(entries=entries, accounts=ACCOUNTS_AUDITED).fill(MANUAL_ENTRIES, HOLDS, COMPLETIONS)
        _report_audit()
        return
    ledger = Ledger(entries=entries)
    ledger.fill()
    _report_pages(ledger)
    _report_export(ledger)


class Ledger:
    """Accounts with two keys each, and their generated entries. Requests use the first key of the first account."""

    def __init__(
        self,
        *,
        entries: int,
        accounts: int = 1,
        began: datetime | None = None,
        step: timedelta = timedelta(milliseconds=1),
    ) -> None:
        manage("migrate", "--verbosity=0")
        manage("load_catalog")
        example = make_example()
        self.account, secret, (self.key, self.rare_key) = make_account("bench@example.org")
        self.client, self.entries = client_of(secret), entries
        self.facts = {
            **{"example": example, "account": self.account, "entries": entries, "accounts": accounts},
            **{"began": began, "step": step},
        }

    def fill(self, *statements: str) -> None:
        started = time.perf_counter()
        for statement in (ACCOUNTS, ENTRIES, *statements):
            execute_unguarded(statement, self.facts)
        execute("VACUUM ANALYZE")
        write_line(
            f"{self.entries:,} entries of {self.facts['accounts']:,} accounts made in {time.perf_counter() - started:.0f} s"
        )

    def middle(self) -> str:
        """Return the time of the entry in the middle of the ledger."""
        from billing.models import LedgerEntry

        return (
            LedgerEntry.objects.get(account_id=self.account, seq=self.entries // 2)
            .created_at.isoformat()
            .replace("+00:00", "Z")
        )


def _report_pages(ledger: Ledger) -> None:
    deep = ledger.entries // 10
    middle = ledger.middle()
    questions: list[dict[str, Any]] = [
        {},
        {"offset": deep},
        {"offset": ledger.entries - 100},
        {"from": middle},
        {"to": middle},
        {"to": middle, "offset": deep},
        {"type": "USAGE_DEBIT"},
        {"type": "USAGE_DEBIT", "offset": deep},
        {"type": "SUPPORT_CREDIT"},
        {"type": "SUPPORT_CREDIT", "offset": ledger.entries // 20_000},
        {"apiKey": ledger.rare_key},
        {"apiKey": ledger.rare_key, "offset": ledger.entries // 2_000},
        {"apiKey": ledger.key},
        {"apiKey": ledger.key, "offset": deep},
        {"apiKey": ledger.key, "to": middle},
    ]
    write_line(
        f"\nGET /api/billing/ledger, {RUNS} times each: median and longest in ms, then the pages of the database touched"
    )
    plans = []
    for question in questions:
        median_ms, longest_ms = _timed(partial(_get, ledger, {"limit": 100, **question}))
        plan = _plan(partial(_get, ledger, {"limit": 100, **question}))
        shown = " ".join(f"{name}={value}" for name, value in question.items()) or "(the newest)"
        write_line(f"{shown:72} {median_ms:8.2f} {longest_ms:8.2f} {_pages_touched(plan):7}")
        plans.append((shown, plan))
    for shown, plan in plans:
        write_line(f"\n--- {shown}\n" + "\n".join(plan))


def _get(ledger: Ledger, query: dict[str, Any]) -> None:
    reply = ledger.client.get("/api/billing/ledger", query)
    assert reply.json()["count"] > 0, (query, reply.content)


def _timed(call: Callable[[], None]) -> tuple[float, float]:
    call()
    times_ms = []
    for _ in range(RUNS):
        started = time.perf_counter()
        call()
        times_ms.append((time.perf_counter() - started) * 1000)
    return statistics.median(times_ms), max(times_ms)


def _plan(call: Callable[[], None]) -> list[str]:
    """Return the query plans of the queries for entries that ``call`` makes."""
    from django.db import connection

    queries: list[tuple[str, Any]] = []

    def record(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        queries.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(record):
        call()
    plans = [execute(f"EXPLAIN (ANALYZE, BUFFERS) {sql}", params) for sql, params in queries if "billing_ledgerentry" in sql]
    return [line for plan in plans for (line,) in plan]


def _pages_touched(plan: list[str]) -> int:
    """Return the pages that the whole queries touched, from the first line with buffers of each plan."""
    tops = [index for index, line in enumerate(plan) if not line.startswith(" ") and "(cost=" in line]
    buffers = [next(line for line in plan[top:] if "Buffers: " in line) for top in tops]
    counts = [part.split("=")[1] for line in buffers for part in line.split() if part.startswith(("hit=", "read="))]
    return sum(map(int, counts))


def _report_export(ledger: Ledger) -> None:
    import psutil

    process = psutil.Process()
    before, started, size = process.memory_info().rss, time.perf_counter(), 0
    for chunk in ledger.client.get("/api/billing/ledger.csv").streaming_content:
        size += len(chunk)
    seconds, grown = time.perf_counter() - started, process.memory_info().rss - before
    write_line(
        f"\nCSV of the whole ledger: {size / 1e6:.0f} MB in {seconds:.1f} s, {ledger.entries / seconds:,.0f} entries a second, "
        f"memory grew by {max(grown, 0) / 1e6:.1f} MB"
    )


def _report_audit() -> None:
    from billing.ledger import audit

    write_line("\nverify_ledger, seconds by invariant")
    lines: list[tuple[float, str]] = []
    violations = audit.verify(progress=lambda line: lines.append((time.perf_counter(), line)))
    lines.append((time.perf_counter(), "together"))
    for (began, line), (ended, _) in zip(lines, lines[1:], strict=False):
        write_line(f"{ended - began:8.2f}  {line}")
    write_line(f"{lines[-1][0] - lines[0][0]:8.2f}  together, {len(violations)} violations")
    for violation in violations:
        write_line(f"{violation} {violation.rows[:1]}")


def make_example() -> str:
    """Make an account with one completion, of which others are copies. Return the account's id."""
    example, secret, _ = make_account("example@example.org")
    manage("grant_credit", "example@example.org", "100", "--reason", "bench")
    request = {"model": "demo/echo", "messages": [{"role": "user", "content": "Hello"}]}
    reply = client_of(secret).post("/v1/chat/completions", request, content_type="application/json")
    assert reply.status_code == 200, reply.content
    return example


def make_account(email: str) -> tuple[str, str, list[str]]:
    """Make an account with two keys. Return its id, the secret of the first key, and the ids of both keys."""
    account = manage("create_account", email)["account"]
    made = [manage("create_key", email, "--name", name) for name in ("busy", "rare")]
    return account, made[0]["secret"], [each["key"] for each in made]


def client_of(secret: str) -> Any:
    from django.test import Client

    return Client(headers={"Authorization": f"Bearer {secret}"}, SERVER_NAME="127.0.0.1")


def manage(*arguments: str) -> Any:
    from django.core.management import call_command

    printed = StringIO()
    takes_json = arguments[0] not in {"migrate", "load_catalog"}
    call_command(*arguments, *(["--json"] if takes_json else []), stdout=printed)
    return json.loads(printed.getvalue()) if takes_json else None


def execute_unguarded(statements: str, params: dict[str, Any]) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica; SET work_mem = '1GB'; SET synchronous_commit = off")
        for statement in statements.split(";\n\n"):
            cursor.execute(statement, params)
        cursor.execute("RESET session_replication_role; RESET work_mem; RESET synchronous_commit")


def execute(sql: str, params: Any = None) -> list[tuple[Any, ...]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else []


def write_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
