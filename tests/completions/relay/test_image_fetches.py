"""Images by address: fetched once their request is admitted, from public hosts alone, within bounds, and sent as data."""

import base64
import json
from typing import Any

import gevent.socket
import pytest

from billing.models import Hold, LedgerEntry
from completions.models import Completion
from completions.relay import image_fetches
from gateway_project.environment import networks
from tests import factories
from tests.chat import assert_error, everything_written
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.providers.gemini import scripts as gemini
from tests.completions.routes import add
from tests.completions.rows import ask, ask_streamed, events
from tests.conftest import client_for
from tests.document_server import reply, serving
from tests.malformed_addresses import SENT
from tests.upstream import KEY_ENV, refusal, streamed, whole

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
TEXT = base64.b64encode(PNG).decode()
PATH = "messages[0].content[1].image_url.url"


@pytest.fixture
def server():
    with serving() as server:
        server.will(reply(PNG, Content_Type="application/octet-stream"))
        yield server


@pytest.fixture(autouse=True)
def _model(large):
    large.image_support = True
    large.save()


def conversation(*addresses: str, text: str = "What is this?") -> list[dict[str, Any]]:
    images = [{"type": "image_url", "image_url": {"url": address, "detail": "low"}} for address in addresses]
    return [{"role": "user", "content": [{"type": "text", "text": text}, *images]}]


def assert_nothing_kept():
    """Assert that the request was admitted, its hold released, and nothing charged."""
    assert Completion.objects.get().settlement == "released"
    assert Hold.objects.get().state == "RELEASED"
    assert not LedgerEntry.objects.filter(type="USAGE_DEBIT").exists()


# --- What is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_an_image_is_sent_as_data(api, upstream, server, is_streamed):
    upstream.will(streamed() if is_streamed else whole())
    send = ask_streamed if is_streamed else ask
    answer = send(api, messages=conversation(f"{server.origin}/a.png?size=1"))
    assert events(answer) if is_streamed else answer.status_code == 200
    [_, sent] = upstream.requests[0].body["messages"][0]["content"]
    assert sent == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{TEXT}", "detail": "low"}}
    [received] = server.received
    assert received.path == "/a.png?size=1"
    assert received.headers.keys() == {"host", "user-agent", "accept-encoding"}


def test_the_same_address_is_fetched_once(api, upstream, server):
    other = base64.b64encode(b"GIF89a").decode()
    server.will(reply(PNG), reply(b"GIF89a"))
    one, two = f"{server.origin}/1", f"{server.origin}/2"
    assert ask(api, messages=conversation(one, two, one)).status_code == 200
    urls = [part["image_url"]["url"] for part in upstream.requests[0].body["messages"][0]["content"][1:]]
    assert urls == [f"data:image/{kind}" for kind in (f"png;base64,{TEXT}", f"gif;base64,{other}", f"png;base64,{TEXT}")]
    assert len(server.received) == 2


def test_each_attempt_sends_the_image_also_of_a_body_that_was_released(api, large, upstream, spare, server):
    add(large, spare)
    upstream.will(refusal(503))
    assert ask(api, messages=conversation(f"{server.origin}/", text="x" * 20_000)).status_code == 200
    assert upstream.requests[0].body["messages"] == spare.requests[0].body["messages"]
    assert TEXT in json.dumps(spare.requests[0].body)
    assert len(server.received) == 1


def messages_of(address: str) -> list[dict[str, Any]]:
    image = {"type": "image", "source": {"type": "url", "url": address}}
    document = {"type": "document", "source": {"type": "content", "content": [image]}}
    return [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, image]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [image]}, document]},
    ]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
def test_the_other_languages_fetch_too(api, upstream, server, path):
    fields: dict[str, Any] = {"max_tokens": 9, "messages": messages_of(server.origin)}
    if path == "/v1/responses":
        part = {"type": "input_image", "image_url": server.origin}
        call = {"type": "computer_call", "call_id": "c", "actions": []}
        screenshot = {"type": "computer_screenshot", "image_url": server.origin}
        shown = {"type": "computer_call_output", "call_id": "c", "output": screenshot}
        fields = {"input": [{"role": "user", "content": [part, part]}, call, shown]}
    assert api.post(path, {"model": "acme/large", **fields}).status_code == 200
    assert json.dumps(upstream.requests[0].body).count(f"data:image/png;base64,{TEXT}") == 3
    assert len(server.received) == 1


def test_an_image_reaches_anthropic_in_its_own_words(api, large, upstream, server):
    provider = factories.make_provider("claude", kind="anthropic", base_url=upstream.url, api_key_env=KEY_ENV)
    factories.make_model("acme/claude", provider=provider, upstream_model="claude-sonnet-4-5", image_support=True)
    sent = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TEXT}}
    for path, asked in (("/v1/messages", messages_of(server.origin)), ("/v1/chat/completions", conversation(server.origin))):
        upstream.will(claude.whole(claude.text_block("Hi")))
        assert api.post(path, {"model": "acme/claude", "max_tokens": 9, "messages": asked}).status_code == 200
        assert upstream.requests[-1].body["messages"][0]["content"][1] == sent
    [result, document] = upstream.requests[-2].body["messages"][2]["content"]
    assert result["content"] == document["source"]["content"] == [sent]


def test_an_image_reaches_gemini_in_its_own_words(api, upstream, server):
    provider = factories.make_provider("google", kind="gemini", base_url=upstream.url, api_key_env=KEY_ENV)
    factories.make_model("acme/gemini", provider=provider, upstream_model="gemini-2.5-flash", image_support=True)
    upstream.will(gemini.answered(gemini.response({"text": "Hi"}, finish="STOP", usage=gemini.USAGE)))
    assert ask(api, model="acme/gemini", messages=conversation(server.origin)).status_code == 200
    [_, part] = upstream.requests[0].body["contents"][0]["parts"]
    assert part == {"inlineData": {"mimeType": "image/png", "data": TEXT}}


def test_an_image_by_address_is_held_and_charged_as_one_that_is_sent(api, server):
    by_address, as_data = (ask(api, messages=conversation(url)) for url in (server.origin, f"data:image/png;base64,{TEXT}"))
    assert by_address["x-gateway-max-cost"] == as_data["x-gateway-max-cost"]
    assert by_address["x-gateway-cost"] == as_data["x-gateway-cost"]
    assert [completion.images for completion in Completion.objects.all()] == [1, 1]


# --- Who may make the gateway fetch -----------------------------------------------------------------------------------


def test_nothing_is_fetched_for_whom_admission_refuses(alice, server, upstream):
    broke = client_for(factories.make_key(alice, limit_cents=0, type="FIXED", name="broke")[1])
    for client, status in ((broke, 402), (client_for("mgw_live_wrong"), 401)):
        assert ask(client, messages=conversation(server.origin)).status_code == status
    assert not server.received + upstream.requests
    assert not Hold.objects.exists()


def test_a_quote_fetches_nothing(api, server):
    body = {"model": "acme/large", "messages": conversation(server.origin), "max_tokens": 5}
    told = api.post("/v1/quote", body).json()
    assert not server.received
    assert told["max_cost"] == float(ask(api, messages=body["messages"], max_tokens=5)["x-gateway-max-cost"])


def test_another_address_under_the_same_idempotency_key_is_another_request(api, server):
    def send(path: str) -> Any:
        body = {"model": "acme/large", "messages": conversation(f"{server.origin}{path}")}
        return api.post("/v1/chat/completions", body, headers={"Idempotency-Key": "a"})

    assert send("/1").status_code == 200
    assert_error(send("/2"), 400, "invalid_request_error", "Idempotency-Key")
    assert send("/1")["Idempotent-Replayed"] == "true"
    assert len(server.received) == 1


# --- What is refused --------------------------------------------------------------------------------------------------


def assert_refused(api: Any, upstream: Any, address: str, why: str) -> None:
    error = assert_error(ask(api, messages=conversation(address)), 400, "invalid_request_error", PATH)
    assert error["message"].startswith(f"{PATH} cannot be fetched: ")
    assert why in error["message"]
    assert not upstream.requests
    assert_nothing_kept()


PRIVATE = ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"]


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_are_not_connected_to(api, upstream, server, settings, host):
    settings.PRIVATE_IMAGES = []
    settings.PRIVATE_UPSTREAMS = networks("ANY", "*")  # what providers may be does not count
    port = server.origin.rpartition(":")[2]
    assert_refused(api, upstream, f"http://{host}:{port}/a.png", "its address leads to no public host")
    assert not server.received


def test_a_name_that_leads_to_a_private_address_is_not_connected_to(api, upstream, server, settings, monkeypatch):
    settings.PRIVATE_IMAGES = []
    settings.PRIVATE_UPSTREAMS = networks("ANY", "*")
    resolve = gevent.socket.getaddrinfo
    monkeypatch.setattr(gevent.socket, "getaddrinfo", lambda host, *given, **named: resolve("127.0.0.1", *given, **named))
    port = server.origin.rpartition(":")[2]
    assert_refused(api, upstream, f"http://images.example.org:{port}/", "its address leads to no public host")
    assert not server.received


def test_a_redirect_is_followed(api, upstream, server):
    server.will(reply(status=302, Location="/b"), reply(status=307, Location=f"{server.origin}/c"), reply(PNG))
    assert ask(api, messages=conversation(server.origin)).status_code == 200
    assert [received.path for received in server.received] == ["/", "/b", "/c"]


def test_an_address_that_cannot_be_read_is_refused_also_after_a_redirect(api, upstream, server):
    for address in SENT:
        server.will(reply(status=302, Location=address.encode("ascii", "ignore").decode().replace("\x00", "")))
        for sent in (address, server.origin):
            assert ask(api, messages=conversation(sent)).status_code == 400, address
    assert not upstream.requests
    assert {each.settlement for each in Completion.objects.all()} == {"released"}
    assert {each.state for each in Hold.objects.all()} == {"RELEASED"}


@pytest.mark.parametrize("location", ["http://10.0.0.1/", "http://169.254.169.254/latest", "//192.168.0.1/a"])
def test_a_redirect_to_a_private_address_is_not_followed(api, upstream, server, settings, location):
    settings.PRIVATE_IMAGES = networks("LOCAL", "127.0.0.1")
    server.will(reply(status=302, Location=location))
    assert_refused(api, upstream, server.origin, "leads to no public host")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (reply(status=404), "its server answered 404"),
        (reply(status=500), "its server answered 500"),
        (reply(status=302, Location="/"), "its server answered 302"),
        (reply(status=302, Location="ftp://example.org/"), "is not https"),
        (reply(status=302, Location="file:///etc/passwd"), "is not https"),
        (reply(b"<html>", Content_Type="image/png"), "it is no PNG, JPEG, GIF or WebP image"),
        (reply(b"<svg xmlns='http://www.w3.org/2000/svg'/>", Content_Type="image/svg+xml"), "it is no PNG"),
        (reply(b""), "it is no PNG"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_image_is_refused(api, upstream, server, answer, why):
    server.will(answer)
    assert_refused(api, upstream, server.origin, why)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://user:secret@127.0.0.1/", "has a password"),
        ("http://", "leads to no public host"),
        ("http://127.0.0.1:99999/", "leads to no public host"),
        ("http://ex ample/", "leads to no public host"),
        ("http://127.0.0.1:9/", "there was no connection"),
    ],
)
def test_an_address_that_is_none_is_refused(api, upstream, address, why):
    assert_refused(api, upstream, address, why)


def test_images_of_a_request_are_bounded_together(api, upstream, server, settings):
    one, two = f"{server.origin}/1", f"{server.origin}/2"
    server.will(reply(PNG + bytes(1_000)))
    settings.REQUEST_BYTES_MAX = 2 * (len(PNG) + 1_000)
    assert ask(api, messages=conversation(one, two)).status_code == 200
    server.will(reply(PNG + bytes(1_000)), reply(PNG + bytes(1_001)))
    refused = ask(api, messages=conversation(one, two))
    error = assert_error(refused, 400, "invalid_request_error", "messages[0].content[2].image_url.url")
    assert f"the images of a request may have {2 * (len(PNG) + 1_000)} bytes" in error["message"]
    assert len(upstream.requests) == 1
    assert not Hold.objects.filter(state="HELD").exists()


def test_a_server_that_is_slow_is_not_waited_for(api, upstream, server, monkeypatch):
    monkeypatch.setattr(image_fetches, "REQUEST_SECONDS_MAX", 0.05)
    server.will(reply(PNG, seconds_between_bytes=0.05))
    assert_refused(api, upstream, server.origin, "in time")


def test_images_by_address_are_refused_where_the_operator_forbids_it(api, upstream, server, settings):
    settings.FETCH_IMAGES = False
    before = everything_written()
    error = assert_error(ask(api, messages=conversation(server.origin)), 400, "invalid_request_error", PATH)
    assert "images are not fetched" in error["message"]
    assert everything_written() == before
    assert not server.received


def test_images_of_too_many_bytes_in_flight_are_refused(api, upstream, server, settings):
    settings.ACCOUNT_BYTES_IN_FLIGHT_MAX = 1_000
    assert ask(api, messages=conversation(server.origin)).status_code == 429
    assert not upstream.requests + server.received
    assert_nothing_kept()
