"""Mutation tests: every mutant in ``tests.mutants`` makes each of the tests that it names fail.

They run in a separate pytest process with its own database, in which the same tests also pass without a mutant.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.mutants import LONG, MUTANTS

ROOT = Path(__file__).resolve().parent.parent
HARMLESS = """
from tests import mutants

def mutant(name, sound, broken):
    mutants.mutant(name, "Nothing.", mutants.code("gateway_project.dollars:format_plain", sound, broken),
                    "gateway_project/test_dollars.py::test_dollars_for_programs_and_for_people[0-0.00-$0.00]")

mutant("harmless", "abs(amount_nanos)", "abs(int(amount_nanos))")
mutant("outdated", "amount_cents", "0")
"""


def run_mutants(*arguments: str, path: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutant_plugin", "-p", "no:cacheprovider", "--mutants", "-q"]
    environ = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run([*command, "--tb=short", *arguments], cwd=ROOT, env=environ, capture_output=True, text=True)


def test_every_mutant_is_killed_by_each_of_its_tests():
    runs = [test for mutant in MUTANTS.values() for test in mutant.tests]
    done = run_mutants(*sorted({test.partition("::")[0] for test in runs}))
    assert done.returncode == 0, done.stdout
    assert f"\n{len(runs) + len({*runs} - LONG)} passed in " in done.stdout


def test_a_surviving_mutant_and_an_outdated_mutant_fail(tmp_path):
    (tmp_path / "harmless_mutants.py").write_text(HARMLESS)
    done = run_mutants(
        "-p", "harmless_mutants", "-k", "test_dollars_for_programs", "tests/gateway_project/test_dollars.py", path=tmp_path
    )
    assert done.returncode == 1, done.stdout
    assert "The mutant harmless survives this test. Nothing." in done.stdout
    assert "gateway_project.dollars:format_plain does not contain 'amount_cents' exactly once: update the mutant" in done.stdout
    assert "2 failed, 1 passed" in done.stdout
