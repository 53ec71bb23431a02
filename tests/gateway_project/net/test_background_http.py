"""The HTTP client for background work, against a server on loopback that misbehaves."""

import gzip
import json
from datetime import UTC, datetime

import pytest

from gateway_project.net import background_http
from gateway_project.net.background_http import (
    AccessDenied,
    Client,
    FetchFailed,
    InvalidDocument,
    retry_after_seconds,
    with_query,
)
from tests.document_server import reply, serving

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECRET = "sk-0123456789"


@pytest.fixture
def server():
    with serving() as server:
        server.will(json_reply({"rows": [1]}))
        yield server


@pytest.fixture
def pauses():
    return []


@pytest.fixture
def fetch(server, pauses, monkeypatch):
    """Fetch /documents/one with a key and these limits."""

    def fetch(conditions=None, redirects_max=0, **limits):
        for name, limit in limits.items():
            monkeypatch.setattr(background_http, name, limit)
        client = Client({"Authorization": f"Bearer {SECRET}"}, redirects_max=redirects_max, pause=pauses.append)
        try:
            return client.get(f"{server.origin}/documents/one", conditions)
        finally:
            client.close()

    return fetch


def json_reply(value, **headers):
    return reply(json.dumps(value), **{"Content_Type": "application/json", **headers})


# --- What is sent -----------------------------------------------------------------------------------------------------


def test_a_document_is_requested_with_the_given_headers(fetch, server, pauses):
    assert fetch().json() == {"rows": [1]}
    [received] = server.received
    assert received.path == "/documents/one"
    assert received.headers["authorization"] == f"Bearer {SECRET}"
    assert received.headers["accept"] == "application/json"
    assert received.headers["user-agent"] == "model-gateway"
    assert pauses == []


def test_passwords_and_proxies_of_the_environment_are_not_used(server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    client = Client()
    assert client.get(f"{server.origin}/").json() == {"rows": [1]}
    client.close()
    assert "authorization" not in server.received[0].headers


def test_a_password_in_the_url_replaces_no_header(server):
    client = Client({"Authorization": f"Bearer {SECRET}"})
    client.get(server.origin.replace("//", "//somebody:hunter2@"))
    client.close()
    assert server.received[0].headers["authorization"] == f"Bearer {SECRET}"


def test_a_query_is_encoded_as_it_is_sent():
    assert with_query("http://a/b", {"a": "b c", "page": 2}) == "http://a/b?a=b+c&page=2"


@pytest.mark.parametrize(("url", "key"), [("http://", SECRET), ("nonsense", SECRET), ("http://127.0.0.1:9/", "a\nb: c")])
def test_an_address_or_key_that_fits_no_request_is_reported_without_it(url, key, pauses):
    client = Client({"Authorization": key}, pause=pauses.append)
    with pytest.raises(FetchFailed) as failure:
        client.get(url)
    assert failure.value.reason == "cannot be asked: its address or its key fits no request"
    assert key not in str(failure.value)
    assert pauses == []
    client.close()


# --- Retries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        reply(status=408),
        reply(status=429),
        reply(status=500),
        reply(status=503),
        reply("[1,", Content_Length="9", Connection="close"),
        reply(gzip.compress(b"[1, 2]")[:-9], Content_Encoding="gzip"),
        reply(b"no gzip", Content_Encoding="gzip"),
    ],
    ids=["408", "429", "500", "503", "body cut short", "packed body cut short", "packed body broken"],
)
def test_a_failure_that_may_pass_is_retried_after_a_random_pause(fetch, server, pauses, failure):
    server.will(failure, failure, json_reply([1]))
    assert fetch().json() == [1]
    assert len(pauses) == 2
    assert all(0 <= pause <= ceiling for pause, ceiling in zip(pauses, (1, 2), strict=True))


def test_after_four_attempts_it_fails_without_repeating_the_reply(fetch, server, pauses):
    server.will(reply(SECRET, status=500))
    with pytest.raises(FetchFailed) as failure:
        fetch()
    assert (len(server.received), len(pauses)) == (4, 3)
    assert str(failure.value) == "127.0.0.1/documents/one answered 500"


def test_a_server_that_does_not_listen_is_reported_after_retries(pauses):
    client = Client(pause=pauses.append)
    with pytest.raises(FetchFailed, match=r"^127\.0\.0\.1/a cannot be reached: the connection failed$"):
        client.get("http://127.0.0.1:9/a?key=secret")
    assert len(pauses) == 3
    client.close()


@pytest.mark.parametrize("status", [401, 403])
def test_a_denied_access_is_not_retried(fetch, server, pauses, status):
    server.will(reply(f"Invalid key {SECRET}", status=status))
    with pytest.raises(AccessDenied, match=rf"^127\.0\.0\.1/documents/one answered {status}$"):
        fetch()
    assert (len(server.received), pauses) == (1, [])


@pytest.mark.parametrize("status", [204, 400, 404, 418])
def test_other_statuses_are_not_retried(fetch, server, pauses, status):
    server.will(reply(status=status))
    with pytest.raises(FetchFailed, match=f"answered {status}"):
        fetch()
    assert (len(server.received), pauses) == (1, [])


@pytest.mark.parametrize("status", [429, 503])
def test_a_short_retry_after_is_waited_for_exactly(fetch, server, pauses, status):
    server.will(reply(status=status, Retry_After="5"), json_reply([1]))
    assert fetch().json() == [1]
    assert pauses == [5.0]


@pytest.mark.parametrize("status", [429, 503])
def test_a_long_retry_after_ends_the_attempts_and_is_reported(fetch, server, pauses, status):
    server.will(reply(status=status, Retry_After="70000"))
    with pytest.raises(FetchFailed, match=f"answered {status}: not before 70000 s") as failure:
        fetch()
    assert (len(server.received), pauses) == (1, [])
    assert failure.value.retry_seconds == 70_000


def test_a_pause_that_would_exceed_the_run_is_not_made(fetch, server, pauses):
    server.will(reply(status=429, Retry_After="5"))
    with pytest.raises(FetchFailed, match="answered 429"):
        fetch(RUN_SECONDS=4)
    assert (len(server.received), pauses) == (1, [])


def test_nothing_is_requested_after_the_run_has_ended(fetch, server):
    with pytest.raises(FetchFailed, match="took more than -1 seconds in this run"):
        fetch(RUN_SECONDS=-1)
    assert server.received == []


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "5"}, 5),
        ({"Retry-After": "Sat, 21 Nov 2026 12:02:00 GMT"}, 120),
        ({"Retry-After": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0),
        ({"RateLimit": '"api";r=0;t=34'}, 34),
        ({"X-RateLimit-Reset": str(int(NOW.timestamp()) + 90)}, 90),
        ({"Retry-After": "99999999999"}, 30 * 86_400),
        ({"Retry-After": "Fri, 31 Dec 2100 23:59:59 GMT"}, 30 * 86_400),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "٥"}, None),
        ({}, None),
    ],
)
def test_the_requested_wait_is_read_from_every_header_that_can_say_it(headers, seconds):
    assert retry_after_seconds(headers, NOW) == seconds


# --- Bodies -----------------------------------------------------------------------------------------------------------


def test_gzip_and_a_byte_order_mark_are_removed(fetch, server):
    body = gzip.compress("\ufeff".encode() + json.dumps({"rows": ["é"]}).encode())
    server.will(reply(body, Content_Type="application/json", Content_Encoding="gzip"))
    assert fetch().json() == {"rows": ["é"]}


def test_a_compression_that_was_not_requested_is_refused(fetch, server, pauses):
    server.will(reply(b"...", Content_Encoding="br"))
    with pytest.raises(InvalidDocument, match="sent a compression that it was not asked for"):
        fetch()
    assert pauses == []


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_body_of_exactly_the_limit_is_accepted_and_one_byte_more_is_not(fetch, server, pauses, encoding):
    pack = gzip.compress if encoding == "gzip" else bytes
    server.will(reply(pack(b" " * 50_000), Content_Encoding=encoding))
    assert len(fetch(BODY_BYTES_MAX=50_000).body) == 50_000
    with pytest.raises(InvalidDocument, match="sent more than 49999 bytes"):
        fetch(BODY_BYTES_MAX=49_999)
    assert pauses == []


def test_a_small_body_that_unpacks_to_a_large_one_is_refused(fetch, server):
    bomb = gzip.compress(b" " * 20_000_001)
    assert len(bomb) < 100_000
    server.will(reply(bomb, Content_Encoding="gzip"))
    with pytest.raises(InvalidDocument, match="sent more than 20000000 bytes"):
        fetch()


def test_a_body_that_comes_byte_by_byte_is_abandoned_after_the_time_limit(fetch, server):
    server.will(reply(b" " * 10_000, seconds_between_bytes=0.01))
    with pytest.raises(FetchFailed, match="took more than 0 seconds to send its answer"):
        fetch(BODY_SECONDS=0.1, ATTEMPTS_MAX=1)


def test_a_server_that_sends_nothing_is_abandoned(fetch, server):
    server.will(reply(b"ab", seconds_between_bytes=60))
    with pytest.raises(FetchFailed, match="sent nothing for 0 seconds"):
        fetch(READ_SECONDS=0.1, ATTEMPTS_MAX=1)


@pytest.mark.parametrize(
    ("body", "media_type", "reason"),
    [
        (b"{not json", "application/json", "sent invalid JSON"),
        (b'{"value": NaN}', "application/json", "sent invalid JSON"),
        (b'{"value": "\xff"}', "application/json", "sent invalid JSON"),
        (b"[" * 200_000, "application/json", "sent invalid JSON"),
        (b"1" * 10_000, "application/json", "sent invalid JSON"),
        (b"<html>", "text/html; charset=utf-8", "sent text/html, not JSON"),
        (b"[]", "", "sent a document without a type, not JSON"),
    ],
    ids=["malformed", "NaN", "not UTF-8", "deep", "huge number", "HTML", "no type"],
)
def test_a_document_that_is_not_json_is_refused(fetch, server, body, media_type, reason):
    server.will(reply(body, Content_Type=media_type))
    document = fetch()
    with pytest.raises(InvalidDocument, match=reason):
        document.json()


def test_json_of_a_special_type_is_json(fetch, server):
    server.will(reply(b"[1]", Content_Type="application/problem+json"))
    assert fetch().json() == [1]


# --- Unchanged documents ----------------------------------------------------------------------------------------------


def test_the_validators_of_a_document_make_the_next_request_conditional(fetch, server):
    server.will(json_reply([1], ETag='"1"', Last_Modified="yesterday"), reply(status=304))
    validators = fetch().validators
    assert validators == {"If-None-Match": '"1"', "If-Modified-Since": "yesterday"}
    assert fetch(validators) is None
    assert server.received[1].headers["if-none-match"] == '"1"'


def test_an_unconditional_request_that_is_answered_304_fails(fetch, server, pauses):
    server.will(reply(status=304))
    with pytest.raises(FetchFailed, match="answered 304"):
        fetch()
    assert (len(server.received), pauses) == (1, [])


# --- Redirects --------------------------------------------------------------------------------------------------------


def test_a_redirect_is_not_followed_by_default(fetch, server, pauses):
    server.will(reply(status=302, Location="/elsewhere"), json_reply([1]))
    with pytest.raises(FetchFailed, match="answered 302"):
        fetch()
    assert (len(server.received), pauses) == (1, [])


def test_a_redirect_within_the_origin_is_followed_with_key_and_conditions(fetch, server):
    server.will(reply(status=307, Location="/elsewhere"), json_reply([1]))
    assert fetch({"If-None-Match": '"1"'}, redirects_max=3).json() == [1]
    received = server.received[1]
    assert received.path == "/elsewhere"
    assert (received.headers["authorization"], received.headers["if-none-match"]) == (f"Bearer {SECRET}", '"1"')


@pytest.mark.parametrize("location", ["http://localhost:{port}/", "https://127.0.0.1:{port}/", "http://127.0.0.1:1/"])
def test_a_redirect_to_another_origin_is_not_followed(fetch, server, pauses, location):
    server.will(reply(status=302, Location=location.format(port=server.origin.rpartition(":")[2])), json_reply([1]))
    with pytest.raises(FetchFailed, match="redirects to another host"):
        fetch(redirects_max=3)
    assert (len(server.received), pauses) == (1, [])


def test_redirects_are_followed_three_times_at_most(fetch, server):
    server.will(reply(status=302, Location="/documents/one"))
    with pytest.raises(FetchFailed, match="redirects more than 3 times"):
        fetch(redirects_max=3)
    assert len(server.received) == 4
