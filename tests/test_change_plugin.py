"""``--changed`` finds what differs from the main branch, and the tests that test it."""

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from tests import bare_pytest, change_plugin
from tests.change_plugin import base, changed_files, select_tests, touches_mutants

BURST = "tests/completions/charging/test_admission.py::test_a_burst_admits_exactly_the_requests_per_minute[2]"
PROJECT = """
[tool.pytest.ini_options]
testpaths = ["tests"]
addopts = "-p tests.mutant_plugin -p tests.change_plugin -p no:cacheprovider"
"""


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit on the branch main."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path, "first.py")
    return tmp_path


def git(root, *arguments):
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(root, file):
    (root / file).write_text("")
    git(root, "add", file)
    git(root, "commit", "--quiet", "-m", file)
    return git(root, "rev-parse", "HEAD")


def test_all_commits_of_a_branch_and_the_work_tree_are_the_change(repository):
    main = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "--quiet", "-b", "work")
    commit(repository, "second.py")
    commit(repository, "third.py")
    (repository / "first.py").unlink()
    (repository / "not yet added.py").write_text("")
    assert base(repository) == main
    assert changed_files(repository, main) == {"first.py", "second.py", "third.py", "not yet added.py"}


def test_what_others_did_meanwhile_is_no_part_of_the_change(repository):
    main = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "--quiet", "-b", "work")
    commit(repository, "second.py")
    git(repository, "checkout", "--quiet", "main")
    commit(repository, "of others.py")
    git(repository, "checkout", "--quiet", "work")
    assert base(repository) == main


def test_a_clone_compares_with_the_origin(repository, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", "--quiet", str(repository), ".")
    main = git(clone, "rev-parse", "HEAD")
    commit(clone, "second.py")  # on the clone's own branch main
    assert base(clone) == main


def test_on_the_main_branch_it_is_unknown_which_commits_are_new(repository):
    commit(repository, "second.py")
    assert base(repository) is None
    assert base(repository, "HEAD~1") == git(repository, "rev-parse", "HEAD~1")


def test_a_revision_that_is_not_there_is_unknown(repository):
    assert base(repository, "0" * 40) is None


@pytest.mark.parametrize(
    ("changed", "some"),
    [
        pytest.param(
            "keys/limits/gcra.py",
            {"tests/keys/limits/test_gcra.py", "tests/keys/limits/test_rate_limits.py", BURST},
            id="its own, those of what imports it, and those that kill its mutants",
        ),
        pytest.param(
            "billing/management/commands/grant_credit.py", {"tests/billing/test_operator_commands.py"}, id="a command"
        ),
        pytest.param("tests/keys/limits/test_gcra.py", {"tests/keys/limits/test_gcra.py"}, id="a test"),
        pytest.param("tests/live/gateway.py", {"tests/live/test_crashes.py"}, id="what slow tests use"),
        pytest.param("tests/rankings/conftest.py", {"tests/rankings/api/test_api.py"}, id="fixtures of a folder"),
        pytest.param("templates/public/landing.html", {"tests/completions/public/test_pages.py"}, id="a template"),
        pytest.param("docs/limits.md", {"tests/test_docs.py"}, id="a document"),
        pytest.param("billing/migrations/0001_initial.py", {"tests/test_migrations.py"}, id="a migration"),
    ],
)
def test_a_change_is_tested_by(changed, some):
    found = select_tests({changed})
    assert some <= {*found}
    assert len(found) < 50


def test_a_change_of_a_module_starts_no_gateway_and_no_browser():
    tests = select_tests({"completions/models/catalog.py"})
    assert tests
    assert [test for test in tests if test.startswith("tests/live/") or "_in_a_browser" in test] == []


@pytest.mark.parametrize("file", ["gateway_project/settings.py", "tests/conftest.py", "tests/factories.py", "pyproject.toml"])
def test_what_every_test_depends_on_is_tested_by_all(file):
    assert select_tests({"keys/limits/gcra.py", file}) == ["tests"]


def test_several_changes_are_tested_together_and_each_test_once():
    both = select_tests({"keys/limits/gcra.py", "tests/completions/charging/test_admission.py"})
    assert {"tests/keys/limits/test_gcra.py", "tests/completions/charging/test_admission.py"} <= {*both}
    assert BURST not in both  # its whole file runs


@pytest.mark.parametrize(
    ("file", "touches"),
    [
        ("billing/ledger/holds.py", True),
        ("billing/migrations/0009_more.py", True),
        ("tests/billing/ledger/test_holds.py", True),
        ("tests/billing/conftest.py", True),
        ("tests/mutants.py", True),
        ("tests/usage.py", True),
        ("requirements-dev.txt", True),
        ("docs/limits.md", False),
        ("rankings/admin.py", False),
        ("tests/rankings/test_admin.py", False),
    ],
)
def test_mutants_run_again_when_what_decides_about_them_changes(file, touches):
    assert touches_mutants({file}) is touches


@pytest.fixture
def project(repository):
    """A project with two tests, which pass."""
    (repository / "pyproject.toml").write_text(PROJECT)
    for file in ("tests/keys/limits/test_gcra.py", "tests/rankings/test_admin.py"):
        (repository / file).parent.mkdir(parents=True)
        (repository / file).write_text("def test_it():\n    pass\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "Add tests")
    return repository


@pytest.mark.system
def test_the_command_runs_the_tests_of_a_change_and_says_so(project):
    (project / "tests" / "keys" / "limits" / "test_gcra.py").write_text("def test_it():\n    assert not 'so'\n")
    done = bare_pytest.run(project, "-p", "xdist", "-n1", "--changed")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "a quick answer, not the proof; it runs\n    tests/keys/limits/test_gcra.py\n" in done.stdout
    assert "1 failed in " in done.stdout


def configured(root, mutants):
    option = SimpleNamespace(changed="", mutants=mutants)
    config: Any = SimpleNamespace(rootpath=root, option=option, args=["tests"])
    change_plugin.pytest_configure(config)
    return config


def test_the_command_needs_a_change(project):
    with pytest.raises(pytest.UsageError, match="--changed=REVISION names what to compare with"):
        configured(project, "dangerous")


def test_without_a_known_change_all_mutants_run(project):
    assert configured(project, "all").args == ["tests"]


def test_a_change_that_touches_no_mutant_runs_none(project):
    (project / "docs.md").write_text("")
    with pytest.raises(pytest.exit.Exception, match="No mutant is touched by what changed since ") as ended:
        configured(project, "all")
    assert ended.value.returncode == 0


def test_a_change_that_no_test_names_is_no_failure(project):
    file = "named " * 3  # not by this test either
    (project / file).write_text("")
    with pytest.raises(pytest.exit.Exception, match=f"No test names what changed since .*: {file}") as ended:
        configured(project, "dangerous")
    assert ended.value.returncode == 0
