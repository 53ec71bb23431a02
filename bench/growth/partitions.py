"""What the statements of a completion cost on a table with partitions by month, compared with one without.

    python -m bench.growth.partitions [COMPLETIONS]

Runs the gateway's own statements, in batches of 20 on one connection with the settings of batches, on copies of
``completions_completion``: one plain, one with twelve partitions by the time in the id. Reports the CPU time of PostgreSQL.
"""

import json
import sys
import time
from typing import Any

from bench import ledger
from bench.ledger import execute, write_line

BATCH = 20
MONTH_MS = 30 * 24 * 3_600_000
MONTHS = 12
INDEXES = """
ALTER TABLE bench_parts ADD PRIMARY KEY (id);
CREATE INDEX ON bench_parts (account_id);
CREATE INDEX ON bench_parts (key_id, id DESC);
CREATE INDEX ON bench_parts (request_id);
CREATE INDEX ON bench_parts (key_id, id DESC) WHERE failed_attempts IS NOT NULL;
CREATE INDEX ON bench_parts USING brin (provider_request_id text_bloom_ops) WITH (autosummarize = true)
"""


def main() -> None:
    completions = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    ledger.prepare()
    import django

    django.setup()
    ledger.manage("migrate", "--verbosity=0")
    ledger.manage("load_catalog")
    ledger.make_example()
    make_tables()
    now_ms = int(time.time() * 1000)
    for table in ("bench_plain", "bench_parts") * 3:
        execute(f"TRUNCATE {table}")
        fill_months(table, now_ms)
        seconds = [measure(statement, table, now_ms, completions) for statement in ("insert", "update")]
        write_line(f"{table}: " + ", ".join(f"{each / completions * 1e6:.0f} us" for each in seconds) + " to insert, to settle")
        report_reads(table)


def make_tables() -> None:
    execute(
        "CREATE TABLE bench_plain (LIKE completions_completion INCLUDING ALL); DROP INDEX IF EXISTS bench_plain_repeats_idx"
    )
    execute(
        "CREATE TABLE bench_parts (LIKE completions_completion INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
        " PARTITION BY RANGE (id)"
    )
    execute(INDEXES)
    now_ms = int(time.time() * 1000)
    for month in range(MONTHS):
        low, high = (least_id(now_ms - (MONTHS - 1 - each) * MONTH_MS) for each in (month, month + 1))
        execute(f"CREATE TABLE bench_parts_{month} PARTITION OF bench_parts FOR VALUES FROM ('{low}') TO ('{high}')")


def least_id(ms: int) -> str:
    return f"chatcmpl-{ms:012x}"


def fill_months(table: str, now_ms: int) -> None:
    """Insert 5,000 ended completions of each month before."""
    for month in range(MONTHS - 1):
        begin_ms = now_ms - (MONTHS - 1 - month) * MONTH_MS
        execute(
            f"INSERT INTO {table} SELECT (jsonb_populate_record(made, jsonb_build_object("
            "'id', 'chatcmpl-' || lpad(to_hex(%s + n), 12, '0') || lpad(to_hex(n), 20, '0'),"
            " 'request_id', 'req_' || md5((%s + n)::text)))).*"
            " FROM completions_completion AS made, generate_series(1, 5000) AS n",
            [begin_ms, begin_ms],
        )
    execute(f"ANALYZE {table}")


def measure(kind: str, table: str, now_ms: int, completions: int) -> float:

    from completions.charging import records
    from gateway_project.db import pipelined_transaction

    [example] = execute("SELECT row_to_json(completion) FROM completions_completion AS completion LIMIT 1")[0]
    made = records.insert_completions_statement([]) if kind == "insert" else records.update_completions_statement([])
    statement = made.sql.replace("completions_completion", table).replace("$1", "%s")
    execute(pipelined_transaction._SESSION)
    began = server_seconds()
    for first in range(0, completions, BATCH):
        rows = [row(example, now_ms + 1_000 + number, number) for number in range(first, first + BATCH)]
        execute(statement, [json.dumps(rows)])
    seconds = server_seconds() - began
    execute("RESET ALL; SET TIME ZONE 'UTC'")
    return seconds


def row(example: dict[str, Any], ms: int, number: int) -> dict[str, Any]:
    return {**example, "id": f"{least_id(ms)}{number:020x}", "request_id": f"req_{number:032x}", "repeats": None}


def report_reads(table: str) -> None:
    [(key_id, request_id)] = execute(f"SELECT key_id, request_id FROM {table} ORDER BY id LIMIT 1")
    for what, query, values in (
        ("the newest of a key", f"SELECT id FROM {table} WHERE key_id = %s ORDER BY id DESC LIMIT 50", [key_id]),
        ("by request id", f"SELECT id FROM {table} WHERE request_id = %s", [request_id]),
    ):
        began = time.perf_counter()
        for _ in range(300):
            execute(query, values)
        write_line(f"    {what}: {(time.perf_counter() - began) / 300 * 1e6:.0f} us")


def server_seconds() -> float:
    import psutil

    times = psutil.Process(int(execute("SELECT pg_backend_pid()")[0][0])).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
