"""Reading a source's documents: each once in a run, conditional ones, and failures as the kinds that a run distinguishes.

How documents are requested is tested in ``tests/gateway_project/net/test_background_http.py``.
"""

import pytest

from gateway_project.net.background_http import AccessDenied, FetchFailed, InvalidDocument, NotFound
from rankings.sources.documents import SourceClient
from tests.rankings.source_server import Reply

PATH = "/hub/anything"


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def client(sources, pauses):
    client = SourceClient(f"{sources.url}/hub", {"Authorization": "Bearer hf_secret"}, pause=pauses.append)
    yield client
    client.close()


def test_a_document_is_requested_once_with_the_key(client, sources, pauses):
    sources.answer(PATH, Reply(body={"rows": [1]}))
    assert client.get("/anything", a="b c").json() == {"rows": [1]}
    assert client.get("/anything", a="b c").json() == {"rows": [1]}
    [asked] = sources.asked
    assert (asked.query, asked.headers["authorization"]) == ({"a": "b c"}, "Bearer hf_secret")
    assert pauses == []


def test_a_redirect_within_the_host_is_followed_and_keeps_the_key(client, sources):
    sources.answer(PATH, Reply(307, headers={"Location": "/hub/elsewhere"}))
    sources.answer("/hub/elsewhere", Reply(body=[1]))
    assert client.get("/anything").json() == [1]
    assert sources.last("/hub/elsewhere").headers["authorization"] == "Bearer hf_secret"


@pytest.mark.parametrize(
    ("reply", "failure", "reason"),
    [
        (Reply(401), AccessDenied, "answered 401"),
        (Reply(403), AccessDenied, "answered 403"),
        (Reply(404), NotFound, "answered 404"),
        (Reply(500), FetchFailed, "answered 500"),
        (Reply(302, headers={"Location": "http://127.0.0.1:1/"}), FetchFailed, "redirects to another host"),
        (Reply(body=b"{not json"), InvalidDocument, "sent invalid JSON"),
        (Reply(body=b"<html>", content_type="text/html"), InvalidDocument, "sent text/html, not JSON"),
    ],
)
def test_a_failure_is_of_the_kind_that_decides_how_the_run_ends(client, sources, reply, failure, reason):
    sources.answer(PATH, *[reply] * 4)
    with pytest.raises(failure, match=rf"^127\.0\.0\.1/hub/anything {reason}$") as raised:
        client.get("/anything").json()
    assert raised.value.retry_seconds is None


def test_a_rate_limit_of_hours_ends_the_run_and_names_the_time_of_the_next_one(client, sources, pauses):
    sources.answer(PATH, Reply(429, headers={"Retry-After": "70000"}))
    with pytest.raises(FetchFailed, match="not before 70000 s") as failure:
        client.get("/anything")
    assert (sources.times_asked(PATH), pauses) == (1, [])
    assert 69_900 < failure.value.retry_seconds <= 70_000


def test_unchanged_documents_are_known_by_their_validators(sources, pauses):
    sources.gives_validators = True
    board = next(iter(sources.boards))
    path = f"/api/datasets/{board}/leaderboard"
    first = SourceClient(f"{sources.url}/hub", pause=pauses.append)
    assert len(first.get(path).json()) == 100
    validators = first.validators
    assert SourceClient(f"{sources.url}/hub").is_unchanged(validators)

    sources.boards[board].pop()
    again = SourceClient(f"{sources.url}/hub")
    assert not again.is_unchanged(validators)
    asked = len(sources.asked)
    assert len(again.get(path).json()) == 99
    assert len(sources.asked) == asked  # the changed document is reused


def test_validators_of_another_address_are_not_used(sources):
    client = SourceClient(f"{sources.url}/hub")
    assert not client.is_unchanged({"http://example.org/a": {"If-None-Match": '"1"'}})
    assert sources.asked == []


def test_there_are_no_validators_if_one_document_has_none(client, sources):
    sources.answer(PATH, Reply(body=[1], headers={"ETag": '"1"', "Last-Modified": "yesterday"}))
    client.get("/anything")
    assert list(client.validators.values()) == [{"If-None-Match": '"1"', "If-Modified-Since": "yesterday"}]
    sources.answer(PATH, Reply(body=[2]))
    client.get("/anything", page=2)
    assert client.validators == {}
