"""Pages of other origins, in a real Chromium, call a running gateway that allows one of them."""

import pytest

from tests import factories
from tests.live.gateway import wait_until_settled

# What openai's package sends from a browser with dangerouslyAllowBrowser, beside the key.
ASK = """async ([url, key, fields]) => {
  const headers = {"Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID(), "X-Stainless-Lang": "js",
                   "X-Stainless-Runtime": "browser:chrome", "X-Stainless-Retry-Count": "0", "X-Stainless-Timeout": "600"};
  if (key) headers["Authorization"] = "Bearer " + key;
  const body = JSON.stringify({model: "demo/echo", messages: [{role: "user", content: "one two three"}], ...fields});
  try {
    const reply = await fetch(url + "/v1/chat/completions", {method: "POST", headers, body});
    return {status: reply.status, headers: Object.fromEntries(reply.headers), text: await reply.text()};
  } catch (error) {
    return {error: String(error)};
  }
}"""
READ_TWICE = """async (url) => {
  const first = await fetch(url + "/api/rankings", {cache: "no-store"});
  const again = await fetch(url + "/api/rankings", {cache: "no-store", headers: {"If-None-Match": first.headers.get("etag")}});
  return [first.status, again.status, first.headers.get("link") !== null];
}"""


pytestmark = pytest.mark.usefixtures("echo_model")


def test_a_page_of_an_allowed_origin_completes_and_reads_every_header(gateway, alice, origins, chromium):
    secret = factories.make_key(alice, requests_per_minute=2)[1]
    with chromium.in_use() as browser:
        page = browser.new_page()
        page.goto(origins[0])
        whole, streamed, refused, unknown = (
            page.evaluate(ASK, [gateway.url, key, fields])
            for key, fields in [(secret, {}), (secret, {"stream": True}), (secret, {}), (None, {})]
        )
        rankings = page.evaluate(READ_TWICE, gateway.url)
        wait_until_settled(alice)
    assert (whole["status"], streamed["status"], refused["status"], unknown["status"]) == (200, 200, 429, 401)
    assert "one two three" in whole["text"]
    assert streamed["text"].endswith("data: [DONE]\n\n")
    assert "requests per minute" in refused["text"]
    assert "invalid_api_key" in unknown["text"]
    assert whole["headers"]["x-request-id"].startswith("req_")
    assert whole["headers"]["x-gateway-provider"] == "echo"
    assert whole["headers"]["x-ratelimit-remaining-requests"] == "1"
    assert int(refused["headers"]["retry-after"]) > 0
    assert rankings == [200, 304, True]


def test_a_page_of_another_origin_reads_only_what_is_public(gateway, alice, origins, chromium):
    secret = factories.make_key(alice)[1]
    with chromium.in_use() as browser:
        page = browser.new_page()
        page.goto(origins[1])
        assert "Failed to fetch" in page.evaluate(ASK, [gateway.url, secret, {}])["error"]
        assert page.evaluate(READ_TWICE, gateway.url) == [200, 304, True]
    assert not alice.holds.exists()
