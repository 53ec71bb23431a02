"""Proves that a Model Gateway's ledger still says what it told you before. Needs Python 3.9 and nothing else.

    GATEWAY_API_KEY=... python verify_statement.py WITNESS https://gateway.example.com --save proof.json

WITNESS is what you kept: a CSV file of the ledger, a file that --save wrote, or the number and hash of an entry from a page or
a receipt, as 12:9f86d0... Keep the file of --save: the next run proves more with it.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import sys
import time
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256, sha512
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Fetch = Callable[..., dict[str, Any]]
Lines = tuple[list[str], list[str]]  # what is proven, and what is not
NANOS, NANOS_PER_CENT = 1_000_000_000, 10_000_000
AT_ONCE = 1_000
REPLY_BYTES_MAX, REPLY_SECONDS_MAX = 32_000_000, 300
AMOUNT = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?(E[-+]?[0-9]{1,2})?", re.IGNORECASE)  # as a spreadsheet may write it
HASH = re.compile("[0-9a-f]{64}")
NUMBER = re.compile("[1-9][0-9]{0,17}")
STATEMENT = re.compile(
    "model-gateway ledger root\nnumber: (?P<number>[1-9][0-9]{0,17})\nhour: (?P<hour>[0-9TZ:-]{20})\n"
    "accounts: (?P<accounts>[0-9]{1,18})\nroot: (?P<root>[0-9a-f]{64})\nprevious: (?P<previous>[0-9a-f]{64})\n"
    "key: (?P<key>[0-9A-Za-z_-]{43})\n"
)
FACTS = ("model", "tokens", "promptTokens", "completionTokens", "completionId", "settlement")
AMOUNTS = ("amountInDollars", "balanceAfterInDollars")
CENTS = ("amountInCents", "balanceAfterInCents")
COLUMNS = ("seq", "id", "createdAt", "type", *AMOUNTS, *CENTS, "apiKey", *FACTS, "paymentId", "reason", "hash")
PARTS = {"head": "entry hash", "root": "number statement signature", "inclusion": "leaf entry hash path"}  # of --save's file


class NotProven(Exception):
    """The ledger is not what it was, or its proof is wrong. The message says what."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("witness", help="A file, or ENTRY:HASH.")
    parser.add_argument("url", help="The address of the gateway.")
    parser.add_argument("--keys", metavar="FILE", help="Public keys that you kept, not those that the gateway shows now.")
    parser.add_argument("--save", metavar="FILE", help="Write what proves the ledger of today.")
    options = parser.parse_args()
    try:
        witness = read_witness(options.witness)
        fetch = fetch_from(options.url.rstrip("/"), os.environ.get("GATEWAY_API_KEY", ""))
        keys = load(read(options.keys)) if options.keys else fetch("/.well-known/ledger-keys.json")
        now = fetch("/api/billing/ledger/proof")
        proven, unproven = check(witness, now, fetch, keys, are_kept=bool(options.keys))
        if options.save:
            save(options.save, now, keys)
    except NotProven as error:
        sys.stdout.write(printable(f"NOT THE SAME: {error}"))
        return 1
    except Exception as error:  # noqa: BLE001  whatever it is, it says nothing about the ledger
        sys.stderr.write(printable(f"Cannot verify: {type(error).__name__}: {error}"))
        return 2
    lines = ["Proven:", *(f"- {line}" for line in proven), "Not proven:", *(f"- {line}" for line in unproven)]
    sys.stdout.write("".join(map(printable, lines)))
    return 0


def printable(line: str) -> str:
    """Return a line as it is printed. What the gateway or a file wrote begins no other line, and moves no cursor."""
    return re.sub("[^ -~]", lambda found: ascii(found[0])[1:-1], line[:1_000]) + "\n"


def save(path: str, now: dict[str, Any], keys: dict[str, Any]) -> None:
    saved = {name: now[name] for name in ("account", "head", "root", "inclusion")}
    text = json.dumps({**saved, "keys": keys["keys"]}, indent=1)  # keys may be a whole file of before
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


# --- What you kept ------------------------------------------------------------------------------------------------


class Witness:
    """Hashes of entries by their numbers, lines of a CSV file, and perhaps a root and how it includes the ledger."""

    def __init__(self) -> None:
        self.hashes: dict[int, str] = {}
        self.rows: dict[int, dict[str, str]] = {}
        self.others: list[str] = []  # columns or members of the file that are compared with nothing
        self.account: str | None = None
        self.root: dict[str, Any] | None = None
        self.inclusion: dict[str, Any] | None = None


def read_witness(given: str) -> Witness:
    witness = Witness()
    if not os.path.exists(given):
        entry, _, given_hash = given.partition(":")
        if not NUMBER.fullmatch(entry):
            raise ValueError(f"{given} is no file, and not ENTRY:HASH")
        witness.hashes[int(entry)] = given_hash
    elif (text := read(given)).lstrip().startswith("{"):
        read_saved(witness, load(text))
    else:
        read_lines(witness, text)
    for number, hash in witness.hashes.items():
        if type(number) is not int or number < 1 or not HASH.fullmatch(hash):
            raise ValueError(f"entry {number!a} has no hash of 64 hexadecimal digits in {given}")
    if not witness.hashes:
        raise ValueError(f"{given} has no entry")
    return witness


def read_saved(witness: Witness, saved: dict[str, Any]) -> None:
    witness.account, witness.root, witness.inclusion = saved["account"], saved["root"], saved["inclusion"]
    for each in filter(None, (saved["inclusion"], saved["head"])):
        if witness.hashes.setdefault(each["entry"], each["hash"]) != each["hash"]:
            raise ValueError(f"the file has two different hashes of entry {each['entry']}")
    witness.others = [name for name, value in saved.items() if value and name not in (*PARTS, "account", "keys")]
    witness.others += [name for part in PARTS for name in saved[part] or () if name not in PARTS[part].split()]


def read_lines(witness: Witness, text: str) -> None:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    columns = reader.fieldnames or []
    if len(columns) != len(set(columns)):
        raise ValueError("the file has two columns of one name")
    for row in reader:
        if None in row or None in row.values() or not NUMBER.fullmatch(row["seq"]):
            raise ValueError(f"line {reader.line_num} has other columns than the first, or a seq that is no number")
        if witness.rows.setdefault(int(row["seq"]), row) != row:
            raise ValueError(f"two lines of entry {row['seq']} are different: verify each of them in a file of its own")
    witness.hashes = {number: row.get("hash") or "" for number, row in witness.rows.items()}
    witness.others = [name for name in columns if name not in COLUMNS]


def read(path: str) -> str:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return file.read()


def load(text: str | bytes) -> Any:
    """Read JSON. What is no whole number stays text: the gateway sends none, and infinity would end no loop."""
    return json.loads(text, parse_float=str, parse_constant=str, object_pairs_hook=refuse_repeated)


def refuse_repeated(members: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(members)) != len(members):
        raise ValueError("an object in JSON has two members of one name: another reader might take the other")
    return found


def fetch_from(url: str, key: str) -> Fetch:
    """Return a function that reads JSON from the gateway. It waits when the gateway says so."""

    def fetch(path: str, **values: int) -> dict[str, Any]:
        query = "&".join(f"{name}={value}" for name, value in values.items())
        request = Request(f"{url}{path}?{query}")  # noqa: S310
        request.add_unredirected_header("Authorization", f"Bearer {key}")  # another address is not shown the key
        for _ in range(100):
            try:
                with urlopen(request, timeout=60) as reply:  # noqa: S310  of the address that was given
                    return dict(load(read_body(reply)))
            except HTTPError as error:
                if error.code != 429:
                    raise ValueError(f"{path}: {error.code} {error.read1(500).decode(errors='replace')}") from None
                time.sleep(min(float(error.headers.get("Retry-After") or 1), 60))
        raise ValueError(f"{path}: the gateway is too busy")

    return fetch


def read_body(reply: Any) -> bytes:
    """Return the body, or the beginning of an endless one, which is no JSON."""
    body, end = bytearray(), time.monotonic() + REPLY_SECONDS_MAX
    while len(body) < REPLY_BYTES_MAX and time.monotonic() < end and (part := reply.read1(1 << 16)):
        body += part
    return bytes(body)


# --- The proof ----------------------------------------------------------------------------------------------------


def check(witness: Witness, now: dict[str, Any], fetch: Fetch, keys: dict[str, Any], *, are_kept: bool = False) -> Lines:
    """Return what is proven and what is not. Raises NotProven, and other errors for what is malformed."""
    if witness.account not in (None, now["account"]):
        raise NotProven(f"your file is of the account {witness.account!a}, the ledger of {now['account']!a}")
    first, last = min(witness.hashes), now["head"]["entry"] if now["head"] else 0
    if last < max(witness.hashes):
        raise NotProven(f"the ledger ends with entry {last}. You have entry {max(witness.hashes)}: the end was cut off")
    if witness.root and not now["root"]:
        raise NotProven(f"there is no root. You have root {witness.root['number']!a}")
    found, balance = follow(witness, now, fetch)
    proven = [
        f"Entries {first} to {last} follow each other. You have {len(witness.hashes)} of them, unchanged.",
        f"The balance after entry {last} is {balance} dollars.",
    ]
    unproven = ["That each charge was right: only that it is what you were told before, and adds up."]
    if witness.rows:
        lines, columns = len(witness.rows), ", ".join(name for name in COLUMNS if name in witness.rows[first])
        proven.append(f"{lines} line{'s' * (lines > 1)} of your file: in each the ledger has the same {columns}.")
        if missing := max(witness.rows) - lines:
            unproven.append(f"That your file is whole: of the entries 1 to {max(witness.rows)} it lacks {missing}.")
    unproven += [f"What your file says as {name!a}: it is compared with nothing." for name in witness.others]
    if now["root"]:
        check_root(now, found, keys, witness, fetch, proven, unproven)
    if not (now["root"] and now["inclusion"]):
        unproven.append("That anybody else sees this ledger: no root includes it yet. One is signed each hour.")
    if not are_kept:
        unproven.append("That the key is the gateway's of before: the gateway showed it now. Keep it, and use --keys.")
    unproven.append("That others are shown the same root: compare its number and hash with theirs.")
    return proven, unproven


def follow(witness: Witness, now: dict[str, Any], fetch: Fetch) -> tuple[dict[int, str], str]:
    """Follow the entries from your first one to the last. Return the hashes of those that are named, and the balance."""
    first, last = min(witness.hashes), now["head"]["entry"]
    number = max(first - 2, 0)
    named = {*witness.hashes, last, (now["inclusion"] or now["head"])["entry"]}
    hash, balance, found = "00" * 32 if number == 0 else None, 0 if number == 0 else None, {}
    while number < last:
        page = fetch("/api/billing/ledger/proof", afterEntry=number, limit=AT_ONCE)["entries"]
        if not page:
            raise NotProven(f"entry {number + 1} is missing")
        for entry in page[: last - number]:
            number += 1
            record = load(entry["record"])
            account, seq, _, _, amount, after, *_ = record
            if (account, seq) != (now["account"], number):
                raise NotProven(f"in the place of entry {number} is entry {seq!a} of account {account!a}")
            if not type(amount) is type(after) is int:  # floats would add up to anything
                raise NotProven(f"entry {number} has an amount or balance that is no whole number")
            if balance is not None and after != balance + amount:
                raise NotProven(f"the balance after entry {number} is not the one before and its amount")
            # The hash of the entry before your first one is only believed: yours was made of it.
            hash, balance = entry["hash"] if hash is None else hash_of(entry["record"], hash), after
            if not HASH.fullmatch(hash) or hash != witness.hashes.get(number, hash):
                raise NotProven(f"entry {number} of your file, or one before it, was changed: its hash was another")
            if number in witness.rows:
                compare(witness.rows[number], record, hash)
            if number in named:
                found[number] = hash
    if hash != now["head"]["hash"]:
        raise NotProven("the hashes of the entries do not end with that of the last one")
    return found, f"{Decimal(balance or 0) / NANOS:f}"


def hash_of(record: str, before: str) -> str:
    return sha256(bytes.fromhex(before) + sha256(record.encode()).digest()).hexdigest()


def compare(row: dict[str, str], record: list[Any], hash: str) -> None:
    """Compare all columns that the gateway writes. It puts a quote before text that a spreadsheet would read as a formula."""
    _, seq, id, type, amount, after, at, _, key, facts = record
    cents = after // NANOS_PER_CENT
    payment = next((value for name, value in facts.items() if name.endswith("PaymentId")), None)
    before = (seq, id, at[:23] + at[26:], type, amount, after, cents - (after - amount) // NANOS_PER_CENT, cents, key)
    values = (*before, *(facts.get(name) for name in FACTS), payment, facts.get("reason"), hash)
    for name, value in zip(COLUMNS, values):  # noqa: B905  Python 3.9 has no strict
        told, text = row.get(name), "" if value is None else str(value)
        is_same = told in (None, text) or (told == f"'{text}" and re.match("[^0-9A-Za-z]", text))
        if not (nanos(told) == value if told and name in AMOUNTS else is_same):
            raise NotProven(f"entry {seq} of your file has another {name} than the ledger: was the file changed?")


def nanos(text: str) -> Fraction:
    if not AMOUNT.fullmatch(text):
        raise ValueError(f"{text!a} is no amount of dollars")
    return Fraction(text) * NANOS


# --- Signed roots -------------------------------------------------------------------------------------------------


def check_root(
    now: dict[str, Any], found: dict[int, str], keys: dict[str, Any], witness: Witness, fetch: Fetch, *lines: list[str]
) -> None:
    """Check the root, that it takes back nothing of the one that you have, and how it includes the ledger."""
    (proven, unproven), inclusion, facts = lines, now["inclusion"], read_root(now["root"], keys)
    if witness.root:
        follow_roots(witness, now, keys, fetch)
        proven.append(f"Root {facts['number']} follows root {witness.root['number']}, which you have.")
    if not inclusion:
        return
    require_included(now["account"], inclusion, facts)
    entry = inclusion["entry"]
    if entry in found and found[entry] != inclusion["hash"]:
        raise NotProven(f"root {facts['number']} includes another entry {entry} than the ledger has")
    if entry > now["head"]["entry"]:
        raise NotProven(f"root {facts['number']} includes entry {entry}, which the ledger has no longer")
    if entry in found:
        root = f"Root {facts['number']}, of {facts['hour']}, which the key {facts['key']} signed,"
        proven.append(f"{root} includes entry {entry} and all before.")
    if entry < now["head"]["entry"]:
        unproven.append(f"That others see the entries after {entry}: the next root will include them.")


def require_included(account: str, inclusion: dict[str, Any], facts: dict[str, str]) -> None:
    leaf = f"{account} {inclusion['entry']} {inclusion['hash']}".encode()
    top = climb(sha256(b"\x00" + leaf).digest(), inclusion["leaf"], int(facts["accounts"]), inclusion["path"])
    if top.hex() != facts["root"]:
        raise NotProven(f"root {facts['number']} does not include the ledger")


def read_root(root: dict[str, Any], keys: dict[str, Any]) -> dict[str, str]:
    """Check the signature of a root, and return the lines of its statement."""
    facts = lines_of(root)
    for key in keys["keys"]:
        thumb = sha256(b'{"crv":"Ed25519","kty":"OKP","x":"%b"}' % key["x"].encode()).digest()
        if urlsafe_b64encode(thumb).decode().rstrip("=") == facts["key"]:
            if verify(urlsafe_b64decode(key["x"] + "=="), root["statement"].encode(), b64decode(root["signature"])):
                return facts
            raise NotProven(f"the signature of root {facts['number']} is wrong")
    raise NotProven(
        f"the key {facts['key']}, which signed root {facts['number']}, is none of the public keys: was another made?"
    )


def lines_of(root: dict[str, Any]) -> dict[str, str]:
    found = STATEMENT.fullmatch(root["statement"])
    if not found or root["number"] != int(found["number"]):
        raise NotProven(f"the statement of root {root['number']!a} is malformed")
    return found.groupdict()


def climb(hash: bytes, place: int, size: int, path: list[str]) -> bytes:
    """Return the root of a tree in which the hash is at this place: RFC 6962, section 2.1. What has no neighbour rises."""
    if not 0 <= place < size:
        raise NotProven("the place in the tree is outside of it")
    others = list(map(bytes.fromhex, path))
    while size > 1:
        if place ^ 1 < size:
            if not others:
                raise NotProven("the path in the tree is too short")
            other = others.pop(0)
            hash = sha256(b"\x01" + (other + hash if place & 1 else hash + other)).digest()
        place, size = place >> 1, size + 1 >> 1
    if others:
        raise NotProven("the path in the tree is too long")
    return hash


def follow_roots(witness: Witness, now: dict[str, Any], keys: dict[str, Any], fetch: Fetch) -> None:
    """Follow the roots from yours to the latest: each is of a later hour, and names the hash of the one before it."""
    at, latest = witness.root or {}, now["root"]
    facts, yours, inclusion = read_root(at, keys), witness.inclusion, now["inclusion"]
    if yours:  # the ledger keeps its place
        require_included(now["account"], yours, facts)
        if not inclusion or inclusion["leaf"] != yours["leaf"] or inclusion["entry"] < yours["entry"]:
            raise NotProven(f"root {latest['number']} does not include the ledger as root {at['number']} did")
    if latest["number"] < at["number"]:
        raise NotProven(f"the roots end with {latest['number']}. You have root {at['number']}")
    while at["number"] < latest["number"]:
        page = fetch("/api/billing/ledger/proof", afterRoot=at["number"], limit=AT_ONCE)["roots"]
        if not page:
            raise NotProven(f"root {at['number'] + 1} is missing")
        for root in page[: latest["number"] - at["number"]]:
            facts, before = lines_of(root), sha256(at["statement"].encode()).hexdigest()
            if (facts["previous"], root["number"]) != (before, at["number"] + 1) or facts["hour"] <= lines_of(at)["hour"]:
                raise NotProven(f"root {root['number']} does not follow root {at['number']}: the roots were made anew")
            at = root
    if at["statement"] != latest["statement"]:
        raise NotProven(f"root {at['number']} has two statements")


# --- Ed25519: RFC 8032, section 5.1 -------------------------------------------------------------------------------

Point = tuple[int, int, int, int]
P = 2**255 - 19
D = -121665 * pow(121666, P - 2, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    if len(public) != 32 or len(signature) != 64:
        return False
    a, r, s = decompress(public), decompress(signature[:32]), int.from_bytes(signature[32:], "little")
    base = decompress((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
    if a is None or r is None or base is None or s >= ORDER:
        return False
    h = int.from_bytes(sha512(signature[:32] + public + message).digest(), "little") % ORDER
    left, right = multiply(s, base), add(r, multiply(h, a))
    return all((left[each] * right[2] - right[each] * left[2]) % P == 0 for each in (0, 1))


def decompress(encoded: bytes) -> Point | None:
    number = int.from_bytes(encoded, "little")
    y, sign = number & (2**255 - 1), number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(number: int, point: Point) -> Point:
    product: Point = (0, 1, 1, 0)
    while number:
        product = add(product, point) if number & 1 else product
        point, number = add(point, point), number >> 1
    return product


if __name__ == "__main__":
    sys.exit(main())
