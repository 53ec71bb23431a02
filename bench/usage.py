"""The usage of an account with a deep ledger: what it takes to sum up, and what the page and its files cost.

    python -m bench.usage [ENTRIES]

Inserts that many entries of 29 days into a temporary database: 1,000,000 take about a minute and 1 GB. The newest LABELLED
have their completions, each with one of 1,000 users and of 5 teams. In the end another account gets the sums of a month with
MONTH_REQUESTS requests of MONTH_USERS users.
"""

import logging
import statistics
import sys
import time
from typing import Any

from bench import ledger

RUNS = 20
LABELLED = 100_000
MONTH_REQUESTS, MONTH_USERS = 10_000_000, 100_000
_DAYS = 29
# As those of ``bench.ledger``, over some days until now.
ENTRIES = ledger.ENTRIES.replace(
    "example.created_at + n * interval '1 millisecond'",
    f"example.created_at - interval '{_DAYS} days' * (%(entries)s - n) / %(entries)s",
)
COMPLETIONS = """
INSERT INTO completions_completion SELECT (jsonb_populate_record(completion, jsonb_build_object(
    'id', reference, 'key_id', spender, 'account_id', entry.account_id, 'first_token_ms', 300 + entry.seq %% 500,
    'end_user', 'user-' || entry.seq * 7919 %% 1000, 'tags', jsonb_build_object('team', 'team-' || entry.seq %% 5)
))).*
FROM completions_completion AS completion
JOIN billing_ledgerentry AS entry ON entry.type = 'USAGE_DEBIT' AND entry.account_id <> %(example)s
WHERE entry.seq > %(entries)s - %(labelled)s
"""
# Every request is of some user: the sums of the days, and of the hours that are kept, are those that the task would make.
_SUMS = "requests, errors, prompt_tokens, completion_tokens, cost_nanos, first_tokens, first_token_ms"
_EXAMPLES = "count(*), 0, count(*) * 900, count(*) * 300, sum(1000000 + number), count(*), count(*) * 400"
_A_MONTH = f"""
SELECT now() - n * interval '{_DAYS} days' / %(requests)s AS at,
    'user-' || (n * 7919 + n / 1000) %% %(users)s AS value, n %% 1000 AS number
FROM generate_series(0::bigint, %(requests)s - 1) AS n
"""
LABEL_DAYS = f"""
INSERT INTO completions_labelday (account_id, name, day, value, {_SUMS})
SELECT %(account)s, '', (at AT TIME ZONE 'UTC')::date AS day, value, {_EXAMPLES} FROM ({_A_MONTH}) AS request
WHERE at < date_trunc('day', now(), 'UTC') - interval '3 days' GROUP BY day, value ORDER BY day, value
"""
LABEL_HOURS = f"""
INSERT INTO completions_labelhour (account_id, name, hour, value, {_SUMS})
SELECT %(account)s, '', date_trunc('hour', at, 'UTC') AS hour, value, {_EXAMPLES} FROM ({_A_MONTH}) AS request
WHERE at >= date_trunc('day', now(), 'UTC') - interval '3 days' GROUP BY hour, value ORDER BY hour, value
"""
ALL_HOURS = f"""
INSERT INTO completions_usagehour (account_id, hour, key_id, model_id, {_SUMS})
SELECT %(account)s, date_trunc('hour', at, 'UTC') AS hour, 'key', 'model', {_EXAMPLES} FROM ({_A_MONTH}) AS request
GROUP BY hour
"""
QUESTIONS = [f"?range={span}&by={by}" for span in ("24h", "30d") for by in ("model", "key", "user", "tag:team")]


def main() -> None:
    ledger.prepare()
    import django

    django.setup()
    logging.disable(logging.INFO)
    _measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)


def _measure(entries: int) -> None:
    from django.test import Client

    from completions.models import LabelHour, UsageHour

    account, client = _fill(entries), Client(SERVER_NAME="127.0.0.1")
    client.force_login(_owner_of(account))
    ledger.write_line("\nThe page before anything is summed up: " + _cost_of_page(client, "?range=30d"))
    _sum_up()
    rows = f"{UsageHour.objects.count():,} and {LabelHour.objects.count():,} rows by label"
    ledger.write_line(f"Sums by hour: {rows}\n\nThe page, {RUNS} times each: median and longest in ms, queries")
    for question in QUESTIONS:
        ledger.write_line(f"{question:40} {_cost_of_page(client, question)}")
    for file in ("usage.csv?range=30d&by=user", "focus.csv?range=30d"):
        _report_file(client, file)
    _report_audit()
    _measure_month(client)


def _measure_month(client: Any) -> None:
    """Measure the page and the file of an account with very many users."""
    from django.db import connection

    account, _, _ = ledger.make_account("month@example.org")
    facts = {"account": account, "requests": MONTH_REQUESTS, "users": MONTH_USERS}
    for statement in (LABEL_DAYS, LABEL_HOURS, ALL_HOURS):
        ledger.execute_unguarded(statement, facts)
    ledger.execute("VACUUM ANALYZE")
    client.force_login(_owner_of(account))
    ledger.write_line(f"\n{MONTH_REQUESTS:,} requests of {MONTH_USERS:,} users in a month:")
    with connection.cursor() as cursor:
        for table in ("completions_labelday", "completions_labelhour"):
            cursor.execute(f"SELECT count(*), pg_total_relation_size('{table}') FROM {table}")
            rows, size = cursor.fetchone()
            ledger.write_line(f"{table:40} {rows:,} rows, {size / 2**20:,.0f} MB, {size / rows:.0f} bytes a row")
    for question in ("?range=24h&by=user", "?range=7d&by=user", "?range=30d&by=user"):
        ledger.write_line(f"{question:40} {_cost_of_page(client, question, runs=3)}")
    _report_file(client, "usage.csv?range=30d&by=user")


def _owner_of(account_id: str) -> Any:
    from billing.models import Account

    return Account.objects.get(pk=account_id).members.get()


def _report_file(client: Any, file: str) -> None:
    started = time.perf_counter()
    reply: Any = client.post(f"/dashboard/usage/{file}")
    size = sum(map(len, reply.streaming_content))
    ledger.write_line(f"{file:40} {1000 * (time.perf_counter() - started):8.0f} ms, {size:,} bytes")


def _fill(entries: int) -> str:
    ledger.manage("migrate", "--verbosity=0")
    ledger.manage("load_catalog")
    example = ledger.make_example()
    account, _, _ = ledger.make_account("bench@example.org")
    facts = {"example": example, "account": account, "entries": entries, "accounts": 1, "labelled": LABELLED}
    started = time.perf_counter()
    for statement in (ENTRIES, COMPLETIONS):
        ledger.execute_unguarded(statement, facts)
    ledger.execute("VACUUM ANALYZE")
    ledger.write_line(f"{entries:,} entries made in {time.perf_counter() - started:.0f} s")
    return account


def _sum_up() -> None:
    from completions.usage import sums

    started, number, runs = time.perf_counter(), 0, 0
    while summed := sums.sum_up():
        number, runs = number + summed, runs + 1
    seconds = time.perf_counter() - started
    ledger.write_line(f"{number:,} requests summed up in {seconds:.0f} s and {runs} runs: {number / seconds:,.0f} a second")


def _cost_of_page(client: Any, query: str, runs: int = RUNS) -> str:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    times_ms = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        assert client.get(f"/dashboard/usage/{query}").status_code == 200
        times_ms.append((time.perf_counter() - started) * 1000)
    with CaptureQueriesContext(connection) as captured:
        client.get(f"/dashboard/usage/{query}")
    return f"{statistics.median(times_ms[1:]):8.1f} {max(times_ms[1:]):8.1f} {len(captured):4}"


def _report_audit() -> None:
    from billing.ledger import audit
    from completions.audit import LABELS_SUM_TO_THE_LEDGER, USAGE_COUNTS_WHAT_FAILED, USAGE_SUMS_TO_THE_LEDGER

    asked = (USAGE_SUMS_TO_THE_LEDGER, USAGE_COUNTS_WHAT_FAILED, LABELS_SUM_TO_THE_LEDGER)
    for invariant in asked:
        started = time.perf_counter()
        with audit.snapshot() as cursor:
            violations = audit._Check(cursor, audit.Scope()).run([invariant])
        ledger.write_line(f"{invariant.name:40} {time.perf_counter() - started:8.1f} s, {len(violations)} violations")


if __name__ == "__main__":
    main()
