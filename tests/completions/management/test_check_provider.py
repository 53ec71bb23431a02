"""``manage.py check_provider`` against real servers on loopback: each fault is told in words, with what to do, and no key."""

import io
import json
import re
import ssl
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.core.management import CommandError, call_command

from completions.models import Provider, Route
from gateway_project.net import background_http
from tests import factories
from tests.upstream import HANG, KEY, KEY_ENV, Listener, Received, Script, Upstream, refusal, reply, whole

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_http, "BACKOFF_SECONDS", 0)


def run(*arguments: str) -> tuple[str, int]:
    """Return what the command prints, and its exit status."""
    printed = io.StringIO()
    try:
        call_command("check_provider", *arguments, stdout=printed, stderr=io.StringIO())
    except CommandError as error:
        return printed.getvalue(), error.returncode
    return printed.getvalue(), 0


def wrong(*arguments: str) -> tuple[str, str]:
    """Return the only finding that is wrong, and its advice."""
    printed, status = run("scripted", "--json", *arguments)
    report = json.loads(printed)
    assert (status, report["ok"], KEY in printed) == (1, False, False)
    [found] = [each for each in report["findings"] if each["state"] == "wrong"]
    return found["what"], found["advice"]


def listing(*names: str) -> Script:
    return reply(json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())


def serve(upstream: Upstream, answer: Script, listed: Script | None = None) -> None:
    listed = listing("large-2025", "large-2026-mini", "tiny") if listed is None else listed

    def choose(received: Received) -> Script:
        return listed if received.path.endswith("/models") else answer

    upstream.will_answer(choose)


def test_a_provider_that_works_is_in_order(large, upstream):
    serve(upstream, whole(), listing("large-2026", "tiny"))

    printed, status = run("scripted")

    first, second, third = printed.splitlines()
    assert (first, second, status) == (f"ok     Its key: in {KEY_ENV}.", "ok     It lists 2 models.", 0)
    assert third.startswith("ok     Asked for acme/large, it answered after 0.")
    assert {request.headers["authorization"] for request in upstream.requests} == {f"Bearer {KEY}"}


def test_the_report_is_one_json_object(large, upstream):
    serve(upstream, whole(), refusal(404))
    printed, _ = run("scripted", "--json")
    report = json.loads(printed)
    assert (report["provider"], report["ok"]) == ("scripted", True)
    expected = {"state": "note", "what": "Its list was not read: it answered 404.", "advice": ""}
    assert report["findings"][-1] == expected


@pytest.mark.parametrize(
    ("answer", "what", "advice"),
    [
        (refusal(401, f"Incorrect API key provided: {KEY}"), "it refuses the key (401: ", "set_provider_key scripted."),
        (refusal(401, "You didn't provide an API key."), "it finds no key in the request", 'name = "api-key" }.'),
        (refusal(403, "Country not supported"), "it forbids the request", "regions"),
        (
            refusal(404, "The model `large-2026` does not exist"),
            "Asked for acme/large, it does not know the model large-2026 (404: The model `large-2026` does not exist).",
            "Its list has large-2025, large-2026-mini. upstream_model of the route",
        ),
        (
            refusal(400, "large-2026 is not a valid model ID"),
            "it does not know the model large-2026",
            "Its list has large-2025",
        ),
        (refusal(404, "Not Found"), "it has nothing at http://127.0.0.1:", "Correct base_url"),
        (
            refusal(429, "You exceeded your current quota"),
            "it has no quota or credit left",
            "The key and the address are right.",
        ),
        (refusal(429, "Slow down"), "it takes no more requests now", "Repeat this later"),
        (refusal(500, "oops"), "it has a fault of its own (500: oops)", "status page"),
        (refusal(400, "temperature must be 1"), "it refuses the request itself", "rules"),
        (reply(b"", status=308, Location="https://other.example/v1"), "it redirects", "Write where it leads to"),
        (reply(b"<title>Hello</title>", content_type="text/html"), "it answers in another format", "of the kind"),
        (["RESET"], "it closed the connection", "https://"),
    ],
)
def test_what_a_provider_answers_is_told_in_words(large, upstream, answer, what, advice):
    serve(upstream, answer)
    found = wrong()
    assert what in found[0]
    assert advice in found[1]


def test_a_wrong_clock_is_told_by_how_much(large, upstream):
    serve(upstream, refusal(401, Date=format_datetime(datetime.now(UTC) - timedelta(minutes=10), usegmt=True)))
    what, advice = wrong()
    told = "the clock of this host is wrong (401: no (the clock of this host is 1[01] minutes ahead of the provider's))."
    assert re.search(told.replace("(", r"\(").replace(")", r"\)"), what)
    assert "timedatectl" in advice


def test_a_path_that_is_there_twice_is_named(large, upstream):
    serve(upstream, refusal(404, "Not Found"))
    Provider.objects.update(base_url=f"{upstream.url}/v1")
    what, advice = wrong()
    assert f"it has nothing at {upstream.url}/v1/chat/completions (404: Not Found)." in what
    assert advice.startswith("The path has /v1 twice. Correct base_url")

    Provider.objects.update(base_url=upstream.url.removesuffix("/v1"))
    assert wrong()[1].startswith("Mostly base_url of this kind ends with /v1. Correct base_url")


def test_silence_is_told(large, upstream):
    serve(upstream, [HANG])
    Provider.objects.update(total_seconds=1)
    assert "it did not answer in time" in wrong()[0]


def test_a_host_that_cannot_be_reached_is_told(large, settings):
    listener = Listener()
    listener.close()
    Provider.objects.update(base_url=f"http://127.0.0.1:{listener.port}/v1")
    assert "it cannot be reached from this host (ConnectFailed: [Errno 111] Connection refused)." in wrong()[0]

    Provider.objects.update(base_url="http://api.nowhere.invalid/v1")
    what, advice = wrong()
    assert "it has a host that no name server knows, api.nowhere.invalid" in what
    assert "`getent hosts api.nowhere.invalid`" in advice

    settings.PRIVATE_UPSTREAMS = []
    Provider.objects.update(base_url="http://127.0.0.1:8001/v1")
    assert wrong() == (
        "base_url leads to a private address, which GATEWAY_PRIVATE_UPSTREAMS does not permit.",
        "If it is your own server, add its network to GATEWAY_PRIVATE_UPSTREAMS, and restart.",
    )


def self_signed(folder: Path) -> ssl.SSLContext:
    """Return the context of a server whose certificate no authority signed."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1)).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(private + made.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return context


def test_a_certificate_that_is_not_accepted_is_told(large, tmp_path):
    context, listener = self_signed(tmp_path), Listener()
    Provider.objects.update(base_url=f"https://127.0.0.1:{listener.port}/v1")

    def answer_without_tls(connection: Any) -> None:
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    listener.serve = answer_without_tls
    assert "it does not speak TLS at this port" in wrong()[0]

    def shake_hands(connection: Any) -> None:
        try:
            context.wrap_socket(connection, server_side=True).close()
        except OSError:
            connection.close()

    listener.serve = shake_hands
    what, advice = wrong()
    assert "it has a certificate that is not accepted" in what
    assert "SSL_CERT_FILE" in advice
    listener.close()


def test_a_credential_that_cannot_be_fetched_is_told(large):
    Provider.objects.update(access={"auth": {"type": "google"}})
    what, advice = wrong()
    assert "it was not asked: its key is not the JSON of a service account (JSONDecodeError" in what
    assert advice.endswith("set_provider_key scripted.")


def test_what_needs_no_request_is_told_without_one(large, upstream, monkeypatch):
    auth = {"type": "aws", "region": "eu-central-1", "service": "bedrock"}
    address = "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1"
    Provider.objects.update(access={"auth": auth}, base_url=address)
    what, advice = wrong()
    assert what == "Signatures are for the region eu-central-1, but base_url is of us-east-1."
    assert advice.startswith("Leave region out of auth")

    monkeypatch.setitem(sys.modules, "azure.identity", None)
    Provider.objects.update(access={"auth": {"type": "azure"}}, base_url=upstream.url)
    what, advice = wrong()
    assert what == "A library is missing: auth of the type azure needs azure-identity."
    assert advice == "On each host: pip install 'model-gateway[azure]'"

    monkeypatch.delenv(KEY_ENV)
    Provider.objects.update(access={})
    assert wrong()[0] == f"Its key: missing: {KEY_ENV} is not set."
    Provider.objects.update(sealed_api_key="nonsense")
    assert "cannot be decrypted" in wrong()[0]
    assert not upstream.requests


def test_without_a_route_only_the_list_is_asked_for(large, upstream):
    Route.objects.update(is_enabled=False)
    serve(upstream, whole())
    printed, status = run("scripted")
    assert (printed.splitlines()[-1], status) == ("note   It has no enabled route, so it was not asked for words.", 0)
    serve(upstream, whole(), refusal(401))
    assert wrong()[0] == "It refuses the key (401: answered 401)."
    serve(upstream, whole(), refusal(404))
    assert wrong()[0] == f"It has nothing at {upstream.url}/models (404: answered 404)."


def test_a_provider_without_a_list_is_asked_for_words_alone(large, upstream):
    Provider.objects.update(base_url=f"{upstream.url}/deployments/{{model}}")
    serve(upstream, whole())
    printed, status = run("scripted")
    assert ([line[:15] for line in printed.splitlines()], status) == (["ok     Its key:", "ok     Asked fo"], 0)
    assert [request.path for request in upstream.requests] == ["/v1/deployments/large-2026/chat/completions"]
    Route.objects.update(is_enabled=False)
    assert run("scripted")[1] == 0


def test_other_routes_are_compared_with_the_list(large, upstream):
    factories.make_model("acme/tiny", provider=large.routes.get().provider, upstream_model="tinny")
    serve(upstream, whole())
    printed, status = run("scripted")
    assert "note   It does not list tinny, to which acme/tiny leads.\n       Its list has tiny." in printed
    assert status == 0

    assert "Asked for acme/tiny, it answered" in run("scripted", "--model", "acme/tiny")[0]
    with pytest.raises(CommandError, match="--model: scripted has no enabled route to 'acme/huge'"):
        call_command("check_provider", "scripted", "--model", "acme/huge")


def test_the_echo_and_a_disabled_provider_are_checked(echo_model):
    Provider.objects.update(is_enabled=False)
    printed, status = run("echo")
    assert "note   It is disabled" in printed
    assert "ok     Asked for demo/echo" in printed
    assert status == 0


def test_an_unknown_provider_is_an_error(db):
    with pytest.raises(CommandError, match="NAME: there is no provider 'nobody'"):
        call_command("check_provider", "nobody")
