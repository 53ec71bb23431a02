"""How fast a host settles what waits on its disk after an outage: settlements in a second.

    python -m bench.outbox [FILES]

Admits that many completions (2,000 by default) of one account in a temporary database, writes their settlements to the outbox
and drains it: once as they are, once when the database has forgotten the admissions, so that it admits them again. On a busy
machine the process's own time is what can be compared.
"""

import logging
import os
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from bench import ledger


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    ledger.prepare()
    os.environ |= {f"GATEWAY_{whose}_REQUESTS_IN_FLIGHT": str(files) for whose in ("KEY", "ACCOUNT")}
    import django

    django.setup()
    logging.disable(logging.CRITICAL)
    ledger.manage("migrate", "--verbosity=0")
    ledger.manage("load_catalog")
    account, _, [key_id, _] = ledger.make_account("outbox@example.org")
    ledger.manage("grant_credit", "outbox@example.org", "1000000", "--reason", "bench")
    stored = _store(account, key_id, files)
    _drain("known", files)
    _forget()
    for path, text in stored.items():
        path.write_text(text)
    _drain("forgotten", files)


def _store(account: str, key_id: str, files: int) -> dict[Path, str]:
    """Admit completions, and write their settlements to the outbox. Return the files."""
    from completions.catalog import lookup
    from completions.charging import admission, outbox
    from completions.charging.records import ServedBy
    from completions.charging.resolution import Resolution
    from completions.chat import Usage
    from completions.models import Completion
    from completions.request import schema
    from keys.authentication import Caller

    fields: dict[str, Any] = {"model": "demo/echo", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 10}
    request, offer = schema.parse(fields), lookup.find_offer("demo/echo")
    served_by = ServedBy(offer.model_id, offer.price_id, offer.routes[0].provider_slug, 1)
    for _ in range(files):
        admitted = admission.admit(request, [offer], Caller(key_id=key_id, account_id=UUID(account)))
        assert isinstance(admitted, admission.Admitted)
        ended = Resolution(admitted.completion, served_by, Completion.Settlement.REPORTED, Usage(10, 10), 20_000)
        outbox.store(ended, TimeoutError())
    return {path: path.read_text() for path in outbox.waiting_files()}


def _drain(kind: str, files: int) -> None:
    from completions.charging import outbox, settlement

    began_at, worked_seconds = time.monotonic(), time.process_time()
    outcomes = outbox.drain(settlement.resolve_all)
    seconds, worked_seconds = time.monotonic() - began_at, time.process_time() - worked_seconds
    found = ", ".join(f"{number} {outcome.value}" for outcome, number in outcomes.items())
    rates = f"{files / seconds:,.0f} settlements a second, {files / worked_seconds:,.0f} in a second of the process's time"
    ledger.write_line(f"{kind:10} {rates} ({found})")


def _forget() -> None:
    """Leave the database as a crash does that loses all of it but the account and its key."""
    for table in (
        "completions_completion",
        "billing_hold",
        "billing_ledgerentry WHERE type = 'USAGE_DEBIT'",
        "keys_spendingday",
    ):
        ledger.execute_unguarded(f"DELETE FROM {table}", {})
    ledger.execute_unguarded(
        "UPDATE billing_account SET held_nanos = 0, open_holds = 0, last_seq = seq, balance_nanos = balance_after_nanos FROM"
        " billing_ledgerentry AS entry WHERE account_id = billing_account.id",
        {},
    )


if __name__ == "__main__":
    main()
