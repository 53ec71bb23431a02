"""Walks through pages as a visitor does: from some pages on, along all of their links."""

import re
from collections import Counter, deque
from collections.abc import Iterator
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urljoin, urlsplit

from django.test import Client
from django.urls import Resolver404, resolve

HOST = "testserver"
_LINK = re.compile(r'<a\b[^>]*\bhref="([^"]*)"')


class Visit(NamedTuple):
    """An address that was opened, the page that links to it, and the reply."""

    address: str
    found_on: str
    reply: Any

    @property
    def is_page(self) -> bool:
        return not self.reply.streaming and self.reply["content-type"].startswith("text/html")


def walk(client: Client, *starts: str, inside: str = "/", of_each_max: int | None = None) -> Iterator[Visit]:
    """Follow all links from these pages on to pages ``inside`` a path: of each view all pages, or the first ``of_each_max``.

    Pages whose addresses differ in the values of their query strings alone are the same page with other filters: one is read.
    The admin's have filters of Django's own: one page of each path is read.
    """
    opened: Counter[str] = Counter()
    found_on, waiting = dict.fromkeys(starts, "-"), deque(starts)
    read = {_page(start) for start in starts}
    while waiting:
        address = waiting.popleft()
        if of_each_max and opened[_view(address)] == of_each_max:
            continue
        opened[_view(address)] += 1
        visit = Visit(address, found_on[address], client.get(address, follow=True))
        yield visit
        if visit.reply.streaming:
            list(visit.reply.streaming_content)  # a member downloads two files at a time
        for link in _LINK.findall(visit.reply.content.decode()) if visit.is_page else ():
            target = urlsplit(urljoin(f"http://{HOST}{visit.reply.request['PATH_INFO']}", unescape(link)))
            if target.hostname == HOST and target.path.startswith(inside) and (page := _page(target.geturl())) not in read:
                read.add(page)
                waiting.append(target._replace(scheme="", netloc="", fragment="").geturl())
                found_on[waiting[-1]] = address


def _view(address: str) -> str:
    try:
        return resolve(urlsplit(address).path).view_name
    except Resolver404:
        return ""


def _page(address: str) -> tuple[str, frozenset[str]]:
    parts = urlsplit(address)
    if parts.path.startswith("/admin/"):
        return parts.path, frozenset()
    return parts.path, frozenset(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
