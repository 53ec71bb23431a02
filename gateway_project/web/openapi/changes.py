"""The changelog of the API at /docs/changes, and as an Atom feed, from ``changes.json``, which ``make api-changes`` writes."""

import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.defaultfilters import pluralize
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.formats import date_format
from django.views.decorators.http import require_safe

from gateway_project.web import hosts, public_page
from gateway_project.web.openapi import reference

FILE = Path(__file__).with_name("changes.json")


@cache
def read_entries() -> list[dict[str, Any]]:
    """Return the days with changes, the newest first."""
    entries: list[dict[str, Any]] = json.loads(FILE.read_text())
    ids = {f"{each.method} {each.path}": each.id for each in reference.read_operations("", "")}
    for entry in entries:
        entry["updated_at"] = datetime.fromisoformat(entry["updated_at"])
        number, breaking = len(entry["changes"]), sum(change["is_breaking"] for change in entry["changes"])
        entry["title"] = f"{number} change{pluralize(number)}" + (f", {breaking} breaking" if breaking else "")
        for change in entry["changes"]:
            change["html"] = reference.mark_code(change["words"])
            change["links"] = [(each, ids.get(each)) for each in change["operations"]]  # None: it is there no longer
    return entries


@require_safe
def show(request: HttpRequest) -> HttpResponseBase:
    return public_page.respond(request, "api-changes", _render, is_document=True)


def _render() -> str:
    context = {"entries": read_entries(), "canonical_path": reverse("api-changes")}
    return render_to_string(
        "docs/changes.html", {**context, "base_url": "", "search_characters_max": reference.SEARCH_CHARACTERS_MAX}
    )


@require_safe
def feed(request: HttpRequest) -> HttpResponseBase:
    base_url = hosts.base_url(request)
    headers = {"Content-Type": Atom1Feed.content_type}
    key = ("api-changes-feed", base_url)
    return public_page.respond(request, key, lambda: _render_feed(base_url), headers=headers, is_document=True)


def _render_feed(base_url: str) -> str:
    """Return the changes as Atom. A day with more of them is the same entry, updated."""
    address = f"{base_url}{reverse('api-changes')}"
    feed_url, author = f"{base_url}{reverse('api-changes-feed')}", str(settings.SPECTACULAR_SETTINGS["TITLE"])
    made = Atom1Feed("API changes", address, "", feed_url=feed_url, author_name=author)
    for entry in read_entries():
        link, updated_at = f"{address}#{entry['date']}", entry["updated_at"]
        title = f"{date_format(updated_at)}: {entry['title']}"
        words = render_to_string("docs/_changes.html", {"entry": entry, "base_url": base_url})
        made.add_item(title, link, words, unique_id=link, updateddate=updated_at)
    return str(made.writeString("utf-8"))
