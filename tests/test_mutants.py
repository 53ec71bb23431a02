"""Mutation tests: ``tests.mutant_plugin`` runs mutants with the tests that must kill them, in this run the dangerous ones.

Here every mutant is checked without running its tests; ``make mutants`` runs all of them.
"""

import ast
import os
import subprocess
import sys

import pytest

from tests import mutant_plugin
from tests.mutants import MUTANTS, ROOT, SERVES, Mutant

HARMLESS = """
from tests import mutants

def mutant(name, sound, broken):
    mutants.mutant(name, "Nothing.", mutants.code("gateway_project.text.dollars:format_plain", sound, broken),
                    "gateway_project/text/test_dollars.py::test_dollars_for_programs_and_for_people[0-0.00-$0.00]")

mutant("harmless", "abs(amount_nanos)", "abs(int(amount_nanos))")
mutant("outdated", "amount_cents", "0")
"""


def test_every_mutant_fits_today_s_source():
    for mutant in MUTANTS.values():
        assert (ROOT / mutant.change.path).exists()
        with mutant.change.applied():
            pass


def test_every_mutant_must_be_killed_by_tests_that_exist():
    functions = {
        f"{file}::{node.name}"
        for file in mutant_plugin.killer_files()
        for node in ast.parse((ROOT / file).read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert all(mutant.killed_by for mutant in MUTANTS.values())
    assert {test for mutant in MUTANTS.values() for test in mutant.tests if test.partition("[")[0] not in functions} == set()


def test_every_dangerous_mutant_runs_in_each_run_of_the_suite_and_serves():
    dangerous = mutant_plugin.runs("dangerous")
    assert {name for name, mutant in MUTANTS.items() if mutant.dangerous} == dangerous.keys() != set()
    assert all(SERVES in tests and len(tests) > 1 for tests in dangerous.values())


@pytest.mark.system
def test_a_surviving_mutant_and_an_outdated_mutant_fail(tmp_path):
    (tmp_path / "harmless_mutants.py").write_text(HARMLESS)
    plugins = ["-p", "no:cacheprovider", "-p", "harmless_mutants"]
    only = ["-k", "test_dollars_for_programs", "tests/gateway_project/text/test_dollars.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "--mutants=all", "-q", "--tb=short", *only],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout
    assert "The mutant harmless survives this test. Nothing." in done.stdout
    assert (
        "gateway_project.text.dollars:format_plain does not contain 'amount_cents' exactly once: update the mutant"
        in done.stdout
    )
    assert "2 failed, 1 passed" in done.stdout


def test_a_test_that_is_named_and_not_collected_stops_the_run(monkeypatch):
    monkeypatch.setitem(MUTANTS, "of_no_test", Mutant("Nothing.", MUTANTS["settle_twice"].change, (SERVES + "[other]",), True))
    with pytest.raises(pytest.UsageError, match=r"do not exist: tests/test_promises\.py::\w+\[other\]"):
        mutant_plugin.require_all("dangerous", {("", SERVES)} | {(name, SERVES) for name in MUTANTS})
