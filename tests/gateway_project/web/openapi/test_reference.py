"""The API reference at /docs/reference: what it shows of the OpenAPI description, and how it is found."""

import html
import re

import pytest
from django.template.loader import render_to_string

from gateway_project import errors
from gateway_project.web import public_page
from gateway_project.web.openapi import reference, specification
from tests.conftest import client_for
from tests.gateway_project.web.openapi.operations import OPERATIONS
from tests.shown_code import uncoloured


@pytest.fixture(autouse=True)
def _empty_caches():
    for forget in (public_page.forget, reference.read_operations.cache_clear, specification._rendered_document.cache_clear):
        forget()
    yield
    public_page.forget()


def source(path="/docs/reference", **headers):
    reply = client_for(None).get(path, **headers)
    assert reply.status_code == 200
    return reply.content.decode()


def text(path="/docs/reference", **headers):
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", uncoloured(source(path, **headers))).split()))


def whole_text(**headers):
    """Return what the pages of all operations show."""
    operations = reference.read_operations("http://api.test", "http://test")
    return " ".join(text(f"/docs/reference/{each.id}", **headers) for each in operations)


def test_every_operation_is_shown_with_an_example():
    shown, whole = text(), whole_text()
    for path, method in OPERATIONS:
        assert f"{method.upper()} {path} " in shown
        assert f"{method.upper()} {path} " in whole
    operations = reference.read_operations("http://api.test", "http://test")
    assert {each.path for each in operations} == {path for path, _ in OPERATIONS}
    for each in operations:
        assert each.curl.startswith(("curl http", 'curl "http'))
        assert "{" not in each.curl.partition(" -d ")[0], each.id  # every parameter of the path has an example
        assert all(reply.example for reply in each.replies)


def test_the_examples_of_management_take_its_key():
    operations = {each.id: each for each in reference.read_operations("http://api.test", "http://test")}
    assert "Bearer $GATEWAY_MANAGEMENT_KEY" in operations["createKey"].curl
    assert operations["exportUsage"].curl.count("Authorization") == 1  # which takes either
    assert operations["updateKey"].curl.startswith("curl http://test/api/keys/0352")
    assert "-X PATCH" in operations["updateKey"].curl
    assert "-X POST" in operations["pauseKey"].curl


def test_fields_show_their_type_their_bounds_and_where_they_stand():
    shown = whole_text()
    assert "temperature number, 0 to 2 or null" in shown
    assert "model string, 1 to 200 characters · required" in shown
    assert "tools[].function.name string · required" in shown
    assert "limit in the address, integer, 1 to 100, default 10" in shown
    assert "x-gateway-cost string The cost in US dollars, exactly." in shown
    assert "reasoning_effort none, minimal, low, medium, high, xhigh, max or null" in shown


def test_alternatives_are_shown_as_one_field_of_each_name():
    operations = {each.id: each for each in reference.read_operations("http://api.test", "http://test")}
    fields = {each.name: each for each in operations["createMessage"].replies[0].fields}
    kinds = "text or thinking or redacted_thinking or tool_use or server_tool_use or web_search_tool_result"
    assert fields["content[].type"].kind == kinds
    assert (fields["content[].type"].is_required, fields["content[].text"].is_required) == (True, False)
    for each in operations.values():
        for reply in each.replies:
            assert len({field.name for field in reply.fields}) == len(reply.fields), (each.id, reply.kind)


def test_events_of_a_stream_are_shown_by_their_types():
    shown = whole_text()
    assert "response.output_text.delta event More text." in shown
    assert "message_start event The beginning of the message." in shown
    assert "choices[].delta.content string or null More text." in shown  # chunks have no types


def test_the_table_of_errors_has_every_code():
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.ApiError)]
    shown = re.findall(r'<dt><code>(\w+)</code></dt>\s+<dd>[^<]+<span class="small">Try again', source())
    assert set(shown) == {each.code for each in classes}


def test_examples_go_to_the_host_that_serves_them(settings):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = "api.example.org", "example.org"
    settings.ALLOWED_HOSTS = ["api.example.org", "example.org"]
    shown = whole_text(HTTP_HOST="example.org")
    assert "curl http://api.example.org/v1/chat/completions" in shown
    assert "curl http://example.org/api/billing/balance" in shown
    assert "http://api.example.org/api/" not in shown


def test_the_public_operation_is_shown_without_a_key():
    [rankings] = [each for each in reference.read_operations("http://api.test", "http://test") if each.is_public]
    assert rankings.curl == 'curl "http://test/api/rankings?limit=1"'


def test_a_search_leads_to_the_operations_and_fields_that_have_the_words():
    found = text("/docs/reference?q=Idempotency-KEY").partition("Basics Completions are at")[0]
    assert "Generate a reply POST /v1/chat/completions Idempotency-Key" in found
    assert "GET /v1/models" not in found
    assert "No operation matches." in text("/docs/reference?q=nothing-like-it")
    assert "<script>alert" not in source("/docs/reference?q=<script>alert(1)</script>")


def test_the_reference_is_the_same_for_everybody_and_may_be_stored():
    reply = client_for(None).get("/docs/reference")
    assert reply["Cache-Control"] == "public, max-age=60"
    assert not reply.cookies
    assert client_for(None).get("/docs?q=cost")["Location"] == "/docs/reference?q=cost"


def test_the_reference_is_rendered_once_and_a_search_renders_what_it_found(monkeypatch):
    rendered = []

    def render(template, context):
        rendered.append(context["words"])
        return render_to_string(template, context)

    monkeypatch.setattr(reference, "render_to_string", render)
    whole = [client_for(None).get("/docs/reference", {"unknown": str(number)}).content for number in range(3)]
    assert (rendered, len({*whole})) == ([""], 1)
    kept = len(public_page._pages), len(public_page._documents)
    found = [client_for(None).get("/docs/reference", {"q": words}).content for words in ("temperature", "temperature", "seed")]
    assert rendered == ["", "temperature", "temperature", "seed"]
    assert kept == (len(public_page._pages), len(public_page._documents))
    assert b"/docs/reference/createChatCompletion" in found[0]


def test_an_operation_has_a_page_with_its_required_fields_first():
    page = text("/docs/reference/createKey")
    assert "Create a key POST /api/keys" in page
    assert "Request body name string, 0 to 100 characters · required The name of the key. expiresAt" in page
    assert client_for(None).get("/docs/reference/nothing").status_code == 404


def test_code_has_elements_for_its_colours_and_stays_the_same_text():
    page = source("/docs/reference/createKey")
    assert '<span class="nt">"name"</span><span class="p">:</span>' in page
    assert """-d '{ "name": "ci", "spendingLimit": 500""" in text("/docs/reference/createKey")
