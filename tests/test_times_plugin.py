"""``--file-share-max`` fails a run in which a file takes too much of the processor time, and has no system tests."""

import pytest

from tests import bare_pytest

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
    until = time.process_time() + 0.3
    while time.process_time() < until:
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
    done = bare_pytest.run(tmp_path, "-p", "xdist", *options)
    assert done.returncode == (pytest.ExitCode.TESTS_FAILED if fails else pytest.ExitCode.OK), done.stdout
    assert ("more than 60 % of the processor time" in done.stdout) is fails
    assert ("test_dear.py\n" in done.stdout) is fails
    assert "2 passed" in done.stdout
