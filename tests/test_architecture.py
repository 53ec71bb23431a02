"""Names of modules, packages that list them, and lines of templates. import-linter checks the imports: see pyproject.toml."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ["gateway_project", "billing", "keys", "completions", "rankings"]
MODULES_MAX = 24  # of a folder: more are several things
BENCH_LINES_MAX, BENCH_WORDS_MAX = 2_500, 1_500  # of what a release measures again; the rest is in the history
LINE_CHARACTERS_MAX = 160  # of a template, which no formatter wraps
SAYS_NOTHING = {"utils", "helpers", "common", "services"}
UNLISTED = {"__init__", "apps", "migrations", "management", "commands"}
FOLDERS = [
    path.parent.relative_to(ROOT)
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("__init__.py"))
    if path.parent.name not in UNLISTED and path.parent.parent.name != "providers"  # which lists the modules of its folders
]


def test_module_names_say_what_is_inside():
    names = {path.stem for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert names & SAYS_NOTHING == set()


def test_a_folder_has_few_modules():
    modules = [path for package in [*PACKAGES, "bench"] for path in (ROOT / package).rglob("*.py")]
    counts = Counter(path.parent.relative_to(ROOT) for path in modules if path.parent.name != "migrations")
    assert {str(folder): count for folder, count in counts.items() if count > MODULES_MAX} == {}


def test_benchmarks_and_their_page_stay_small():
    lines = sum(len(path.read_text().splitlines()) for path in (ROOT / "bench").rglob("*.py"))
    words = len((ROOT / "docs" / "bench.md").read_text().split())
    assert lines <= BENCH_LINES_MAX
    assert words <= BENCH_WORDS_MAX


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_package_docstring_lists_its_modules(folder):
    docstring = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text())) or ""
    modules = {path.stem for path in (ROOT / folder).glob("*.py")} | {
        path.parent.name for path in (ROOT / folder).glob("*/__init__.py")
    }
    assert {module for module in modules - UNLISTED if not re.search(rf"\b{module}\b", docstring)} == set()


def test_no_line_of_a_template_is_longer_than_160_characters():
    lines = {
        f"{path.relative_to(ROOT)}:{number}": line
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
    }
    assert len(lines) > 1000
    assert [place for place, line in lines.items() if len(line) > LINE_CHARACTERS_MAX] == []


def test_enter_in_a_form_presses_the_button_that_sends_what_was_typed():
    """A browser presses the first button of a form. One with a name, or for another address, sends something else."""
    named = []
    for path in sorted((ROOT / "templates").rglob("*.html")):
        for form in re.findall(r"<form\b.*?</form>", path.read_text(), re.DOTALL):
            buttons = re.findall(r"<button\b(?![^>]*type=.button)[^>]*>|<input\b[^>]*type=.submit[^>]*>", form)
            is_typed_in = re.search(
                r'_field\.html|\.as_p|<textarea|<input(?![^>]*type="(?:hidden|submit|checkbox|radio))', form
            )
            if is_typed_in and buttons and re.search(r"\b(?:name|formaction)=", buttons[0]):
                named.append(f"{path.relative_to(ROOT)}: {buttons[0]}")
    assert named == []


def test_every_test_that_ci_runs_by_name_is_there():
    [named] = re.findall(r"in_cells=\((.*)\)", (ROOT / ".ci" / "run").read_text())
    paths = subprocess.run(["bash", "-c", f"printf '%s\\n' {named}"], capture_output=True, text=True, check=True).stdout.split()
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []
