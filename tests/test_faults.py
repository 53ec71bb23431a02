"""`docs/reliability.md` has the marked tests, and a fault that does not hold fails the command that writes its verdicts."""

import subprocess

import pytest

from tests import bare_pytest, faults
from tests.faults import PAGE, Fault, Figures

TEST = "tests/test_something.py::test_it_continues"
FAULT = Fault("Redis", "Redis is unavailable", "All continues")
EMPTY = "before\n<!-- Written by `make faults`. -->\nold\n<!-- The end of what it writes. -->\n"
FAILING = """
from tests.faults import fault

@fault("Redis", "Redis is unavailable", "All continues")
def test_it_continues():
    assert not "so"

@fault("Disk", "The disk is full", "All continues")
def test_it_stays(record_property):
    record_property("measured", "12 requests")
"""


def test_the_page_has_exactly_the_marked_tests_in_their_words():
    assert {test: fault for test, (fault, _) in faults.in_the_page(PAGE.read_text()).items()} == faults.marked()


def test_every_place_has_a_fault():
    assert {each.place for each in faults.marked().values()} == set(faults.PLACES)


def test_the_list_replaces_what_was_between_the_comments():
    page = faults.written(EMPTY, "Today.", {TEST: FAULT}, {TEST: "**failed**"})
    assert "- **Redis is unavailable.** All continues. [`test_it_continues`](../tests/test_something.py): **failed**\n" in page
    assert page.startswith("before\n")
    assert ("old" in page, "Today." in page) == (False, True)
    assert faults.in_the_page(page) == {TEST: (FAULT, "**failed**")}
    assert faults.written(page, "Today.", {TEST: FAULT}, {TEST: "**failed**"}) == page


def test_verdicts_of_earlier_days_get_their_date():
    page = faults.written(EMPTY, "On 1 May 2026, on 2 cores.", {TEST: FAULT}, {TEST: "held"})
    assert faults.earlier_in(page, "1 May 2026") == {TEST: "held"}
    assert faults.earlier_in(page, "2 May 2026") == {TEST: "held; run on 1 May 2026"}
    older = faults.written(page, "On 2 May 2026, on 2 cores.", {TEST: FAULT}, {TEST: "held; run on 1 May 2026"})
    assert faults.earlier_in(older, "3 May 2026") == {TEST: "held; run on 1 May 2026"}


def test_figures_are_rows_of_a_table_of_their_own():
    figures = faults.combined([Figures(1_000, 7, 3, 0.5, 2.0, 0.97), Figures(34, 5, 0, None, 1.0, 0.91, 4.25)])
    page = faults.written(EMPTY, "Today.", {TEST: FAULT}, {TEST: "held"}, {TEST: figures.cells()})
    assert "/test_something.py) | 1,034 | 12 | 3 | 0.50 | 2.00 | 0.91 | 4.25 |\n" in page
    assert faults.in_the_page(page) == {TEST: (FAULT, "held")}
    assert faults.figures_in(page) == {TEST: figures.cells()}
    unmeasured = faults.written(EMPTY, "Today.", {TEST: FAULT}, {TEST: "held"}, {TEST: Figures(1, 1, 0).cells()})
    assert faults.figures_in(unmeasured) == {TEST: Figures(1, 1, 0).cells()}


@pytest.mark.system
def test_a_fault_that_does_not_hold_fails_the_command(tmp_path):
    (tmp_path / "test_failing.py").write_text(FAILING)
    before = PAGE.read_text()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = fault(fault): brings it about\n")
    done = bare_pytest.run(tmp_path, "-p", "tests.fault_plugin", "-p", "no:cacheprovider", "-m", "fault")
    assert done.returncode == 1, done.stdout
    assert "**failed**   Redis is unavailable (" in done.stdout
    assert "held: 12 requests The disk is full (" in done.stdout
    assert PAGE.read_text() == before  # these are no faults of the gateway


def test_the_command_runs_the_long_tests_too():
    command = ["make", "--dry-run", "faults", "ARGS=tests/pages"]
    assert (
        '-m "fault or long" --all --mutants=none tests/pages'
        in subprocess.run(command, cwd=faults.ROOT, capture_output=True, text=True).stdout
    )
