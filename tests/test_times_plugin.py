"""``--file-share-max`` fails a run in which a file takes too much of the processor time, and has no system tests."""

import subprocess
import sys

import pytest

from tests.gateway_project.local.launch import bare_environment
from tests.system_plugin import ROOT

PROJECT = """
[tool.pytest.ini_options]
addopts = "-p tests.times_plugin -p no:cacheprovider"
markers = ["system"]
"""
DEAR = """
import time

import pytest

{mark}
def test_much():
    while time.process_time() < 2:
        pass
"""
CHEAP = "def test_little(): pass\n"


@pytest.mark.system
@pytest.mark.parametrize(
    ("options", "mark", "fails"),
    [
        (["--file-share-max=60"], "", True),
        (["--file-share-max=60", "-n1"], "", True),
        (["--file-share-max=60"], "@pytest.mark.system", False),
        ([], "", False),
    ],
    ids=["too much", "too much, in a worker", "a system test", "without the option"],
)
def test_a_file_that_takes_too_much_fails_the_run(tmp_path, options, mark, fails):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "test_dear.py").write_text(DEAR.format(mark=mark))
    (tmp_path / "test_cheap.py").write_text(CHEAP)
    command = [sys.executable, "-m", "pytest", "-p", "xdist", *options]
    environ = bare_environment(PYTHONPATH=str(ROOT), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == (pytest.ExitCode.TESTS_FAILED if fails else pytest.ExitCode.OK), done.stdout
    assert ("more than 60 % of the processor time" in done.stdout) is fails
    assert ("test_dear.py\n" in done.stdout) is fails
    assert "2 passed" in done.stdout
