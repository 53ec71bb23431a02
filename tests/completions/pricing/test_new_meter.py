"""A new meter is one line, and no migration: tests of audio in the prompt, in a process that has the line."""

import os
import subprocess
import sys
from urllib.parse import urlsplit

from gateway_project.local import development
from tests import waiting


def test_a_new_meter_is_one_line():
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/new_meter_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "--mutants=none", "-p", "tests.completions.pricing.audio_meter"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "tests/completions/pricing/with_audio_meter.py"],
        env={**environ, "DATABASE_URL": database.geturl()},
        cwd=development.ROOT,
        capture_output=True,
        text=True,
        timeout=waiting.PROCESS_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout
