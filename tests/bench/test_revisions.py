"""The benchmarks of two revisions run at their smallest size. They take as long as all others, beside which they run."""

import re
import subprocess
import tempfile

import pytest

from bench.growth import upgrade
from tests.bench.programs import ROOT, lines_of

pytestmark = pytest.mark.system


def test_a_revision_is_compared_with_the_working_tree():
    head, *rows = lines_of("against", "HEAD", 0.5, 1)
    assert "HEAD   ratio" in head
    assert [re.split("  +", row)[0] for row in rows] == [
        *["whole"] * 3,
        *["stream of 103 events"] * 3,
        "an event more at once",
        "an event that is alone",
    ]
    assert f"{tempfile.gettempdir()}/bench-" not in worktrees()


def worktrees() -> str:
    return subprocess.run(["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_an_upgrade_under_load_fails_no_completion():
    lines = lines_of("growth.upgrade", "HEAD", 1_000, 2, 0.5)
    steps = ["before", "migrate", "old code on the new tables", *upgrade.TASKS, "after"]
    assert [re.split("  +", line)[0] for line in lines] == steps
    assert [line for line in lines if not re.search(r'  \{"200": \d+\}$', line)] == []
