"""Files as clouds deliver them, as rows: CSV or pages of JSON, plain, in gzip or zip, in UTF-8 or UTF-16. Memory is bounded."""

import codecs
import csv
import gzip
import hashlib
import io
import itertools
import json
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import IO, Any

UNPACKED_BYTES_MAX = 50_000_000_000  # of all files of a bill
UPLOADED_BYTES_MAX = 10_000_000  # unpacked, of an upload: a web process reads it
_JSON_BYTES_MAX = 50_000_000  # pages are read whole
_LINE_CHARACTERS_MAX = 1_000_000
_PIECE_BYTES = 1_000_000
_SMALLER = "Import it with the command import_bill, or export fewer days."

Row = dict[str, str]  # texts by the lower-case names of columns


class Refused(Exception):
    """The files are no bill that can be read. The text is a sentence."""


@dataclass(frozen=True)
class File:
    name: str
    content: IO[bytes]  # can be read several times


class _Kept(io.RawIOBase):
    """Reads a file without closing it: it is read again."""

    def __init__(self, content: IO[bytes] | gzip.GzipFile) -> None:
        self._content = content

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._content.read(len(buffer))
        buffer[: len(read)] = read
        return len(read)


@contextmanager
def unpacked(file: File) -> Iterator[Iterator[tuple[str, io.BufferedReader]]]:
    """Give the files in a file with their names. Raises Refused, also while they are read."""
    file.content.seek(0)
    magic = file.content.read(4)
    file.content.seek(0)
    try:
        if magic[:2] == b"\x1f\x8b":
            with gzip.open(file.content) as content:
                yield iter([(file.name, io.BufferedReader(_Kept(content)))])
        elif magic == b"PK\x03\x04":
            with zipfile.ZipFile(file.content) as archive:
                names = [each for each in archive.namelist() if each.lower().endswith((".csv", ".json"))]
                yield ((name, io.BufferedReader(_Kept(archive.open(name)))) for name in names)
        else:
            yield iter([(file.name, io.BufferedReader(_Kept(file.content)))])
    except (EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:  # RuntimeError: it is encrypted
        raise Refused(f"{file.name} cannot be unpacked: {error}.") from None


def digest(files: Sequence[File], bytes_max: int) -> str:
    """Return the SHA-256 of what the files contain: a packer's times do not make another bill. Raises Refused."""
    found, size = hashlib.sha256(), 0
    for file in files:
        with unpacked(file) as contents:
            for _, content in contents:
                part = hashlib.sha256()
                while piece := content.read(_PIECE_BYTES):
                    part.update(piece)
                    if (size := size + len(piece)) > bytes_max:
                        raise Refused(f"Unpacked it is larger than {bytes_max:,} bytes. {_SMALLER}")
                found.update(part.digest())
    return found.hexdigest()


def rows(content: io.BufferedReader) -> Iterator[tuple[int, Row | str]]:
    """Yield each row with the number of its line, or why it is none; the head first, as number 0. Raises Refused."""
    beginning = content.peek(4)[:4]
    text = io.TextIOWrapper(content, _encoding(beginning), errors="surrogateescape", newline="")
    first = text.readline(_LINE_CHARACTERS_MAX)
    yield from (_json_rows(first, text) if first.lstrip()[:1] in ("{", "[") else _csv_rows(first, text))


def _encoding(beginning: bytes) -> str:
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-16-le" if beginning[1:2] == b"\0" else "utf-8-sig"


def _lines(first: str, text: IO[str]) -> Iterator[str]:
    line, number = first, 1
    while line:
        if len(line) >= _LINE_CHARACTERS_MAX:
            raise Refused(f"Line {number} has more than {_LINE_CHARACTERS_MAX:,} characters.")
        yield line
        line, number = text.readline(_LINE_CHARACTERS_MAX), number + 1


def _csv_rows(first: str, text: IO[str]) -> Iterator[tuple[int, Row | str]]:
    reader = csv.reader(_lines(first, text), delimiter=max(",;\t", key=first.count))
    names = [name.strip().lower() for name in next(reader, [])]
    yield 0, dict.fromkeys(reversed(names), "")
    while True:
        number = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, str(error)
            continue
        if not values:
            continue
        if len(values) != len(names):
            yield number, f"{len(values)} fields instead of {len(names)}"
            continue
        yield number, dict(zip(reversed(names), reversed(values), strict=True))  # of two columns of a name the first counts


def _json_rows(first: str, text: IO[str]) -> Iterator[tuple[int, Row | str]]:
    """Yield the results of pages of OpenAI's and Anthropic's cost APIs, each with its bucket's time."""
    whole = first + text.read(_JSON_BYTES_MAX)
    try:
        pages = json.loads(whole, parse_float=Decimal, parse_int=str)
        pages = pages if isinstance(pages, list) else [pages]
        found = [
            ({**bucket, "results": None}, result) for page in pages for bucket in page["data"] for result in bucket["results"]
        ]
        is_cut = bool(pages and pages[-1].get("has_more"))
        flat = [_flatten({**bucket, **result}) for bucket, result in found]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Refused(f"It is no JSON of a cost API, a page with data and results: {error!r}.") from None
    if is_cut:
        raise Refused("Further pages follow the last one, which has has_more. Put all pages into one array.")
    yield 0, dict.fromkeys(itertools.chain.from_iterable(flat), "")
    yield from enumerate(flat, 1)


def _flatten(result: dict[str, Any]) -> Row:
    flat: Row = {}
    for name, value in result.items():
        parts = {f"{name}.{part}": each for part, each in value.items()} if isinstance(value, dict) else {name: value}
        flat |= {key.lower(): "" if each is None else str(each) for key, each in parts.items()}
    return flat
