"""The changelog of the API: what is breaking, as docs/api/changes.md says, that it is complete, and how it is shown."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gateway_project.web import public_page
from gateway_project.web.openapi import changes, specification
from tests import api_changes
from tests.conftest import client_for

RULES = Path("docs/api/changes.md")
TEXT, NUMBER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
OF_REQUESTS, OF_REPLIES = "The request field `n`", "The reply field `n`"


def body(field: dict | None, *, required: bool = False) -> dict:
    properties = {"always": TEXT} if field is None else {"always": TEXT, "n": field}
    return {"content": {"application/json": {"schema": {"properties": properties, "required": ["n"] * required}}}}


def described(sent: dict | None = None, received: dict | None = None, *, required: bool = False, **parts: object) -> dict:
    """Describe one operation, whose request or reply may have the field n."""
    reply = {"200": body(received, required=required and sent is None)}
    operation = {"requestBody": body(sent, required=required and sent is not None), "responses": reply, **parts}
    return {"paths": {"/v1/it": {"post": operation}}}


def one_of(*schemas: dict) -> dict:
    return {"oneOf": list(schemas)}


def parameter(name: str, **more: object) -> dict:
    return {"in": "query", "name": name, "schema": TEXT, **more}


NOTHING, WITH_KEY = {"paths": {}}, described(security=[{"key": []}])
TWO, THREE = {**TEXT, "enum": ["a", "b"]}, {**TEXT, "enum": ["a", "b", "c"]}
HEADED = {"200": {**body(None), "headers": {"x-n": {"schema": TEXT}}}}
EVENTS = {"oneOf": [{"properties": {"type": {"const": "begin"}}}, {"properties": {"type": {"const": "end"}}}]}


def streamed(schema: dict) -> dict:
    return described(responses={"200": {"content": {"text/event-stream": {"schema": schema}}}})


# By rule: descriptions before and after, and what is said of them.
CASES = {
    "Operation added": [(NOTHING, described(), "New operation.")],
    "Operation removed": [(described(), NOTHING, "The operation is removed.")],
    "Operation needs a key": [(described(), WITH_KEY, "The operation now needs a key.")],
    "Operation needs no key": [(WITH_KEY, described(), "The operation needs no key.")],
    "Optional parameter or field of requests added": [
        (described(), described(TEXT), "New request field `n`."),
        (described(), described(parameters=[parameter("q")]), "New parameter `q`."),
        # A field of a new one may be required: programs do not send that.
        (described(), described({"properties": {"in": TEXT}, "required": ["in"]}), "New request field `n`."),
    ],
    "Required parameter or field of requests added": [
        (described(), described(TEXT, required=True), "New request field `n`, which is required."),
        (described(), described(parameters=[parameter("q", required=True)]), "New parameter `q`, which is required."),
        (
            described({"type": "object"}),
            described({"type": "object", "properties": {"in": TEXT}, "required": ["in"]}),
            "New request field `n.in`, which is required.",
        ),
    ],
    "Parameter or field of requests removed": [
        (described(TEXT), described(), f"{OF_REQUESTS} is removed."),
        (described(parameters=[parameter("q")]), described(), "The parameter `q` is removed."),
    ],
    "Field of requests becomes required": [
        (described(TEXT), described(TEXT, required=True), f"{OF_REQUESTS} is now required.")
    ],
    "Field of requests becomes optional": [
        (described(TEXT, required=True), described(TEXT), f"{OF_REQUESTS} is now optional.")
    ],
    "Requests take another type or value": [
        (described(TEXT), described(one_of(TEXT, NULL)), f"{OF_REQUESTS} also takes null."),
        (described(TWO), described(THREE), f"{OF_REQUESTS} also takes c."),
        (described(TWO), described(TEXT), f"{OF_REQUESTS} also takes any other."),
    ],
    "Requests no longer take a type or value": [
        (described(one_of(TEXT, NUMBER)), described(TEXT), f"{OF_REQUESTS} no longer takes integer."),
        (described({}), described(TEXT), f"{OF_REQUESTS} takes only string."),
        (described(THREE), described(TWO), f"{OF_REQUESTS} no longer takes c."),
        (
            described({"type": "array", "items": one_of(TEXT, NUMBER)}),
            described({"type": "array", "items": TEXT}),
            f"{OF_REQUESTS} no longer takes array of integer.",
        ),
    ],
    "Requests take only listed values": [(described(TEXT), described(TWO), f"{OF_REQUESTS} takes only a, b.")],
    "Bound of requests narrower": [
        (
            described({**NUMBER, "maximum": 10}),
            described({**NUMBER, "maximum": 5}),
            f"{OF_REQUESTS} has the maximum 5, before 10.",
        ),
        (described(NUMBER), described({**NUMBER, "minimum": 1}), f"{OF_REQUESTS} has the minimum 1, before none."),
        (
            described({**TEXT, "minLength": 1}),
            described({**TEXT, "minLength": 2}),
            f"{OF_REQUESTS} has the minimum of characters 2, before 1.",
        ),
    ],
    "Bound of requests wider": [
        (
            described({**NUMBER, "maximum": 5}),
            described({**NUMBER, "maximum": 10}),
            f"{OF_REQUESTS} has the maximum 10, before 5.",
        ),
        (described({**NUMBER, "minimum": 1}), described(NUMBER), f"{OF_REQUESTS} has the minimum none, before 1."),
    ],
    "Default of requests differs": [
        (
            described({**NUMBER, "default": 1}),
            described({**NUMBER, "default": 2}),
            f"{OF_REQUESTS} has the default 2, before 1.",
        ),
        (
            described({**NUMBER, "description": "How many. Default: 1."}),
            described({**NUMBER, "description": "Default: 2."}),
            f"{OF_REQUESTS} has the default 2, before 1.",
        ),
    ],
    "Field, event or header of replies added": [
        (described(), described(received=TEXT), "New reply field `n`."),
        (described(), described(received=TEXT, required=True), "New reply field `n`."),
        (described(), described(responses=HEADED), "New reply header `x-n`."),
        (streamed(EVENTS["oneOf"][0]), streamed(EVENTS), "The field of the stream `type` may also be end."),
    ],
    "Field or header of replies removed": [
        (described(received=TEXT), described(), f"{OF_REPLIES} is removed."),
        (described(responses=HEADED), described(), "The reply header `x-n` is removed."),
    ],
    "Field of replies may be absent": [
        (described(received=TEXT, required=True), described(received=TEXT), f"{OF_REPLIES} is no longer always there.")
    ],
    "Field of replies always there": [
        (described(received=TEXT), described(received=TEXT, required=True), f"{OF_REPLIES} is now always there.")
    ],
    "Field of replies may have another type, or null": [
        (described(received=TEXT), described(received=one_of(TEXT, NULL)), f"{OF_REPLIES} may also be null."),
        (described(received=TEXT), described(received={}), f"{OF_REPLIES} may also be any other."),
    ],
    "Field of replies has one type less": [
        (described(received=one_of(TEXT, NULL)), described(received=TEXT), f"{OF_REPLIES} is no longer null."),
        (described(received={}), described(received=TEXT), f"{OF_REPLIES} is only string."),
    ],
    "Values or bounds of replies differ": [
        (described(received=TWO), described(received=THREE), f"{OF_REPLIES} may also be c."),
        (described(received=THREE), described(received=TWO), f"{OF_REPLIES} is no longer c."),
        (
            described(received={**NUMBER, "maximum": 10}),
            described(received={**NUMBER, "maximum": 5}),
            f"{OF_REPLIES} has the maximum 5, before 10.",
        ),
    ],
    "Format or pattern differs": [
        (
            described(received={**TEXT, "format": "date-time"}),
            described(received={**TEXT, "format": "date"}),
            f"{OF_REPLIES} has the format date, before date-time.",
        ),
        (
            described({**TEXT, "pattern": "^a$"}),
            described({**TEXT, "pattern": "^b$"}),
            f"{OF_REQUESTS} has the pattern ^b$, before ^a$.",
        ),
    ],
}


def test_each_written_rule_is_what_comparing_says(subtests):
    breaking, _, others = RULES.read_text().partition("\nNot breaking:\n")
    rules = {rule: text is breaking for text in (breaking, others) for rule in re.findall(r"^- (.+)$", text, re.MULTILINE)}
    assert rules.keys() == CASES.keys()
    for rule, cases in CASES.items():
        for before, after, words in cases:
            with subtests.test(rule, words=words):
                found = api_changes.compare(api_changes.read_places(before), api_changes.read_places(after))
                assert found == [(["POST /v1/it"], words, rules[rule])]


def test_the_same_description_has_no_changes_and_one_change_of_two_operations_is_told_once():
    before, after = api_changes.read_places(described()), api_changes.read_places(described(TEXT))
    assert api_changes.compare(after, after) == []
    twice = [{**places, "GET /v1/other": places["POST /v1/it"]} for places in (before, after)]
    assert api_changes.compare(*twice) == [(["GET /v1/other", "POST /v1/it"], "New request field `n`.", False)]


@pytest.fixture
def places():
    specification._rendered_document.cache_clear()  # a test with other addresses may have made it
    return api_changes.read_places(specification.read_document())


def test_the_changelog_has_every_change_of_the_description(places):
    missing = api_changes.compare(api_changes.read_snapshot(), places)
    assert not missing, f"The description of the API changed: run make api-changes, and commit what it writes. {missing}"
    assert api_changes.read_snapshot() == places, "Run make api-changes, and commit what it writes."


def test_the_command_adds_to_the_entry_of_the_day_once(places, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(api_changes, "SNAPSHOT", tmp_path / "places.json")
    monkeypatch.setattr(changes, "FILE", tmp_path / "changes.json")
    before = {operation: inner for operation, inner in places.items() if operation != "GET /v1/models"}
    api_changes.write_snapshot({**before, "GET /v1/gone": places["GET /v1/models"]})
    today = datetime.now(UTC).date().isoformat()
    earlier = {"operations": ["GET /v1/usage"], "words": "New operation.", "is_breaking": False}
    api_changes.write_entries([{"date": today, "changes": [earlier], "updated_at": f"{today}T00:00:00+00:00"}])
    api_changes.update()
    [entry] = json.loads(changes.FILE.read_text())
    assert entry["date"] == today
    assert [(each["operations"], each["is_breaking"]) for each in entry["changes"]] == [
        (["GET /v1/gone"], True),
        (["GET /v1/models"], False),
        (["GET /v1/usage"], False),
    ]
    assert "Breaking: The operation is removed. GET /v1/gone\n" in capsys.readouterr().out
    assert api_changes.read_snapshot() == places
    written = changes.FILE.read_text()
    api_changes.update()
    assert changes.FILE.read_text() == written
    assert capsys.readouterr().out == ""


@pytest.fixture
def entries(tmp_path, monkeypatch):
    breaking = {"operations": ["GET /v1/gone"], "words": "The reply field `<n>` is removed.", "is_breaking": True}
    new = {"operations": ["GET /v1/models"], "words": "New operation.", "is_breaking": False}
    monkeypatch.setattr(changes, "FILE", tmp_path / "changes.json")
    api_changes.write_entries(
        [
            {"date": "2026-11-29", "updated_at": "2026-11-29T12:30:00+00:00", "changes": [breaking, new]},
            {"date": "2026-11-27", "updated_at": "2026-11-27T09:00:00+00:00", "changes": [new]},
        ]
    )
    for forget in (public_page.forget, changes.read_entries.cache_clear):
        forget()
    yield
    for forget in (public_page.forget, changes.read_entries.cache_clear):
        forget()


def test_the_page_lists_the_changes_of_each_day_with_links_to_operations(entries):
    reply = client_for(None).get("/docs/changes")
    assert reply.status_code == 200
    page = " ".join(reply.content.decode().split())
    assert page.index("29 Nov 2026") < page.index("27 Nov 2026")
    assert (
        '<li>The reply field <code>&lt;n&gt;</code> is removed. <strong class="state breaking">Breaking</strong></li>' in page
    )
    assert page.count(">Breaking<") == 1
    assert '<a href="/docs/reference/listModels"><code>GET /v1/models</code></a>' in page
    assert "<code>GET /v1/gone</code>" in page
    assert page.count("/docs/reference/listModels") == 2
    assert 'href="/docs/changes.atom"' in page
    assert '<a class="group" href="/docs/changes">Changes</a>' in " ".join(
        client_for(None).get("/docs/reference").content.decode().split()
    )


def test_the_feed_has_an_entry_for_each_day(entries):
    reply = client_for(None).get("/docs/changes.atom")
    assert (reply.status_code, reply["content-type"]) == (200, "application/atom+xml; charset=utf-8")
    space = "{http://www.w3.org/2005/Atom}"
    feed = ElementTree.fromstring(reply.content)
    assert [each.text for each in feed.iter(f"{space}title")][1:] == [
        "29 Nov 2026: 2 changes, 1 breaking",
        "27 Nov 2026: 1 change",
    ]
    assert [each.text for each in feed.iter(f"{space}updated")] == [
        "2026-11-29T12:30:00+00:00",
        "2026-11-29T12:30:00+00:00",
        "2026-11-27T09:00:00+00:00",
    ]
    assert feed.find(f"{space}author/{space}name").text == "Model Gateway", "RFC 4287, 4.1.1: a feed without one is invalid"
    assert not [*feed.iter(f"{space}published")], "a day is published once, and we know only when it last changed"
    [newest, _] = feed.iter(f"{space}entry")
    assert newest.find(f"{space}id").text == "http://testserver/docs/changes#2026-11-29"
    assert "http://testserver/docs/reference/listModels" in newest.find(f"{space}summary").text
