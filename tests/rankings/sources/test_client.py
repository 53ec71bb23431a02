"""The door to the sources, against a server that misbehaves: bounded in attempts, time, size and redirects."""

import gzip
import json
from datetime import UTC, datetime

import pytest

from rankings.sources import client as fetching
from rankings.sources.client import Client, Implausible, Refused, Unavailable, retry_after_seconds
from tests.rankings.source_server import Reply

PATH = "/hub/anything"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def client(sources, pauses):
    client = Client(f"{sources.url}/hub", {"Authorization": "Bearer hf_secret"}, pause=pauses.append)
    yield client
    client.close()


def test_it_reads_json_with_its_key_and_asks_once(client, sources, pauses):
    sources.answer(PATH, Reply(body={"rows": [1]}))
    assert client.get("/anything", a="b c").body == {"rows": [1]}
    assert client.get("/anything", a="b c").body == {"rows": [1]}
    [asked] = sources.asked
    assert (asked.query, asked.headers["authorization"], asked.headers["accept"]) == (
        {"a": "b c"},
        "Bearer hf_secret",
        "application/json",
    )
    assert pauses == []


def test_a_byte_order_mark_and_gzip_are_taken_off(client, sources):
    body = gzip.compress("\ufeff".encode() + json.dumps({"rows": ["é"]}).encode())
    sources.answer(PATH, Reply(body=body, headers={"Content-Encoding": "gzip"}))
    assert client.get("/anything").body == {"rows": ["é"]}


@pytest.mark.parametrize("bad", [Reply(500), Reply(503), Reply(body={"rows": [1] * 50}, breaks_off=True)])
def test_what_may_pass_is_tried_again_after_a_random_pause(client, sources, pauses, bad):
    sources.answer(PATH, bad, bad, Reply(body=[1]))
    assert client.get("/anything").body == [1]
    assert len(pauses) == 2
    assert all(0 <= pause <= ceiling for pause, ceiling in zip(pauses, (1, 2), strict=True))


def test_after_four_attempts_it_gives_up_and_says_no_secret(client, sources, pauses):
    sources.answer(PATH, *[Reply(500, {"error": "hf_secret"})] * 5)
    with pytest.raises(Unavailable) as failure:
        client.get("/anything", token="t0ken")
    assert (sources.times_asked(PATH), len(pauses)) == (4, 3)
    assert str(failure.value) == "127.0.0.1/hub/anything answered 500"


def test_a_server_that_is_not_there_is_unavailable(pauses):
    client = Client("http://127.0.0.1:9", pause=pauses.append)
    with pytest.raises(Unavailable, match=r"^127\.0\.0\.1/anything: the connection failed$"):
        client.get("/anything")
    assert len(pauses) == 3
    client.close()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_final(client, sources, pauses, status):
    sources.answer(PATH, Reply(status, {"error": "Invalid API key hf_secret"}))
    with pytest.raises(Refused, match=rf"^127\.0\.0\.1/hub/anything answered {status}$"):
        client.get("/anything")
    assert (sources.times_asked(PATH), pauses) == (1, [])


@pytest.mark.parametrize("status", [400, 404, 418])
def test_other_refusals_are_not_tried_again_in_this_run(client, sources, pauses, status):
    sources.answer(PATH, Reply(status))
    with pytest.raises(Unavailable):
        client.get("/anything")
    assert (sources.times_asked(PATH), pauses) == (1, [])


def test_a_rate_limit_of_seconds_is_waited_for_exactly(client, sources, pauses):
    sources.answer(PATH, Reply(429, headers={"Retry-After": "5"}), Reply(body=[1]))
    assert client.get("/anything").body == [1]
    assert pauses == [5.0]


def test_a_rate_limit_of_hours_ends_the_run_and_says_until_when(client, sources, pauses):
    sources.answer(PATH, Reply(429, headers={"Retry-After": "70000"}))
    with pytest.raises(Unavailable, match="not before 70000 s") as failure:
        client.get("/anything")
    assert (sources.times_asked(PATH), pauses) == (1, [])
    assert 69_900 < (failure.value.retry_at - datetime.now(UTC)).total_seconds() <= 70_000


def test_a_rate_limit_that_says_nothing_is_tried_again_like_a_failure(client, sources, pauses):
    sources.answer(PATH, Reply(429), Reply(body=[1]))
    assert client.get("/anything").body == [1]
    assert len(pauses) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "5"}, 5),
        ({"Retry-After": "Sat, 21 Nov 2026 12:02:00 GMT"}, 120),
        ({"Retry-After": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0),
        ({"RateLimit": '"api";r=0;t=34'}, 34),
        ({"X-RateLimit-Reset": str(int(NOW.timestamp()) + 90)}, 90),
        ({"Retry-After": "99999999999"}, 30 * 86_400),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "٥"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_in_every_way_it_is_said(headers, seconds):
    assert retry_after_seconds(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(body=b"{not json"), "is not JSON, though it says so"),
        (Reply(body=b'{"value": NaN}'), "is not JSON, though it says so"),
        (Reply(body=b'{"value": "\xff"}'), "is not JSON, though it says so"),
        (Reply(body=b"[" * 200_000), "is not JSON, though it says so"),
        (Reply(body=b"1" * 10_000), "is not JSON, though it says so"),
        (Reply(body=b"<html>", content_type="text/html"), "is not JSON but text/html"),
    ],
    ids=["malformed", "NaN", "not UTF-8", "deep", "huge number", "HTML"],
)
def test_what_is_not_json_is_refused_at_once(client, sources, pauses, reply, reason):
    sources.answer(PATH, reply)
    with pytest.raises(Implausible, match=reason):
        client.get("/anything")
    assert (sources.times_asked(PATH), pauses) == (1, [])


def test_a_small_body_that_unpacks_to_a_large_one_is_refused(client, sources):
    bomb = gzip.compress(b" " * (fetching.BODY_BYTES_MAX + 1))
    assert len(bomb) < 100_000
    sources.answer(PATH, Reply(body=bomb, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(Implausible, match="is longer than 20000000 bytes"):
        client.get("/anything")


def test_a_redirect_within_the_host_is_followed_and_keeps_its_conditions(client, sources):
    sources.answer(PATH, Reply(307, headers={"Location": "/hub/elsewhere"}))
    sources.answer("/hub/elsewhere", Reply(body=[1]))
    assert client.get("/anything").body == [1]
    assert sources.last("/hub/elsewhere").headers["authorization"] == "Bearer hf_secret"


@pytest.mark.parametrize(
    "location", ["http://localhost:{port}/hub/elsewhere", "https://127.0.0.1:{port}/", "http://127.0.0.1:1/"]
)
def test_a_redirect_to_another_host_is_not_followed(client, sources, pauses, location):
    sources.answer(PATH, Reply(302, headers={"Location": location.format(port=sources.url.rpartition(":")[2])}))
    with pytest.raises(Unavailable, match="redirects to another host"):
        client.get("/anything")
    assert [asked.path for asked in sources.asked] == [PATH]
    assert pauses == []


def test_redirects_end(client, sources):
    sources.answer(PATH, *[Reply(302, headers={"Location": PATH})] * 10)
    with pytest.raises(Unavailable, match="redirects for ever"):
        client.get("/anything")
    assert sources.times_asked(PATH) == 4


def test_unchanged_documents_are_known_by_their_validators(sources, pauses):
    sources.gives_validators = True
    board = next(iter(sources.boards))
    path = f"/api/datasets/{board}/leaderboard"
    first = Client(f"{sources.url}/hub", pause=pauses.append)
    assert len(first.get(path).body) == 100
    validators = first.validators
    assert Client(f"{sources.url}/hub").is_unchanged(validators)

    sources.boards[board].pop()
    again = Client(f"{sources.url}/hub")
    assert not again.is_unchanged(validators)
    asked = len(sources.asked)
    assert len(again.get(path).body) == 99
    assert len(sources.asked) == asked  # what the question brought is not asked for twice


def test_validators_of_another_address_are_not_believed(sources):
    client = Client(f"{sources.url}/hub")
    assert not client.is_unchanged({"http://example.org/a": {"If-None-Match": '"1"'}})
    assert sources.asked == []


def test_without_validators_for_everything_there_are_none(client, sources):
    sources.answer(PATH, Reply(body=[1], headers={"ETag": '"1"', "Last-Modified": "yesterday"}))
    client.get("/anything")
    assert list(client.validators.values()) == [{"If-None-Match": '"1"', "If-Modified-Since": "yesterday"}]
    sources.answer(PATH, Reply(body=[2]))
    client.get("/anything", page=2)
    assert client.validators == {}


def test_a_password_of_the_machine_is_not_sent(client, sources, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    sources.answer(PATH, Reply(body=[1]))
    client.get("/anything")
    assert sources.asked[0].headers["authorization"] == "Bearer hf_secret"
