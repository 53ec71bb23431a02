"""What completions take on disk, and what the work of every minute and night costs as they become more.

    python -m bench.growth.retention [COMPLETIONS] [DAYS]

Inserts the completions of 1,000 accounts, spread over the days before now, into a temporary database: 1,000,000 take 2 GB. Then
it reports the bytes of each table, times the full audit, signs the days off, and times the audit of one more day, the sums of a
minute, and the archive with its deletion. What an audit finds is an error of this benchmark, and ends it.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psutil

from bench import run
from bench.growth import filling
from bench.growth.filling import execute

KEPT_DAYS = 35  # the least that may be set: what is older is archived
SIZES = """
SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_total_relation_size(oid) > 1000000
ORDER BY pg_total_relation_size(oid) DESC
"""


def main() -> None:
    completions, days = map(int, run.numbers(sys.argv[1:], 1_000_000, 40))
    with run.Servers() as servers:
        os.environ |= run.prepared(servers.directory) | {
            "DJANGO_SETTINGS_MODULE": "gateway_project.settings",
            "GATEWAY_RETENTION_DETAIL_DAYS": str(KEPT_DAYS),
            "GATEWAY_ARCHIVE_DIR": str(servers.directory / "archive"),
        }
        import django

        django.setup()
        _timed(f"{completions:,} completions are made", lambda: filling.fill(completions, days))
        _report_sizes(completions)
        _report_work(days)


def _report_sizes(completions: int) -> None:
    run.write_line("\nbytes for each completion: table, indexes")
    for name, table_bytes, index_bytes in execute(SIZES):
        run.write_line(f"{name:32} {table_bytes / completions:8.0f} {index_bytes / completions:8.0f}")
    run.write_line("")


def _report_work(days: int) -> None:
    from billing.ledger import audit, signed_days
    from completions.retention import archive
    from completions.statistics import hours
    from completions.usage import sums
    from gateway_project.db import pool

    now = pool.database_time()
    _timed("the full audit", audit.verify)
    _timed("all sums of usage, the first time", lambda: sum(iter(sums.sum_up, 0)))
    _timed("a full audit with sums, and signing all days but one", lambda: signed_days.verify(now - timedelta(days=1)))
    execute("VACUUM ANALYZE")
    _timed(f"the nightly audit: a day of {days}, and two read again", lambda: signed_days.verify(now))
    _timed("the sums of a minute, nothing new", sums.sum_up)
    _timed("the hours of a minute", lambda: hours.sum_up(now))
    _timed("the full audit again", audit.verify)
    _timed(f"the archive: {days - KEPT_DAYS} days of {days}", lambda: archive.run(now))
    _timed("the full audit after the archive", audit.verify)
    _timed("the nightly audit after the archive", lambda: signed_days.verify(now + timedelta(hours=1)))


def _timed(what: str, call: Callable[[], Any]) -> None:
    began, used = time.perf_counter(), _cpu_seconds()
    result = call()
    seconds = time.perf_counter() - began
    run.write_line(f"{seconds:8.2f} s {_cpu_seconds() - used:8.2f} s of CPU  {what}{_shown(result)}")


def _shown(result: Any) -> str:
    if not isinstance(result, list):
        return "" if result is None else f": {result}"
    if result:
        raise SystemExit("\n".join(f"{violation} {violation.rows[:1]}" for violation in result))
    return ": consistent"


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of PostgreSQL, with what has ended."""
    (postmaster,) = execute("SELECT pg_read_file('postmaster.pid', 0, 20)")[0]
    server = psutil.Process(int(postmaster.split()[0]))
    processes = [server, *server.children(), psutil.Process()]
    return sum(sum(each.cpu_times()[:4]) for each in processes if each.is_running())


if __name__ == "__main__":
    main()
