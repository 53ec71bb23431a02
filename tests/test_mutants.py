"""The suite catches every mutant: each way of being wrong with money that ``tests.mutants`` lists fails the tests it names.

They meet in one process of their own, with a database of their own, in which the same tests pass without a mutant.
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


def meet(*arguments: str, path: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutant_plugin", "-p", "no:cacheprovider", "--mutants", "-q"]
    environ = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run([*command, "--tb=short", *arguments], cwd=ROOT, env=environ, capture_output=True, text=True)


def test_every_mutant_is_killed_by_each_of_its_tests():
    meetings = [test for mutant in MUTANTS.values() for test in mutant.meets]
    told = meet(*sorted({test.partition("::")[0] for test in meetings}))
    assert told.returncode == 0, told.stdout
    assert f"\n{len(meetings) + len({*meetings} - LONG)} passed in " in told.stdout


def test_a_surviving_mutant_and_an_outdated_mutant_fail(tmp_path):
    (tmp_path / "harmless_mutants.py").write_text(HARMLESS)
    told = meet(
        "-p", "harmless_mutants", "-k", "test_dollars_for_programs", "tests/gateway_project/test_dollars.py", path=tmp_path
    )
    assert told.returncode == 1, told.stdout
    assert "The mutant harmless survives this test. Nothing." in told.stdout
    assert "gateway_project.dollars:format_plain does not say 'amount_cents' once: let the mutant follow it" in told.stdout
    assert "2 failed, 1 passed" in told.stdout
