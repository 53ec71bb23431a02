"""The gateway as a server has it: its wheel is installed, and the repository is not there."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway_project import installation
from tests.gateway_project.local.launch import bare_environment

_OF_THE_WHEEL = ("gateway_project", "billing", "keys", "completions", "rankings", "templates", "deploy")


class Installation:
    """The files of the wheel, in a directory as pip makes it. Other packages are those of the tests."""

    def __init__(self, site: Path, wheel: Path) -> None:
        self.site, self.wheel = site, wheel

    def run(self, *words: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self.site / "bin" / "model-gateway"), *words]
        environ = bare_environment(PYTHONPATH=str(self.site), **variables)
        return subprocess.run(command, env=environ, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Build the wheel and install it, once for all tests of the folder, without a network."""
    base = tmp_path_factory.mktemp("wheel")
    for name in _OF_THE_WHEEL:
        shutil.copytree(installation.CODE / name, base / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(installation.CODE / "pyproject.toml", base / "source")
    _pip("wheel", "--no-build-isolation", "--wheel-dir", str(base), str(base / "source"))
    [wheel] = base.glob("*.whl")
    _pip("install", "--no-compile", "--target", str(base / "site"), str(wheel))
    return Installation(base / "site", wheel)


def _pip(word: str, *options: str) -> None:
    common = ["--quiet", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore", "--no-deps", "--no-index"]
    if word == "wheel":
        common.remove("--root-user-action=ignore")
    done = subprocess.run([sys.executable, "-m", "pip", word, *common, *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
