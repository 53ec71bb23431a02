"""Builds the wheel (``make wheel``): puts ``templates`` and ``deploy`` within the package ``gateway_project``.

In a checkout they are beside it. Beside the packages of a virtual environment they would be anybody's.
"""

import shutil
from pathlib import Path

from setuptools.command.build_py import build_py


class BuildPackages(build_py):  # type: ignore[misc]
    def run(self) -> None:
        super().run()
        for name in ("templates", "deploy"):
            target = Path(self.build_lib) / "gateway_project" / name
            shutil.copytree(name, target, ignore=shutil.ignore_patterns("__pycache__", "wheel.py"), dirs_exist_ok=True)
