"""``make test`` leaves out the system tests, and says so. ``--all``, and a path, run them."""

import pytest

from tests import bare_pytest

PROJECT = """
[tool.pytest.ini_options]
testpaths = ["tests"]
addopts = "-p tests.mutant_plugin -p tests.change_plugin -p tests.system_plugin -p no:cacheprovider"
markers = ["system"]
"""
TESTS = """
import pytest

@pytest.fixture
def chromium():
    pass

def test_a_function(): pass

@pytest.mark.system
def test_a_process(): pass

def test_a_page(chromium): pass
"""
SAID = "system tests: left out; --all, --system or their path runs them"


@pytest.mark.system
@pytest.mark.parametrize(
    ("arguments", "outcome", "is_said"),
    [
        pytest.param([], "1 passed, 2 deselected", True, id="not by themselves"),
        pytest.param(["-n1"], "1 passed", True, id="not in a worker either"),
        pytest.param(["--all"], "3 passed", False, id="with all"),
        pytest.param(["-n1", "--all"], "3 passed", False, id="with all, in a worker"),
        pytest.param(["--system"], "2 passed, 1 deselected", False, id="alone"),
        pytest.param(["tests/test_it.py"], "3 passed", False, id="by their path"),
        pytest.param(["-n1", "tests/test_it.py"], "3 passed", False, id="by their path, in a worker"),
    ],
)
def test_system_tests_run_if_asked_for(tmp_path, arguments, outcome, is_said):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    done = bare_pytest.run(tmp_path, "-p", "xdist", *arguments)
    assert f"{outcome} in " in done.stdout, done.stdout
    assert (SAID in done.stdout) is is_said
