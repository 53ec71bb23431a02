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
import sys
import time
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from decimal import Decimal
from hashlib import sha256, sha512
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Fetch = Callable[..., dict[str, Any]]
Lines = tuple[list[str], list[str]]  # what is proven, and what is not
NANOS = 1_000_000_000  # of a dollar
AT_ONCE = 1_000


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
        keys = json.loads(read(options.keys)) if options.keys else fetch("/.well-known/ledger-keys.json")
        now = fetch("/api/billing/ledger/proof")
        proven, unproven = check(witness, now, fetch, keys, are_kept=bool(options.keys))
        if options.save:
            save(options.save, now, keys)
    except NotProven as error:
        sys.stdout.write(f"NOT THE SAME: {error}\n")
        return 1
    except Exception as error:  # noqa: BLE001  whatever it is, it says nothing about the ledger
        sys.stderr.write(f"Cannot verify: {type(error).__name__}: {error}\n")
        return 2
    lines = ["Proven:", *(f"- {line}" for line in proven), "Not proven:", *(f"- {line}" for line in unproven)]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


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
        self.account: str | None = None
        self.root: dict[str, Any] | None = None
        self.inclusion: dict[str, Any] | None = None


def read_witness(given: str) -> Witness:
    witness = Witness()
    if not os.path.exists(given):
        entry, _, given_hash = given.partition(":")
        if not entry.isdecimal():
            raise ValueError(f"{given} is no file, and not ENTRY:HASH")
        witness.hashes[int(entry)] = given_hash
    elif (text := read(given)).lstrip().startswith("{"):
        saved = json.loads(text)
        witness.account, witness.root, witness.inclusion = saved["account"], saved["root"], saved["inclusion"]
        witness.hashes = {each["entry"]: each["hash"] for each in (saved["inclusion"], saved["head"]) if each}
    else:
        for row in csv.DictReader(io.StringIO(text)):
            if witness.rows.setdefault(int(row["seq"]), row) != row:
                raise ValueError(f"{given} has two different lines of entry {row['seq']}: verify each in a file of its own")
        witness.hashes = {number: row.get("hash") or "" for number, row in witness.rows.items()}
    for number, hash in witness.hashes.items():
        if number < 1 or len(hash) != 64 or set(hash) - set("0123456789abcdef"):
            raise ValueError(f"entry {number} has no hash of 64 hexadecimal digits in {given}")
    if not witness.hashes:
        raise ValueError(f"{given} has no entry")
    return witness


def read(path: str) -> str:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return file.read()


def fetch_from(url: str, key: str) -> Fetch:
    """Return a function that reads JSON from the gateway. It waits when the gateway says so."""

    def fetch(path: str, **values: int) -> dict[str, Any]:
        query = "&".join(f"{name}={value}" for name, value in values.items())
        request = Request(f"{url}{path}?{query}")  # noqa: S310
        request.add_unredirected_header("Authorization", f"Bearer {key}")  # another address is not shown the key
        for _ in range(100):
            try:
                with urlopen(request, timeout=60) as reply:  # noqa: S310  of the address that was given
                    found: dict[str, Any] = json.load(reply)
                    return found
            except HTTPError as error:
                if error.code != 429:
                    raise ValueError(f"{path}: {error.code} {error.read(500).decode(errors='replace')}") from None
                time.sleep(float(error.headers.get("Retry-After") or 1))
        raise ValueError(f"{path}: the gateway is too busy")

    return fetch


# --- The proof ----------------------------------------------------------------------------------------------------


def check(witness: Witness, now: dict[str, Any], fetch: Fetch, keys: dict[str, Any], *, are_kept: bool = False) -> Lines:
    """Return what is proven and what is not. Raises NotProven, and other errors for what is malformed."""
    if witness.account not in (None, now["account"]):
        raise NotProven(f"your file is of the account {witness.account}, the ledger of {now['account']}")
    last = now["head"]["entry"] if now["head"] else 0
    if last < max(witness.hashes):
        raise NotProven(f"the ledger ends with entry {last}. You have entry {max(witness.hashes)}: the end was cut off")
    check_kept(witness, now)
    found, balance = follow(witness, now, fetch)
    proven = [
        f"Entries {min(witness.hashes)} to {last} follow each other. The {len(witness.hashes)} that you have are unchanged.",
        f"The balance after entry {last} is {balance} dollars.",
    ]
    if witness.rows:
        proven.append(f"Times, types, amounts and balances of the {len(witness.rows)} lines of your file are the ledger's.")
    unproven = ["That each charge was right: only that it is what you were told before, and adds up."]
    if now["root"] and now["inclusion"]:
        check_root(now, found, keys, witness, fetch, proven, unproven)
    else:
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
            account, seq, id, type, amount, after, at = json.loads(entry["record"])[:7]
            if (account, seq) != (now["account"], number):
                raise NotProven(f"in the place of entry {number} is entry {seq} of account {account}")
            if not (isinstance(amount, int) and isinstance(after, int)):  # floats would add up to anything
                raise NotProven(f"entry {number} has an amount or balance that is no whole number")
            if balance is not None and after != balance + amount:
                raise NotProven(f"the balance after entry {number} is not the one before and its amount")
            # The hash of the entry before your first one is only believed: yours was made of it.
            hash, balance = entry["hash"] if hash is None else hash_of(entry["record"], hash), after
            if hash != witness.hashes.get(number, hash):
                raise NotProven(f"entry {number} of your file, or one before it, was changed: its hash was another")
            if number in witness.rows:
                compare(witness.rows[number], number, id, type, amount, after, at)
            if number in named:
                found[number] = hash
    if hash != now["head"]["hash"]:
        raise NotProven("the hashes of the entries do not end with that of the last one")
    return found, f"{Decimal(balance or 0) / NANOS:f}"


def hash_of(record: str, before: str | None) -> str:
    return sha256(bytes.fromhex(before or "") + sha256(record.encode()).digest()).hexdigest()


def compare(row: dict[str, str], number: int, id: str, type: str, amount: int, after: int, at: str) -> None:
    amounts = nanos(row["amountInDollars"]), nanos(row["balanceAfterInDollars"])
    if (row["id"], row["type"], row["createdAt"][:23], *amounts) != (id, type, at[:23], amount, after):
        raise NotProven(f"line {number} of your file differs from the ledger: was the file changed?")


def nanos(text: str) -> int:
    return int(Decimal(text) * NANOS)


# --- Signed roots -------------------------------------------------------------------------------------------------


def check_kept(witness: Witness, now: dict[str, Any]) -> None:
    """Check that the root that you have, and how it includes the ledger, is not taken back: a ledger keeps its place."""
    if not witness.root:
        return
    if not now["root"]:
        raise NotProven(f"there is no root. You have root {witness.root['number']}")
    yours, latest = witness.inclusion, now["inclusion"]
    if yours and (not latest or latest["leaf"] != yours["leaf"] or latest["entry"] < yours["entry"]):
        raise NotProven(f"root {now['root']['number']} does not include the ledger as root {witness.root['number']} did")


def check_root(
    now: dict[str, Any], found: dict[int, str], keys: dict[str, Any], witness: Witness, fetch: Fetch, *lines: list[str]
) -> None:
    """Check the root, how it includes the ledger, and that it follows the one that you have."""
    (proven, unproven), entry, facts = lines, now["inclusion"]["entry"], read_root(now["root"], keys)
    leaf = f"{now['account']} {entry} {now['inclusion']['hash']}".encode()
    top = climb(sha256(b"\x00" + leaf).digest(), now["inclusion"]["leaf"], int(facts["accounts"]), now["inclusion"]["path"])
    if top.hex() != facts["root"]:
        raise NotProven(f"root {facts['number']} does not include the ledger")
    if entry in found and found[entry] != now["inclusion"]["hash"]:
        raise NotProven(f"root {facts['number']} includes another entry {entry} than the ledger has")
    if entry > now["head"]["entry"]:
        raise NotProven(f"root {facts['number']} includes entry {entry}, which the ledger has no longer")
    if entry in found:
        root = f"Root {facts['number']}, of {facts['hour']}, which the key {facts['key']} signed,"
        proven.append(f"{root} includes entry {entry} and all before.")
    if entry < now["head"]["entry"]:
        unproven.append(f"That others see the entries after {entry}: the next root will include them.")
    if witness.root:
        follow_roots(witness.root, now["root"], keys, fetch)
        proven.append(f"Root {facts['number']} follows root {witness.root['number']}, which you have.")


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
    title, *lines, end = root["statement"].split("\n")
    facts = dict(line.split(": ", 1) for line in lines)
    if (title, end, facts.get("number")) != ("model-gateway ledger root", "", str(root["number"])):
        raise NotProven(f"the statement of root {root['number']} is malformed")
    return facts


def climb(hash: bytes, place: int, size: int, path: list[str]) -> bytes:
    """Return the root of a tree in which the hash is at this place: RFC 9162, section 2.1.3.2."""
    if not 0 <= place < size:
        raise NotProven("the place in the tree is outside of it")
    last = size - 1
    for each in map(bytes.fromhex, path):
        if last == 0:
            raise NotProven("the path in the tree is too long")
        if place & 1 or place == last:
            hash = sha256(b"\x01" + each + hash).digest()
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            hash = sha256(b"\x01" + hash + each).digest()
        place, last = place >> 1, last >> 1
    if last:
        raise NotProven("the path in the tree is too short")
    return hash


def follow_roots(yours: dict[str, Any], latest: dict[str, Any], keys: dict[str, Any], fetch: Fetch) -> None:
    """Follow the roots from yours to the latest: each names the hash of the one before it."""
    read_root(yours, keys)
    at = yours
    if latest["number"] < yours["number"]:
        raise NotProven(f"the roots end with {latest['number']}. You have root {yours['number']}")
    while at["number"] < latest["number"]:
        page = fetch("/api/billing/ledger/proof", afterRoot=at["number"], limit=AT_ONCE)["roots"]
        if not page:
            raise NotProven(f"root {at['number'] + 1} is missing")
        for root in page[: latest["number"] - at["number"]]:
            if lines_of(root)["previous"] != sha256(at["statement"].encode()).hexdigest() or root["number"] != at["number"] + 1:
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
