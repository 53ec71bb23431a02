"""`docs/reliability.md` has the marked tests, and a fault that does not hold fails the command that writes its verdicts."""

import subprocess
import sys

from tests import faults
from tests.faults import PAGE, Fault
from tests.gateway_project.local.launch import bare_environment

TEST = "tests/test_something.py::test_it_goes_on"
FAULT = Fault("Redis", "Redis is away", "All goes on")
EMPTY = "before\n<!-- Written by `make faults`. -->\nold\n<!-- The end of what it writes. -->\n"
FAILING = """
from tests.faults import fault

@fault("Redis", "Redis is away", "All goes on")
def test_it_goes_on():
    assert not "so"

@fault("Disk", "The disk is full", "All goes on")
def test_it_stays(record_property):
    record_property("measured", "12 requests")
"""


def test_the_page_has_exactly_the_marked_tests_in_their_words():
    assert {test: fault for test, (fault, _) in faults.in_the_page(PAGE.read_text()).items()} == faults.marked()


def test_every_place_has_a_fault():
    assert {each.place for each in faults.marked().values()} == set(faults.PLACES)


def test_the_table_replaces_what_was_between_the_comments():
    page = faults.written(EMPTY, "Today.", {TEST: FAULT}, {TEST: "**failed**"})
    assert "| Redis is away | All goes on | **failed** | [`test_it_goes_on`](../tests/test_something.py) |" in page
    assert page.startswith("before\n")
    assert ("old" in page, "Today." in page) == (False, True)
    assert (faults.in_the_page(page), faults.summary_in(page)) == ({TEST: (FAULT, "**failed**")}, "Today.")
    assert faults.written(page, "Today.", {TEST: FAULT}, {TEST: "**failed**"}) == page


def test_a_fault_that_does_not_hold_fails_the_command(tmp_path):
    (tmp_path / "test_failing.py").write_text(FAILING)
    before = PAGE.read_text()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = fault(fault): brings it about\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.fault_plugin", "-p", "no:cacheprovider", "-m", "fault"]
    environ = bare_environment(PYTHONPATH=str(faults.ROOT), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    assert "**failed**   Redis is away (" in done.stdout
    assert "held: 12 requests The disk is full (" in done.stdout
    assert PAGE.read_text() == before  # these are no faults of the gateway


def test_the_command_runs_the_long_tests_too():
    command = ["make", "--dry-run", "faults", "ARGS=tests/pages"]
    assert (
        '-m "fault or long" --mutants=none tests/pages'
        in subprocess.run(command, cwd=faults.ROOT, capture_output=True, text=True).stdout
    )
