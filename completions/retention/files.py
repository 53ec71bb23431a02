"""The files of the archive: for each UTC day one of JSON lines, compressed by gzip, and a manifest with its SHA-256.

A line is an object with the rows ``completion`` and ``hold``, by column. A file gets its name when it is whole and on disk.
"""

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from django.conf import settings

from completions.charging.recovery import file_lock
from gateway_project.db import cell


class Damaged(Exception):
    """A file of the archive is missing, or is not the one that was written."""


@dataclass(frozen=True)
class File:
    """A file of the archive, as its manifest says."""

    name: str
    rows: int
    bytes: int
    sha256: str


def write(day: date, lines: Iterable[str]) -> File:
    """Write the lines to the file of the day and the current cell, and its manifest. A file of that name is replaced."""
    of_cell = "" if cell.current() == cell.FIRST else f"-{cell.schema(cell.current())}"
    name, directory = f"completions-{day}{of_cell}.jsonl.gz", Path(settings.ARCHIVE_DIR)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    rows = 0
    # Without a time or a name, so that the same rows are the same file.
    with _new_file(directory / name) as raw, gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed:
        for line in lines:
            packed.write(line.encode() + b"\n")
            rows += 1
    file = File(name, rows, (directory / name).stat().st_size, _sha256(directory / name))
    with _new_file(directory / f"{name.removesuffix('.jsonl.gz')}.json") as raw:
        raw.write(json.dumps({"day": str(day), **asdict(file)}).encode())
    file_lock.sync_directory(directory)
    return file


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write, which gets its name when it is on disk. Another of this name is replaced."""
    part = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        # No other user may read it: it has what callers said of their users.
        with open(part, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as raw:
            yield raw
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def verify(file: File) -> None:
    """Read the file. Raises Damaged if it is not what was written."""
    path = Path(settings.ARCHIVE_DIR) / file.name
    try:
        size, sha256 = path.stat().st_size, _sha256(path)
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}.") from None
    if (size, sha256) != (file.bytes, file.sha256):
        raise Damaged(f"{path} is not the file that was written: its SHA-256 is {sha256}, not {file.sha256}.")


def read(file: File) -> Iterator[dict[str, Any]]:
    """Yield the rows of the file."""
    with gzip.open(Path(settings.ARCHIVE_DIR) / file.name) as lines:
        for line in lines:
            yield json.loads(line)


def _sha256(path: Path) -> str:
    with path.open("rb") as raw:
        return hashlib.file_digest(raw, "sha256").hexdigest()
