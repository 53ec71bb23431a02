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
from functools import partial
from typing import IO, Any

from gevent import get_hub

from completions.bills.formats import FORMATS
from gateway_project.large_work import sliced

UNPACKED_BYTES_MAX = 50_000_000_000  # of all files of a bill
UPLOADED_BYTES_MAX = 3_000_000  # unpacked, of an upload: a web process reads it, and decodes JSON without a pause
_JSON_BYTES_MAX = 50_000_000  # pages are read whole
_FILES_MAX = 1_000  # of a zip
_LINE_CHARACTERS_MAX = 1_000_000
_PIECE_BYTES = 1_000_000
_COLUMNS = {column for form in FORMATS for columns in form.columns.values() for column in columns}
_MEMBERS = {"data", "results", "has_more"}.union(*({column, *column.split(".")} for column in _COLUMNS))  # of JSON
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
            with get_hub().threadpool.apply(zipfile.ZipFile, (file.content,)) as archive:  # its list may be long
                names = [each for each in archive.namelist() if each.lower().endswith((".csv", ".json"))]
                if len(names) > _FILES_MAX:
                    raise Refused(f"{file.name} has more than {_FILES_MAX:,} files.")
                yield sliced((name, archive.open(name)) for name in names)
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
                for piece in sliced(iter(partial(content.read, _PIECE_BYTES), b"")):
                    part.update(piece)
                    if (size := size + len(piece)) > bytes_max:
                        raise Refused(f"Unpacked it is larger than {bytes_max:,} bytes. {_SMALLER}")
                found.update(part.digest())
    return found.hexdigest()


def rows(content: IO[bytes]) -> Iterator[tuple[int, Any]]:
    """Yield the names of columns, then each ``Row`` with its number, or why it is none. Closes the file. Raises Refused."""
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


def _csv_rows(first: str, text: IO[str]) -> Iterator[tuple[int, list[str] | Row | str]]:
    reader = csv.reader(sliced(_lines(first, text)), delimiter=max(",;\t", key=first.count))
    try:
        names = [name.strip().lower() for name in next(reader, [])]
    except csv.Error as error:
        raise Refused(f"The first line is no CSV: {error}.") from None
    yield 0, names
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
            yield number, dict(zip(names, values, strict=True))
        elif values:
            yield number, f"{len(values)} fields instead of {len(names)}"


def _json_rows(first: str, text: IO[str]) -> Iterator[tuple[int, list[str] | Row]]:
    """Yield the results of pages of OpenAI's and Anthropic's cost APIs, each with its bucket's time."""
    members, content = partial(_members, sliced(itertools.repeat(None))), first + text.read(_JSON_BYTES_MAX)
    try:
        pages = json.loads(content, object_pairs_hook=members, parse_float=str, parse_int=str, parse_constant=str)
        pages = pages if isinstance(pages, list) else [pages]
        buckets = [bucket for page in pages for bucket in page["data"]]
        objects = (each for bucket in buckets for each in (bucket, *bucket["results"]))
        names = {name for each in sliced(objects) for name in each}
        if pages and pages[-1].get("has_more"):
            raise Refused("Further pages follow the last one, which has has_more. Put all pages into one array.")
        yield 0, list(names)
        results = ({**bucket, **result} for bucket in buckets for result in bucket["results"])
        for number, result in enumerate(results, 1):
            yield number, {name: value for name, value in result.items() if isinstance(value, str)}
    except RecursionError:
        raise Refused("It is nested too deeply.") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Refused(f"It is no JSON of a cost API, a page with data and results: {error}.") from None


def _members(pauses: Iterator[None], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members that are read, by lower-case names, those of objects in it by dotted ones. Raises Refused."""
    next(pauses)
    read = [(name.lower(), value) for name, value in pairs if name.lower() in _MEMBERS]
    parts = [
        *((name, value) for name, value in read if not isinstance(value, dict)),
        *((f"{name}.{of}", part) for name, value in read if isinstance(value, dict) for of, part in value.items()),
    ]
    found = dict(parts)
    if len(found) < len(parts):
        raise Refused(f"An object has {max(found, key=[name for name, _ in parts].count)} twice.")
    return found
