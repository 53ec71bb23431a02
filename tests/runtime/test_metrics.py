"""The directory in which the processes of a host share their metrics."""

import os
import subprocess
import sys

from gateway_project import development


def test_a_command_makes_the_directory_that_is_missing(tmp_path):
    shared = tmp_path / "not" / "there"
    environ = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(shared)}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], env=environ, cwd=development.ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert list(shared.glob("gauge_*.db"))
