"""The support desk with many rows: how long its pages take, and how many queries they make.

    python -m bench.desk [COMPLETIONS] [ACCOUNTS]

Fills a temporary database with 1,000,000 completions of 100,000 accounts, which takes a few minutes and 3 GB, and asks for each
page as a superuser. Times are of the view, without a network.
"""

import logging
import statistics
import sys
import time
from typing import Any
from uuid import UUID

from bench import ledger

RUNS = 10

# Copies of the first account, its key and its member.
ACCOUNTS = """
INSERT INTO billing_account SELECT copy.*
FROM billing_account AS account
CROSS JOIN generate_series(2, %(accounts)s) AS n
CROSS JOIN LATERAL jsonb_populate_record(account, jsonb_build_object(
    'id', uuidv7(), 'name', 'Customer ' || n, 'balance_nanos', n::bigint * 10000000
)) AS copy
WHERE account.id = %(account)s;

INSERT INTO keys_apikey SELECT copy.*
FROM keys_apikey AS key
CROSS JOIN billing_account AS account
CROSS JOIN LATERAL jsonb_populate_record(key, jsonb_build_object(
    'id', left(md5(account.id::text), 22), 'digest', md5(account.id::text), 'account_id', account.id
)) AS copy
WHERE key.id = %(key)s AND account.id NOT IN (%(account)s, %(example)s);

INSERT INTO billing_user SELECT copy.*
FROM billing_user AS person
CROSS JOIN generate_series(2, %(accounts)s) AS n
CROSS JOIN LATERAL jsonb_populate_record(person, jsonb_build_object(
    'id', 1000 + n, 'email', 'customer-' || n || '@example.org'
)) AS copy
WHERE person.email = 'bench@example.org';

INSERT INTO billing_membership SELECT copy.*
FROM billing_membership AS member
CROSS JOIN (
    SELECT id, split_part(name, ' ', 2)::integer AS n FROM billing_account WHERE name LIKE 'Customer %%'
) AS account
CROSS JOIN LATERAL jsonb_populate_record(member, jsonb_build_object(
    'id', 1000 + account.n, 'account_id', account.id, 'user_id', 1000 + account.n
)) AS copy
WHERE member.account_id = %(account)s
"""

# Over 30 days, the last one now. One in ten is of the first account. One in twenty had a failed attempt; one in fifty was not
# served.
COMPLETIONS = """
INSERT INTO completions_completion SELECT copy.*
FROM completions_completion AS completion
CROSS JOIN (
    SELECT n, moment, account_id, key_id,
        'chatcmpl-' || lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || '7' ||
            substr(md5(n::text), 1, 19) AS id
    FROM (
        SELECT n, now() - (%(completions)s - n) * (interval '30 days' / %(completions)s) AS moment,
            CASE WHEN n %% 10 = 0 THEN 0 ELSE n %% %(accounts)s END AS place
        FROM generate_series(1, %(completions)s) AS n
    ) AS dated
    JOIN (
        SELECT account_id, min(id) AS key_id, row_number() OVER (ORDER BY account_id <> %(account)s, account_id) - 1 AS place
        FROM keys_apikey GROUP BY account_id
    ) AS numbered USING (place)
) AS made
CROSS JOIN LATERAL jsonb_populate_record(completion, jsonb_build_object(
    'id', made.id, 'request_id', 'req_' || md5(made.id), 'provider_request_id', 'req_' || md5('provider ' || made.n),
    'account_id', made.account_id, 'key_id', made.key_id,
    'created_at', made.moment, 'finished_at', made.moment, 'spending_day', date(made.moment), 'is_stream', true,
    'first_token_ms', 200 + made.n %% 1500 * 7 %% 1500, 'streamed_ms', 2000,
    'settlement', CASE WHEN made.n %% 50 = 0 THEN 'released' ELSE 'reported' END,
    'cost_nanos', CASE WHEN made.n %% 50 = 0 THEN 0 ELSE 1000000 END,
    'failed_attempts', CASE WHEN made.n %% 20 = 0
        THEN '[{"provider": "echo", "status": 503, "reason": "overloaded"}]'::jsonb END
)) AS copy
WHERE completion.account_id = %(example)s;

INSERT INTO billing_ledgerentry
    (id, account_id, seq, type, amount_nanos, balance_after_nanos, reference, metadata, spender, created_at)
SELECT uuidv7(created_at - now()), made.account_id, 1000 + row_number() OVER (PARTITION BY made.account_id ORDER BY made.id),
    'USAGE_DEBIT', -cost_nanos, 1000000000000, made.id, example.metadata || jsonb_build_object('completionId', made.id), key_id,
    made.created_at
FROM completions_completion AS made
CROSS JOIN (SELECT metadata FROM billing_ledgerentry WHERE type = 'USAGE_DEBIT' AND account_id = %(example)s) AS example
WHERE made.cost_nanos > 0 AND made.account_id <> %(example)s;

INSERT INTO billing_hold (reference, account_id, amount_nanos, state, settled_nanos, created_at, expires_at, resolved_at)
SELECT id, account_id, 2000000, 'SETTLED', cost_nanos, created_at, created_at, created_at
FROM completions_completion WHERE cost_nanos > 0 AND account_id <> %(example)s;

INSERT INTO keys_spendingday (key_id, day, spent_nanos, held_nanos, completions, prompt_tokens, completion_tokens)
SELECT key_id, spending_day, sum(cost_nanos), 0, count(*), sum(prompt_tokens), sum(completion_tokens)
FROM completions_completion WHERE account_id <> %(example)s GROUP BY key_id, spending_day;

INSERT INTO keys_refusalcount (key_id, hour, status, code, error, number)
SELECT id, date_trunc('hour', now()) - hours * interval '1 hour', 429, 'rate_limit_exceeded', 'RateLimitExceeded', 1 + hours
FROM (SELECT id FROM keys_apikey ORDER BY id LIMIT 1000) AS refused, generate_series(0, 23) AS hours;

UPDATE billing_account SET last_seq = (
    SELECT max(seq) FROM billing_ledgerentry WHERE account_id = billing_account.id
) WHERE id <> %(example)s AND EXISTS (SELECT FROM billing_ledgerentry WHERE account_id = billing_account.id)
"""


def main() -> None:
    completions, accounts = [*map(int, sys.argv[1:3]), *(1_000_000, 100_000)[len(sys.argv) - 1 :]]
    ledger.prepare()
    import django

    django.setup()
    logging.disable(logging.INFO)  # it logs one line per request
    facts = fill(completions, accounts)
    _report(_pages(facts))


def fill(completions: int, accounts: int) -> dict[str, Any]:
    """Make the rows. Return the ids of the first account and its key, and the numbers."""
    from completions import hours
    from gateway_project.db import pool

    started = time.perf_counter()
    ledger.manage("migrate", "--verbosity=0")
    ledger.manage("load_catalog")
    example = ledger.make_example()
    account, secret, (key, _) = ledger.make_account("bench@example.org")
    facts = {"example": example, "account": account, "key": key, "completions": completions, "accounts": accounts}
    payment = _buy(UUID(account))
    for statement in (ACCOUNTS, COMPLETIONS):
        ledger.execute_unguarded(statement, facts)
    ledger.execute("VACUUM ANALYZE")
    ledger.write_line(f"{completions:,} completions of {accounts:,} accounts made in {time.perf_counter() - started:.0f} s")
    started = time.perf_counter()
    hours.sum_up(pool.database_time())
    ledger.write_line(f"Hours summed up for the first time in {time.perf_counter() - started:.2f} s")
    started = time.perf_counter()
    hours.sum_up(pool.database_time())
    ledger.write_line(f"Hours summed up again in {time.perf_counter() - started:.2f} s")
    return {**facts, "secret": secret, "payment": payment}


def _buy(account: UUID) -> str:
    """Book a payment of the account. Return its processor's id."""
    from django.db import transaction

    from billing import locks
    from billing.ledger import writer as book

    with transaction.atomic():
        book.credit_purchase(locks.lock_account(account), amount_cents=100_000, processor="stripe", payment_id="pi_bench")
    return "pi_bench"


def _pages(facts: dict[str, Any]) -> dict[str, str]:
    from billing.models import LedgerEntry
    from completions.models import Completion

    middle = Completion.objects.filter(cost_nanos__gt=0).order_by("id")[facts["completions"] // 2]
    entry = LedgerEntry.objects.get(reference=middle.pk)
    terms = {
        "address": "customer-777@example.org",
        "account id": facts["account"],
        "account name": "Customer 777",
        "key id": facts["key"],
        "key as owners see it": f"mgw_live_...{facts['secret'][-4:]}",
        "secret": facts["secret"],
        "completion": middle.pk,
        "request id": middle.request_id,
        "provider's request id": middle.provider_request_id,
        "payment id": facts["payment"],
        "ledger entry": entry.pk,
        "nothing": "nothing-like-it",
    }
    lists = "/admin/completions/completion/", "/admin/billing/ledgerentry/"
    return {
        "home": "/admin/",
        "account": f"/admin/billing/account/{facts['account']}/change/",
        "key": f"/admin/keys/apikey/{facts['key']}/change/",
        "provider": "/admin/completions/provider/echo/change/",
        "accounts": "/admin/billing/account/",
        "completions": lists[0],
        "completions, deep": f"{lists[0]}?p=older:{middle.pk}",
        "entries": lists[1],
        "entries, deep": f"{lists[1]}?p=older:{entry.pk}",
        **{f"search: {name}": f"/admin/search/?q={term}" for name, term in terms.items()},
    }


def _report(pages: dict[str, str]) -> None:
    from django.db import connection
    from django.test import Client

    from billing.models import User
    from tests import sessions

    client = Client(SERVER_NAME="127.0.0.1")
    sessions.sign_in(client, User.objects.create_superuser("root@example.org", "correct horse battery staple"))
    ledger.write_line(f"\n{'page':32}{'status':>7}{'median ms':>11}{'longest ms':>12}{'queries':>9}")
    for name, path in pages.items():
        queries: list[str] = []

        def count(execute: Any, sql: str, params: Any, many: bool, context: Any, queries: list[str] = queries) -> Any:
            queries.append(sql)
            return execute(sql, params, many, context)

        with connection.execute_wrapper(count):
            reply = client.get(path)
        times_ms = []
        for _ in range(RUNS):
            started = time.perf_counter()
            client.get(path)
            times_ms.append((time.perf_counter() - started) * 1000)
        figures = f"{statistics.median(times_ms):11.1f}{max(times_ms):12.1f}{len(queries):9}"
        ledger.write_line(f"{name:32}{reply.status_code:7}{figures}")


if __name__ == "__main__":
    main()
