"""A pytest plugin that runs the tests which a change touches: a quick answer, and not the proof.

    pytest --changed             what differs from the main branch of the origin, or from ``main``: commits and the work tree
    pytest --changed=HEAD~3      what differs from that revision
    pytest --changed --mutants=all    all mutants, if the change touches what is mutated or what must kill it, or if in doubt

A changed module is tested by the tests at its path, those that import or name it, those that must kill its mutants, and those
at the paths of the modules that import it, unless these are many. Templates, documents and other files are tested by the tests
that name them, and by those of the modules that do. Tests of whole gateways and in a browser run only if they changed. What all
tests depend on, such as settings, runs them all.
"""

import functools
import logging
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from tests import mutant_plugin
from tests.mutants import LONG, MUTANTS

if TYPE_CHECKING:
    import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gateway_project", "billing", "keys", "completions", "rankings")

# Every test depends on what these paths begin with.
_EVERYTHING = ("gateway_project/settings", "pyproject.toml", "requirements", "tests/conftest.py", "tests/environment.py")
_IMPORTERS_MAX = 8  # whose own tests run, too: with more, a module is known by its own tests
_TESTS_BY_FOLDER = {
    "docs": "tests/test_docs.py",
    "migrations": "tests/test_migrations.py",
    "templates": "tests/pages/test_look_of_the_pages.py",
}
_ROOTS = ("", "templates", "static")  # folders from which files are named
_SLOW = ("tests/live/", "tests/gateway_project/local/", "_in_a_browser.py")  # whole gateways, and browsers


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed", nargs="?", const="", metavar="REVISION", help="run the tests of what changed since the revision"
    )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.args = config.workerinput["args"]  # the controller has chosen
        return
    if config.option.changed is None:
        return
    since = base(config.rootpath, config.option.changed)
    changed = changed_files(config.rootpath, since) if since else set()
    if config.option.mutants == "all":
        if since and not touches_mutants(changed):
            pytest.exit(f"No mutant is touched by what changed since {since:.12}.", returncode=0)
        return
    if not changed:
        raise pytest.UsageError("nothing differs from the main branch: --changed=REVISION names what to compare with")
    tests = select_tests(changed)
    if not tests:
        pytest.exit(f"No test names what changed since {since:.12}: {', '.join(sorted(changed))}", returncode=0)
    config.args = tests


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    node.workerinput["args"] = node.config.args  # type: ignore[attr-defined]


def pytest_report_header(config: pytest.Config) -> list[str]:
    if config.option.changed is None or config.option.mutants == "all":
        return []
    return ["changed: a quick answer, not the proof; it runs", *(f"    {test}" for test in config.args)]


# --- What changed ------------------------------------------------------------------------------------------------------


def base(root: Path, revision: str = "") -> str | None:
    """Return the commit from which the work tree differs by the change in question, or None if that cannot be known.

    Without a revision that is the last commit shared with the main branch. Where HEAD is on that branch and nothing is
    uncommitted, it is unknown how many of its commits are new.
    """
    head = _git(root, "rev-parse", "HEAD").strip()
    for name in [revision] if revision else ["origin/HEAD", "main"]:
        try:
            commit = _git(root, "merge-base", "HEAD", name).strip()
        except subprocess.CalledProcessError:  # there is no such revision, or the clone is too shallow
            continue
        return commit if revision or commit != head or changed_files(root, commit) else None
    return None


def changed_files(root: Path, since: str) -> set[str]:
    """Return the paths that differ from the commit, with those that are gone or not yet added."""
    different = _git(root, "diff", "--name-only", "--no-renames", "-z", since, "--")
    added = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return {path for path in (different + added).split("\0") if path}


def _git(root: Path, *arguments: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # of a hook that runs tests
    return subprocess.run(["git", *arguments], cwd=root, env=environ, capture_output=True, text=True, check=True).stdout


# --- Which tests it touches --------------------------------------------------------------------------------------------


def touches_mutants(changed: Iterable[str]) -> bool:
    """Return whether a change may decide whether a mutant is killed.

    That is a change of what is mutated, of tests that must kill it, of what these may use, or of what all tests depend on.
    """
    paths = (*_EVERYTHING, *mutant_plugin.killer_files(), *(mutant.change.path for mutant in MUTANTS.values()))
    return any(path.startswith(paths) or _is_used_by_tests(PurePosixPath(path)) for path in changed)


def _is_used_by_tests(path: PurePosixPath) -> bool:
    return path.parts[0] == "tests" and path.suffix == ".py" and not path.name.startswith("test_")


def select_tests(changed: Iterable[str]) -> list[str]:
    """Return the files, and single tests of further ones, that test what changed."""
    found = {test for path in changed for test in _tests_of(PurePosixPath(path))}
    if "tests" in found:
        return ["tests"]
    files = {test for test in found if (ROOT / test).is_file()}
    return sorted(files | {test for test in found if "::" in test and test.partition("::")[0] not in files})


def _tests_of(path: PurePosixPath) -> Iterator[str]:
    if str(path).startswith(_EVERYTHING):
        yield "tests"
    elif path.name.startswith("test_") and path.parts[0] == "tests":
        yield str(path)
    elif _is_used_by_tests(path):
        yield from _tests_with(path)
    else:
        tests = set(_tests_of_module(path) if path.suffix == ".py" else _tests_of_text(path))
        tests |= {test for folder, test in _TESTS_BY_FOLDER.items() if folder in path.parts}
        yield from (test for test in tests or _tests_beside(path) if not any(slow in test for slow in _SLOW))


def _tests_with(path: PurePosixPath) -> Iterator[str]:
    """Yield the tests that use a module of the tests, or a conftest that does."""
    graph, seen, pending = _import_graph(), set(), {_module(path)}
    while pending:
        seen |= pending
        importers = {each for module in pending & graph.modules for each in graph.find_modules_that_directly_import(module)}
        pending = {module for module in importers - seen if module.startswith("tests.")}
    for module in seen:
        file = _file(module)
        if file.name.startswith("test_"):
            yield str(file)
        elif str(file) == "tests/conftest.py":
            yield "tests"
        elif file.name == "conftest.py":
            yield from (test for test in _texts("tests") if PurePosixPath(test).is_relative_to(file.parent))


def _tests_of_module(path: PurePosixPath) -> Iterator[str]:
    importers = _importers(path)
    yield from (str(each) for each in importers if each.name.startswith("test_"))
    of_product = [each for each in importers if each.parts[0] != "tests"]
    for each in [path, *(of_product if len(of_product) <= _IMPORTERS_MAX else ())]:
        yield from _tests_at(each)
    yield from _tests_naming(path)
    for mutant in MUTANTS.values():
        if str(path).startswith(mutant.change.path):
            yield from {*mutant.killed_by} - LONG


def _tests_of_text(path: PurePosixPath) -> Iterator[str]:
    for each in _with_templates_naming(path):
        yield from _tests_naming(each)
        yield from _tests_of_modules_naming(each)


def _importers(path: PurePosixPath) -> list[PurePosixPath]:
    module, graph = _module(path), _import_graph()
    return sorted(map(_file, graph.find_modules_that_directly_import(module) if module in graph.modules else ()))


def _tests_at(path: PurePosixPath) -> Iterator[str]:
    """Yield the test at the path of a module, or nothing."""
    test = PurePosixPath("tests", path.parent, f"test_{path.stem}.py")
    yield from [str(test)] if (ROOT / test).exists() else []


def _tests_beside(path: PurePosixPath) -> Iterator[str]:
    """Yield the tests of the folder of a file for which there is no test of its own."""
    if len(path.parts) > 1:
        yield from (str(test.relative_to(ROOT)) for test in sorted((ROOT / "tests" / path.parent).glob("test_*.py")))


def _tests_naming(path: PurePosixPath) -> Iterator[str]:
    yield from (test for test, text in _texts("tests").items() if _is_named(path, text))


def _tests_of_modules_naming(path: PurePosixPath) -> Iterator[str]:
    for module in [
        PurePosixPath(file) for package in PACKAGES for file, text in _texts(package).items() if _is_named(path, text)
    ]:
        yield from _tests_at(module)
        yield from (str(each) for each in _importers(module) if each.name.startswith("test_"))


def _with_templates_naming(path: PurePosixPath) -> list[PurePosixPath]:
    """Return the file, and the templates that include or extend it, unless these are many."""
    found = [path]
    for each in found:
        found += [
            other
            for file, text in _texts("templates").items()
            if _is_named(each, text) and (other := PurePosixPath(file)) not in found
        ]
    return found if len(found) <= _IMPORTERS_MAX else [path]


def _is_named(path: PurePosixPath, text: str) -> bool:
    """Return whether a source names the file: a module or command by its name, a template as its loader knows it."""
    if path.suffix == ".py":
        names = [str(path), f'"{_module(path)}', *([f'"{path.stem}"'] if path.parent.name == "commands" else [])]
    else:
        names = [f'"{path.name}"', *(str(path.relative_to(each)) for each in path.parents if each.name in _ROOTS)]
    return any(name in text for name in names)


def _module(path: PurePosixPath) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _file(module: str) -> PurePosixPath:
    path = PurePosixPath(*module.split("."))
    return path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")


@functools.cache
def _texts(folder: str) -> dict[str, str]:
    """Return the sources below a folder, by path: of the tests only their test files."""
    pattern = {"tests": "test_*.py", "templates": "*.html"}.get(folder, "*.py")
    return {str(file.relative_to(ROOT)): file.read_text() for file in sorted((ROOT / folder).rglob(pattern))}


@functools.cache
def _import_graph() -> "grimp.ImportGraph":
    import grimp

    logging.getLogger("grimp").setLevel(logging.ERROR)  # it warns of names that no module can have, such as crashing.conf.py
    return grimp.build_graph(*PACKAGES, "tests", cache_dir=None)
