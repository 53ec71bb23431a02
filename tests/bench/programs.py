"""Runs of a benchmark's program at its smallest size."""

import re
import subprocess
import sys
from pathlib import Path

from tests import waiting

ROOT = Path(__file__).resolve().parent.parent.parent
CONSISTENT = re.compile(r"The ledger is consistent: \d+ invariants hold\.")


def execute(module: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * waiting.PROCESS_SECONDS_MAX)


def measured(module: str, *arguments: object) -> list[str]:
    """Return the lines of a benchmark without its last one, which says that the ledger is consistent."""
    *lines, last = lines_of(module, *arguments)
    assert CONSISTENT.fullmatch(last)
    return lines


def lines_of(module: str, *arguments: object) -> list[str]:
    done = execute(module, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
