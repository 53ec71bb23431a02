"""Masks in a provider's words what is ours and not the caller's: keys for everybody, hosts, names and accounts for callers."""

import html
import ipaddress
import json
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from urllib.parse import quote

from gateway_project.text import web_addresses

MASK = "***"
# How a provider may repeat a key with signs in it: as it is, in JSON (also with each "/" escaped), in HTML, in an address.
_ESCAPES: list[Callable[[str], str]] = [
    *(str, html.escape, partial(quote, safe=""), lambda key: json.dumps(key)[1:-1], lambda key: repr(key)[1:-1]),
    lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
]
# Callers can have a provider quote what they send: no search may begin anew within a word or a name, or go back into one.
_NAME = r"(?<![\w-])(?<![\w-]\.)"  # where a name with dots begins
_SCHEME = r"(?:(?<!\w)\w++://)?"
_KEY_PREFIX = r"(?:sk|pk|rk|gsk|xai|pplx|nvapi|csk|tgp|fw|hf|r8)[-_]"
_KEYS = re.compile(
    # A key of a well-known form, one that its provider has masked in the middle, and what stands behind "Bearer".
    rf"\b{_KEY_PREFIX}[\w-]{{10,}}|\bAIza[\w-]{{10,}}|\b(?:ya29\.|eyJ)[\w.-]{{10,}}"
    rf"|\bA[KS]IA[A-Z0-9]{{12,}}|\bBearer [\w.~+/-]{{8,}}=*"
    rf"|(?:(?<![\w-])[\w-]++)?\*{{3,}}[\w*-]*|\b{_KEY_PREFIX}[\w-]*+(?:\.{{2,}}|…)[\w-]*",
    re.IGNORECASE,
)
_PRIVATE_HOSTS = re.compile(
    rf"{_SCHEME}(?:\b\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b|\[[\da-f:]{{3,}}\]|\blocalhost\b"
    rf"|{_NAME}[\w-]++(?:\.[\w-]++)*\.(?:internal|local|localdomain|svc|lan|corp|intra)\b(?:\.[\w-]+)*)(?::\d+)?(?:/[^\s'\"`<>)\],;]*)?",
    re.IGNORECASE,
)
_ACCOUNTS = re.compile(
    r"\b(?:org|proj|acct|wrkspc|workspace|team)[-_](?=\w*\d|\w{16})\w{8,}\b|\barn:aws[\w-]*:[\w:/.*-]+"
    # After the word for it, what has a digit and is too long for a number of tokens or the like.
    r"|(?P<word>\b(?:organi[sz]ation|project|team|workspace|tenant|subscription|account|deployment|resource)s?"
    r"(?: id| name| number)?"
    r"[\s:=/]{1,3}[`'\"]?)(?=[\w-]*\d)[\w-]{8,}"
    r"|(?P<path>\b(?:projects|deployments|accounts|organizations|subscriptions|resourcegroups|workspaces)/)[\w.~:-]+",
    re.IGNORECASE,
)
_SECOND_LEVEL = ("co", "com", "org", "net", "gov", "ac", "edu")  # below a country's domain: "com.cn", "co.uk"
_VENDOR = re.compile(r"^(?:(?:us|eu|apac|ap|jp|au|ca|global)\.)?[a-z0-9]+\.(?=[a-z])")  # of Bedrock's names
_VERSION = re.compile(r"(?:-v\d+)?(?::\d+)?$|@[\w.-]+$")


def mask_keys(text: str, *ours: str) -> str:
    """Mask API keys, ours and what looks like one, also where the provider shows a part of it."""
    for key in filter(None, ours):
        for form in {escape(key) for escape in _ESCAPES}:
            text = re.sub(re.escape(form), MASK, text, flags=re.IGNORECASE)
        text = re.sub(rf"(?<![\w-]){re.escape(key[:6])}[\w-]*(?:\*+|\.{{2,}}|…)[\w*-]*", MASK, text, flags=re.IGNORECASE)
    return _KEYS.sub(MASK, text)


def mask_origin(text: str, *, base_url: str, upstream_model: str, model_id: str) -> str:
    """Mask the provider's hosts and our accounts there, and call its model by the caller's name of it."""
    for host in _hosts(base_url):
        address = (
            rf"{_SCHEME}(?:{_NAME}(?:[\w-]++\.)*|(?<![\w-])){re.escape(host)}(?![\w-])(?!\.\w)(?::\d+)?(?:/[^\s'\"`<>)\],;]*)?"
        )
        text = re.sub(address, MASK, text, flags=re.IGNORECASE)
    text = _PRIVATE_HOSTS.sub(MASK, text)
    for name in _names(upstream_model):
        text = re.sub(_name_pattern(name), lambda _: model_id, text, flags=re.IGNORECASE)
    return _ACCOUNTS.sub(lambda found: f"{found['word'] or found['path'] or ''}{MASK}", text)


def _hosts(base_url: str) -> list[str]:
    """Return the host, and the domain that it belongs to: help pages have other hosts of it."""
    host = web_addresses.host(base_url)
    if not host:
        return []
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return [host]
    labels = host.split(".")
    kept = 3 if len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL else 2
    return list(dict.fromkeys([host, ".".join(labels[-kept:])]))


def _names(upstream_model: str) -> list[str]:
    """Return the names by which a provider may call its model: the whole one, and it without path, vendor and version."""
    last = upstream_model.rpartition("/")[2]
    without_vendor = _VENDOR.sub("", last)
    names = (upstream_model, last, without_vendor, _VERSION.sub("", without_vendor))
    return sorted({name for name in names if name}, key=len, reverse=True)


def _name_pattern(name: str) -> str:
    """Match the name with a path before it and a date behind. One that is a word of the language, only where it is a name."""
    if name.isalpha():
        return rf"(?<=[`'\"]){name}(?=[`'\"])|(?<=\bmodel ){name}\b"
    return rf"(?<![\w./~-])(?:[\w.~-]++/)*(?:[\w-]++\.)*{re.escape(name)}(?:[-@:]v?\d[\w-]*+)*+(?![\w-])(?!\.\w)"
