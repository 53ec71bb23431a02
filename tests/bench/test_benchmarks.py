"""Each benchmark runs at its smallest size: it measures what it says, and its gateway keeps its books."""

import re
from itertools import product

import pytest

from bench import run
from gateway_project.local import postgresql
from tests.bench.programs import execute, lines_of, measured

pytestmark = pytest.mark.system


def test_completions_are_compared_with_bare_replies():
    head, *rows = measured("run", 0.1)
    assert head.split() == ["clients", "kind", "req/s", "p50", "ms", "p99", "ms", "of", "hello"]
    assert [tuple(row.split()[:2]) for row in rows] == [
        (str(clients), kind) for clients, kind in product(run.CLIENTS, ("hello", "whole", "stream"))
    ]
    assert [row for row in rows if len(row.split()) != 6] == []  # more are statuses other than 200


def test_a_neighbour_is_served_beside_each_attack():
    head, *rows = measured("neighbours", 0.1, 100)
    assert head.endswith("the attack's replies")
    assert len(rows) == 17
    # On a slow machine a sign-in is refused: more than ten seconds would pass until it is its turn to hash.
    rows = [row.replace("'503'", "refused") if "signing in with" in row else row for row in rows]
    assert [row for row in rows if "the neighbour got" in row or re.search("'5[0-9]+'", row)] == []


def test_every_stream_that_is_read_gets_all_its_events():
    [line] = measured("streams", 20, 50)
    assert re.fullmatch(r"20 streams: -?[\d.]+ KB each; the least had 101 events, the most 101", line)


def test_every_audit_of_many_completions_finds_the_ledger_consistent():
    lines = lines_of("growth.retention", 2_000, 40)
    audits = [line for line in lines if "audit" in line]
    assert len(audits) == 6
    assert [line for line in audits if not line.endswith(": consistent")] == []
    assert lines[-3].endswith("the archive: 5 days of 40: 5")
    assert any(line.startswith("billing_ledgerentry") for line in lines)


def test_citus_is_missed_after_one_postgresql_is_measured():
    """Of the benchmark of Citus, what needs none runs here."""
    done = execute("citus", postgresql.programs(), 0.2)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        "8 clients of one PostgreSQL",
        "64 clients of one PostgreSQL",
    ]
    assert done.returncode == 1
    assert 'could not access file "citus"' in done.stderr
