"""A run of all tests fails when one file takes more than its share of their time, and says which."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import share_plugin
from tests.gateway_project.local.launch import bare_environment
from tests.share_plugin import SHARES_MAX, Times

ROOT = Path(__file__).resolve().parent.parent
OF_PYTEST = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
MODERATE = {f"tests/test_{number}.py": Times(1.0, 2.0) for number in range(99)}
EXCEPTION, (SHARE_MAX, _) = next(iter(SHARES_MAX.items()))
PROJECT = """
[tool.pytest.ini_options]
testpaths = ["tests_of_it"]
addopts = "-p tests.mutant_plugin -p tests.change_plugin -p tests.share_plugin -p no:cacheprovider -m 'not long'"
markers = ["long: takes minutes"]
"""
GREEDY = """
import time, pytest

@pytest.fixture(scope="session")
def database():
    work_until(time.process_time() + 0.3)

def work_until(moment):
    while time.process_time() < moment:
        pass

def test_a_database(database):
    pass

def test_work():
    work_until(time.process_time() + 0.1)
"""


@pytest.mark.parametrize(
    ("file", "times", "excess"),
    [
        pytest.param("tests/test_a.py", Times(4.9, 4.0), [], id="within its share"),
        pytest.param("tests/test_a.py", Times(6.0, 4.0), ["5.7% of the processor time of all tests; 5%"], id="works"),
        pytest.param("tests/test_a.py", Times(1.0, 99.0), [], id="waits, perhaps for a busy machine"),
        pytest.param(EXCEPTION, Times(9.0, 8.5), [], id="an exception"),
        pytest.param(EXCEPTION, Times(50.0, 4.0), [f"% of the processor time of all tests; {SHARE_MAX:.0%}"], id="even so"),
    ],
)
def test_a_file_has_a_share(file, times, excess):
    found = share_plugin.excesses({**MODERATE, file: times})
    assert len(found) == len(excess)
    assert all(text in sentence and sentence.startswith(f"{file} takes ") for text, sentence in zip(excess, found, strict=True))


def test_exceptions_are_files_that_exist_with_more_than_the_share_of_all():
    for file, (share, reason) in SHARES_MAX.items():
        assert (ROOT / file).is_file()
        assert share > share_plugin.SHARE_MAX
        assert reason


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "tests_of_it").mkdir()
    (tmp_path / "tests_of_it" / "test_greedy.py").write_text(GREEDY)
    return tmp_path


def run(project: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-p", "xdist", *arguments]
    return subprocess.run(command, cwd=project, env=bare_environment(**OF_PYTEST), capture_output=True, text=True)


def test_a_run_of_everything_fails_for_a_greedy_file(project):
    done = run(project, "-n1")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "2 passed in " in done.stdout
    assert "FAILED tests_of_it/test_greedy.py takes 100.0% of the processor time of all tests; 5% is its share." in done.stdout
    [row] = [line for line in done.stdout.splitlines() if line.endswith("100.0%   tests_of_it/test_greedy.py")]
    assert float(row.split("processor")[1].split()[0]) < 0.3  # without the fixture of the session


def test_a_run_of_some_tests_does_not(project):
    done = run(project, "tests_of_it")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
