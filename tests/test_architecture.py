"""Names of modules. Which module may import which is import-linter's to check: see pyproject.toml."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ["gateway_project", "billing", "keys", "completions", "rankings"]
SAYS_NOTHING = {"utils", "helpers", "common", "services"}


def test_module_names_say_what_is_inside():
    names = {path.stem for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert names & SAYS_NOTHING == set()
