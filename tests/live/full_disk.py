"""A disk that is full."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def disk(directory: Path) -> Iterator[Path]:
    """Mount a disk that has room for the reserve of an outbox, and for little else."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", directory], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "full").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4_096))
