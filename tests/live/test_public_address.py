"""What strangers find at the address of a gateway in production: headers, no metrics, and an end to half-sent requests."""

import http.client
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.cookies import SimpleCookie
from urllib.parse import urlencode

import pytest

from tests import factories, waiting
from tests.faults import fault
from tests.live.gateway import Answer, Gateway, answer, head, read_all
from tests.upstream import KEY, KEY_ENV

pytestmark = pytest.mark.system

METRICS_SECRET = "m" * 40
HSTS, NOSNIFF = "strict-transport-security", "x-content-type-options"
HOST = {"Host": "127.0.0.1"}
OVER_TLS = {**HOST, "X_Forwarded_Proto": "https"}


@pytest.fixture(scope="module")
def metrics_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture
def production(transactional_db, gateways, metrics_port):
    """A gateway behind a proxy, whose metrics have an address of their own."""
    return gateways(
        GATEWAY_DEVELOPMENT="0",
        GATEWAY_BEHIND_PROXY="1",
        GATEWAY_ALLOWED_HOSTS="127.0.0.1",
        GATEWAY_METRICS_BIND=str(metrics_port),
        **{KEY_ENV: KEY},
    )


@pytest.fixture
def secret(alice):
    return factories.make_key(alice)[1]


# --- Headers ------------------------------------------------------------------------------------------------------


def ask_everything(gateway, secret, **headers: str) -> dict[str, Answer]:
    def get(path: str) -> Answer:
        return gateway.request("GET", path, secret=secret, **headers)

    def complete(secret: str, **fields) -> Answer:
        body = {"model": "demo/echo", "messages": [{"role": "user", "content": "Hello"}], **fields}
        return gateway.request("POST", "/v1/chat/completions", secret=secret, body=body, **headers)

    return {
        "a completion": complete(secret),
        "a stream": complete(secret, stream=True),
        "an error": complete("nobody"),
        "a path that is not there": get("/nothing"),
        "a preflight": gateway.request("OPTIONS", "/api/rankings", Origin="https://a.example", **headers),
        "an unknown host": gateway.request("GET", "/v1/models", **{**headers, "Host": "elsewhere.example"}),
        "a probe": get("/healthz"),
        "the ledger": get("/api/billing/ledger"),
        "the ledger as a file": get("/api/billing/ledger.csv"),
        "a public list": get("/api/rankings"),
        "a page": get("/admin/login/"),
        "a public page": get("/"),
        "a redirect": get("/dashboard/"),
    }


def test_every_reply_tells_browsers_to_sniff_nothing_and_to_keep_to_tls(production, secret, echo_model):
    for what, reply in ask_everything(production, secret, **OVER_TLS).items():
        assert (reply.headers.get(NOSNIFF), reply.headers.get(HSTS)) == ("nosniff", "max-age=31536000"), what
        assert "server" not in reply.headers, what


def test_a_reply_over_plain_http_does_not_ask_for_tls(production, secret, echo_model):
    for what, reply in ask_everything(production, secret, **HOST).items():
        assert (reply.headers.get(NOSNIFF), reply.headers.get(HSTS)) == ("nosniff", None), what


def test_cookies_are_bound_to_this_host_and_to_tls(production, alice, settings):
    settings.PASSWORD_HASHERS = ["gateway_project.passwords.OffloadedPBKDF2PasswordHasher"]  # as in production
    factories.make_user("root@example.org")
    [csrf] = cookies(production, "GET", {})
    form = urlencode({"login": "root@example.org", "password": factories.PASSWORD, "csrfmiddlewaretoken": csrf.value})
    headers = {"Cookie": f"{csrf.key}={csrf.value}", "Content-Type": "application/x-www-form-urlencoded"}
    given = [csrf, *cookies(production, "POST", {**headers, "Referer": "https://127.0.0.1/"}, form)]
    assert {cookie.key for cookie in given} == {"__Host-csrftoken", "__Host-sessionid", "__Host-device"}
    for cookie in given:
        assert (cookie["path"], cookie["domain"], cookie["secure"], cookie["httponly"]) == ("/", "", True, True)
        assert cookie["samesite"] == "Lax"


def cookies(gateway, method, headers, body=None):
    """Return the cookies that the sign-in page sets."""
    with closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=waiting.PROCESS_SECONDS_MAX)) as client:
        client.request(method, "/accounts/login/", body, {**HOST, "X-Forwarded-Proto": "https", **headers})
        lines = client.getresponse().headers.get_all("Set-Cookie", [])
    return [cookie for line in lines for cookie in SimpleCookie(line).values()]


def test_a_static_file_has_the_headers_too(gateway):
    reply = gateway.request("GET", "/static/admin/css/base.css")
    assert (reply.status, reply.headers[NOSNIFF]) == (200, "nosniff")
    assert "server" not in reply.headers


def test_a_reply_to_a_malformed_request_has_the_headers_too(production):
    with production.dial() as client:
        client.sendall(b"nonsense\r\n\r\n")
        reply = answer(client)
    assert (reply.status, reply.headers[NOSNIFF], reply.headers[HSTS]) == (400, "nosniff", "max-age=31536000")
    assert "server" not in reply.headers


# --- Metrics ------------------------------------------------------------------------------------------------------


def get_from(port: int, path: str, **headers: str) -> tuple[int, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=waiting.PROCESS_SECONDS_MAX)
    client.request("GET", path, headers=headers)
    reply = client.getresponse()
    found = reply.status, reply.read()
    client.close()
    return found


def test_the_metrics_are_at_their_own_address_only(production, metrics_port, secret):
    for path in ("/metrics", "/metrics?x", "//metrics"):
        assert production.request("GET", path, **HOST).status == 404
        assert production.request("GET", path, **{**HOST, "Host": f"127.0.0.1:{metrics_port}"}).status == 404
        assert production.request("GET", path, secret=secret, **HOST).status == 404
    status, text = get_from(metrics_port, "/metrics", Host="prometheus.internal")
    assert status == 200
    assert b"gateway_requests_total" in text


def test_the_address_of_the_metrics_serves_nothing_but_probes(production, metrics_port, secret):
    assert get_from(metrics_port, "/healthz")[0] == get_from(metrics_port, "/readyz")[0] == 200
    for path in ("/v1/models", "/api/rankings", "/admin/login/", "/"):
        assert get_from(metrics_port, path, Authorization=f"Bearer {secret}")[0] == 404


# --- Half-sent requests -------------------------------------------------------------------------------------------


def trickle(client: socket.socket) -> bytes:
    """Send a byte whenever nothing has come for a while, until the other side closes. Return what it sent."""
    received = b""
    client.settimeout(0.2)
    for _ in range(int(waiting.SECONDS_MAX * 5)):
        try:
            data = client.recv(65_536)
            if not data:
                return received
            received += data
        except TimeoutError:
            try:
                client.send(b"x")
            except OSError:
                return received
        except ConnectionResetError:
            return received
    raise AssertionError("the connection is still open")


def ends(gateway: Gateway, requests: list[bytes]) -> list[bytes]:
    """Send each of these beginnings twice: once nothing follows, once a byte at a time. Return what came until the end."""

    def end(begun: bytes, finish: Callable[[socket.socket], bytes]) -> bytes:
        with gateway.dial() as client:
            client.sendall(begun)
            return finish(client)

    with ThreadPoolExecutor(2 * len(requests)) as threads:  # all at once: each waits for its time to be over
        ended = [threads.submit(end, begun, finish) for begun in requests for finish in (read_all, trickle)]
        return [each.result() for each in ended]


@fault(
    "Client",
    "A connection sends half a request, or one byte at a time",
    "It is closed when its time is over, however slowly it comes",
)
def test_a_connection_that_sends_half_a_head_is_closed(transactional_db, gateways):
    gateway = gateways(GATEWAY_KEEPALIVE_SECONDS="1")
    begun = [b"", b"GET /v1/mo", b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "]
    assert ends(gateway, begun) == [b""] * 6


def test_a_body_that_does_not_arrive_in_time_gets_408_and_its_connection_is_closed(impatient, alice, secret):
    """Long before the limit for idle connections, for which the client here would not wait."""
    begun = [
        head(secret, "Content-Length: 9000", target=f"POST {path}").replace(b"application/json", media_type)
        for path, media_type in [
            ("/admin/login/", b"application/x-www-form-urlencoded"),
            ("/v1/chat/completions", b"application/json"),
        ]
    ]
    kept_open = [each.replace(b"Connection: close\r\n", b"") + b"{" for each in begun]
    for received in ends(impatient, kept_open):
        assert received.startswith(b"HTTP/1.1 408 ")
    assert not alice.completions.exists()
    assert not alice.holds.exists()
    assert alice.last_seq == 1


def test_a_form_that_breaks_off_is_refused_and_logs_no_error(gateway):
    mark = len(gateway.log())
    with gateway.dial() as client:
        client.sendall(head("", "Content-Length: 9000", target="POST /accounts/login/") + b"login=a")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).split(b"\r\n")[0].startswith(b"HTTP/1.1 4")
    assert "Traceback" not in gateway.log()[mark:]
