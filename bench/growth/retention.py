"""What completions take on disk, and what the work of every minute and night costs as they become more.

    python -m bench.growth.retention [COMPLETIONS] [DAYS]

Inserts the completions of 1,000 accounts, spread over the days before now, into a temporary database (as ``bench.ledger``):
1,000,000 take 2 GB. Then it reports the bytes of each table, times the full audit, signs the days off, and times the audit of
one more day, the sums of a minute, and the archive of a day with its deletion.
"""

import atexit
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from bench import ledger
from bench.ledger import execute, write_line

KEPT_DAYS = 35  # the least that may be set: what is older is archived
SIZES = """
SELECT relname, pg_table_size(oid) AS table_bytes, pg_indexes_size(oid) AS index_bytes, (
    SELECT string_agg(format('%s %s', indexrelid::regclass, pg_size_pretty(pg_relation_size(indexrelid))), ', '
        ORDER BY pg_relation_size(indexrelid) DESC) FROM pg_index WHERE indrelid = pg_class.oid
) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_total_relation_size(oid) > 1000000
ORDER BY pg_total_relation_size(oid) DESC
"""


def main() -> None:
    completions = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    days = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    os.environ["GATEWAY_RETENTION_DETAIL_DAYS"] = str(KEPT_DAYS)
    os.environ["GATEWAY_ARCHIVE_DIR"] = directory = tempfile.mkdtemp(prefix="bench-archive-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    ledger.prepare()
    import django

    django.setup()
    began = datetime.now(UTC) - timedelta(days=days)
    made = ledger.Ledger(
        entries=completions, accounts=ledger.ACCOUNTS_AUDITED, began=began, step=timedelta(days=days) / completions
    )
    unguarded = {"began": began - timedelta(days=1)}
    ledger.execute_unguarded("UPDATE completions_price SET effective_from = %(began)s", unguarded)
    ledger.execute_unguarded("UPDATE billing_account SET created_at = %(began)s", unguarded)
    made.fill(ledger.MANUAL_ENTRIES, ledger.HOLDS, ledger.COMPLETIONS)
    report_sizes(completions)
    report_audit(days)


def report_sizes(completions: int) -> None:
    write_line("\nbytes for each completion: table, indexes")
    for name, table_bytes, index_bytes, indexes in execute(SIZES):
        write_line(f"{name:32} {table_bytes / completions:8.0f} {index_bytes / completions:8.0f}  {indexes}")


def report_audit(days: int) -> None:
    from billing.ledger import audit, signed_days
    from billing.models import AuditedDay
    from completions import hours
    from completions.retention import archive
    from completions.usage import sums
    from gateway_project.db import pool

    now = pool.database_time()
    timed("the full audit", audit.verify)
    timed("all sums of usage, the first time", lambda: all_sums(sums.sum_up))
    timed("a full audit with sums, and signing all days", lambda: signed_days.verify(now))
    write_line(f"{AuditedDay.objects.count()} days are signed")
    execute("DELETE FROM billing_auditedledger WHERE day = (SELECT max(day) FROM billing_auditedday)")
    execute("DELETE FROM billing_auditedday WHERE day = (SELECT max(day) FROM billing_auditedday)")
    execute("VACUUM ANALYZE")
    timed(f"the nightly audit: a day of {days}, and one read again", lambda: signed_days.verify(now))
    timed("the sums of a minute, nothing new", sums.sum_up)
    timed("the hours of a minute", lambda: hours.sum_up(now))
    timed("the full audit again", audit.verify)
    timed(f"the archive: {days - KEPT_DAYS} days of {days}", lambda: archive.run(now))
    timed("the full audit after the archive", audit.verify)
    timed("the nightly audit after the archive", lambda: signed_days.verify(now + timedelta(hours=1)))


def all_sums(sum_up: Callable[[], int]) -> int:
    number = 0
    while summed := sum_up():
        number += summed
    return number


def timed(what: str, call: Callable[[], Any]) -> None:
    began, used = time.perf_counter(), cpu_seconds()
    result = call()
    seconds = time.perf_counter() - began
    write_line(f"{seconds:8.2f} s {cpu_seconds() - used:8.2f} s of CPU  {what}: {result}")


def cpu_seconds() -> float:
    """Return the CPU time of this process and of PostgreSQL, with what has ended."""
    import psutil

    (postmaster,) = execute("SELECT pg_read_file('postmaster.pid', 0, 20)")[0]
    server = psutil.Process(int(postmaster.split()[0]))
    processes = [server, *server.children(), psutil.Process()]
    return sum(sum(each.cpu_times()[:4]) for each in processes if each.is_running())


if __name__ == "__main__":
    main()
