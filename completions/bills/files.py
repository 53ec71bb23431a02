"""Files as clouds deliver them, as rows: CSV or pages of JSON, plain, in gzip or zip, in UTF-8 or UTF-16. Memory is bounded."""

import csv
import gzip
import hashlib
import io
import itertools
import json
import lzma
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
_UNREADABLE = (EOFError, UnicodeDecodeError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
_SMALLER = "Import it with the command import_bill, or export fewer days."

Row = dict[str, str]  # texts by the lower-case names of columns


class Refused(Exception):
    """The files are no bill that can be read. The text is a sentence."""


@dataclass(frozen=True)
class File:
    name: str
    content: IO[bytes]


@contextmanager
def unpacked(file: File) -> Iterator[Iterator[tuple[str, Any]]]:
    """Give the files in a file with their names. Raises Refused, also while they are read."""
    file.content.seek(0)
    magic = file.content.read(4)
    file.content.seek(0)
    try:
        if magic[:2] == b"\x1f\x8b":
            with gzip.open(file.content) as content:
                yield iter([(file.name, content)])
        elif magic == b"PK\x03\x04":
            with zipfile.ZipFile(file.content) as archive:
                names = [each for each in archive.namelist() if each.lower().endswith((".csv", ".json"))]
                yield ((name, archive.open(name)) for name in names)
        else:
            yield iter([(file.name, file.content)])
    except (*_UNREADABLE, OSError, RuntimeError) as error:  # RuntimeError: it is encrypted
        raise Refused(f"{file.name} cannot be unpacked: {error}.") from None


def digest(files: Sequence[File], bytes_max: int, accounts: Sequence[str] = ()) -> str:
    """Return the SHA-256 of what is read of the files: a packer's times do not make another bill. Raises Refused."""
    found, size = hashlib.sha256("\n".join(accounts).encode()), 0
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


def rows(content: IO[bytes]) -> Iterator[tuple[int, Row | str]]:
    """Yield each row with the number of its line, or why it is none; the head first. Closes the file. Raises Refused."""
    beginning = content.read(2)
    content.seek(0)
    encoding = "utf-16" if beginning in (b"\xff\xfe", b"\xfe\xff") else "utf-16-le" if beginning[1:] == b"\0" else "utf-8-sig"
    with io.TextIOWrapper(content, encoding, errors="surrogateescape", newline="") as text:
        first = text.readline(_LINE_CHARACTERS_MAX)
        yield from (_json_rows(first, text) if first.lstrip()[:1] in ("{", "[") else _csv_rows(first, text))


def _lines(first: str, text: IO[str]) -> Iterator[str]:
    for number, line in enumerate(itertools.chain([first], iter(lambda: text.readline(_LINE_CHARACTERS_MAX), "")), 1):
        if len(line) >= _LINE_CHARACTERS_MAX:
            raise Refused(f"Line {number} has more than {_LINE_CHARACTERS_MAX:,} characters.")
        yield line


def _csv_rows(first: str, text: IO[str]) -> Iterator[tuple[int, Row | str]]:
    reader = csv.reader(_lines(first, text), delimiter=max(",;\t", key=first.count))
    try:
        names = [name.strip().lower() for name in reversed(next(reader, []))]  # of two columns of a name the first counts
    except csv.Error as error:
        raise Refused(f"The first line is no CSV: {error}.") from None
    yield 0, dict.fromkeys(names, "")
    while True:
        number = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, str(error)
            continue
        if len(values) == len(names):
            yield number, dict(zip(names, reversed(values), strict=True))
        elif values:
            yield number, f"{len(values)} fields instead of {len(names)}"


def _json_rows(first: str, text: IO[str]) -> Iterator[tuple[int, Row | str]]:
    """Yield the results of pages of OpenAI's and Anthropic's cost APIs, each with its bucket's time."""
    try:
        pages = json.loads(first + text.read(_JSON_BYTES_MAX), parse_float=Decimal, parse_int=str)
        pages = pages if isinstance(pages, list) else [pages]
        flat = [_flatten({**bucket, **result}) for page in pages for bucket in page["data"] for result in bucket["results"]]
        is_cut = bool(pages and pages[-1].get("has_more"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Refused(f"It is no JSON of a cost API, a page with data and results: {error!r}.") from None
    if is_cut:
        raise Refused("Further pages follow the last one, which has has_more. Put all pages into one array.")
    yield 0, dict.fromkeys(itertools.chain.from_iterable(flat), "")
    yield from enumerate(flat, 1)


def _flatten(result: dict[str, Any]) -> Row:
    del result["results"]
    parts = [(name, value) for name, value in result.items() if not isinstance(value, dict)]
    parts += [
        (f"{name}.{part}", each) for name, value in result.items() if isinstance(value, dict) for part, each in value.items()
    ]
    return {name.lower(): "" if value is None else str(value) for name, value in parts}
