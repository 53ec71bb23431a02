"""Requests whose credential is fetched or renewed while somebody waits. Credentials themselves: ``access``."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec import structs

from completions.chat import Proof
from completions.providers import ADAPTERS
from completions.providers.access import google
from completions.providers.access.keeper import Bearer
from completions.providers.base import FailureKind, ProviderFailed
from completions.request import schema
from gateway_project.net import http
from tests.completions.offers import make_call, make_offer
from tests.completions.rows import MESSAGES
from tests.upstream import Upstream, refusal

ACCESS_KEY = "ya29.0123456789"


class Credential:
    """Has a successor, always. ``is_left``: the client leaves whoever waits for it."""

    def __init__(self, *, is_left: str = "") -> None:
        self.is_left, self.renewals = is_left, 0

    def proof(self) -> Bearer:
        self._wait("proof")
        return Bearer(ACCESS_KEY)

    def renew(self, refused: Proof) -> bool:
        self._wait("renew")
        self.renewals += 1
        return True

    def _wait(self, step: str) -> None:
        if step == self.is_left:
            raise http.ClientDisconnected


def failed(upstream: Upstream, credential: Credential, **facts: Any) -> ProviderFailed:
    offer = make_offer(base_url=upstream.url)
    call = make_call(schema.parse({"model": "acme/m", "messages": MESSAGES}), offer, 10)
    route = replace(call.route, target=replace(call.route.target, credential=credential), **facts)
    with pytest.raises(ProviderFailed) as caught:
        ADAPTERS["openai"].complete(structs.replace(call, route=route))
    return caught.value


@pytest.mark.parametrize(("step", "requests"), [("proof", 0), ("renew", 1)])
def test_who_leaves_while_a_credential_is_fetched_leaves_no_provider_at_work(upstream, step, requests):
    upstream.will(refusal(401))
    failure = failed(upstream, Credential(is_left=step))
    assert (failure.kind, failure.provider_worked) == (FailureKind.CLIENT_DISCONNECTED, False)
    assert len(upstream.requests) == requests


def test_a_refused_credential_is_renewed_also_for_the_next_probe(upstream):
    upstream.will(refusal(401))
    credential = Credential()
    failure = failed(upstream, credential)
    assert (failure.kind, failure.key_refusal) == (FailureKind.CREDENTIAL_RENEWED, None)
    probe = failed(upstream, credential, is_key_refused=True)
    assert (probe.kind, probe.key_refusal[0]) == (FailureKind.ROUTE_UNUSABLE, 401)
    assert credential.renewals == 2


def service_account(token_uri: str) -> str:
    pem = rsa.generate_private_key(65_537, 2_048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    fields = {"type": "service_account", "client_email": "a@b.example", "token_uri": token_uri}
    return json.dumps({**fields, "private_key": pem.decode()})


@pytest.fixture
def redirecting() -> Iterator[tuple[str, list[str]]]:
    """A server that leads elsewhere, to itself: its address, and the methods of its requests."""
    methods: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            methods.append(self.command)
            self.send_response(302)
            self.send_header("Location", "/latest/meta-data")
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/token", methods
        server.shutdown()


def test_the_token_uri_of_a_service_account_leads_to_no_other_address(redirecting, settings):
    token_uri, methods = redirecting
    fetch = google.make_fetch({"type": "google"}, service_account(token_uri))
    with pytest.raises(Exception, match="Exceeded 0 redirects"):
        fetch()
    settings.PRIVATE_UPSTREAMS = []
    with pytest.raises(Exception, match="is at a private address"):
        google.make_fetch({"type": "google"}, service_account(token_uri))()
    assert methods == ["POST"]
