"""Runs pytest in a process of its own, with plugins of these tests and without Django: for tests of the plugins."""

import subprocess
import sys
from pathlib import Path

from tests.gateway_project.local.launch import bare_environment

ROOT = Path(__file__).resolve().parent.parent


def run(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the tests of a directory, with the plugins that it and the arguments name."""
    environ = bare_environment(PYTHONPATH=str(ROOT), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=directory, env=environ, capture_output=True, text=True
    )
