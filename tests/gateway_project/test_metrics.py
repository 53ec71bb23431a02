"""Metrics that the processes of a host share through a directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway_project.local import development
from tests.waiting import PROCESS_SECONDS_MAX


def run(code: str, directory: Path) -> list[str]:
    """Run the code in a process that counts in this directory. Return the lines it prints."""
    environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(directory)}
    command = [sys.executable, "-c", f"from gateway_project import metrics; {code}"]
    done = subprocess.run(
        command, env=environ, cwd=development.ROOT, capture_output=True, text=True, timeout=PROCESS_SECONDS_MAX, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.system
def test_a_process_makes_the_missing_directory_and_a_later_one_shows_what_it_counted(tmp_path):
    shared = tmp_path / "not" / "there"
    run("metrics.outbox_stored_total.inc(2)", shared)
    assert list(shared.glob("counter_*.db"))
    assert "gateway_outbox_stored_total 2.0" in run("print(metrics.render().decode())", shared)
