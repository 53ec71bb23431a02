"""A path that does not exist is a 404 that says what to set or use instead. No request is redirected."""

from typing import Any

import pytest

from tests import chat
from tests.conftest import client_for

HERE = "http://testserver"
API, BASE = "api.example.org", "example.org"
CHAT_ONLY = f"only chat completions, messages and responses: POST {HERE}/v1/chat/completions."
SET_BASE_URL = f"Set base_url to {HERE}/v1, so that the request goes to {HERE}/v1/"


def told(path, method="POST", host="testserver", secret=None, **headers):
    """Return the message of the 404."""
    client: Any = client_for(secret)
    reply = client.generic(method, path, chat.body(), content_type="application/json", HTTP_HOST=host, **headers)
    assert "location" not in reply
    return chat.assert_error(reply, 404, "invalid_request_error")["message"]


@pytest.fixture
def two_addresses(settings):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = API, BASE
    settings.ALLOWED_HOSTS = [API, BASE, "other.example.org"]


@pytest.fixture(autouse=True)
def _no_query(db, django_assert_num_queries):
    with django_assert_num_queries(0):
        yield


@pytest.mark.parametrize(
    "path",
    [
        "/chat/completions",
        "/v1/v1/chat/completions",
        "/v1/chat/completions/chat/completions",
        "/api/v1/chat/completions",
        "/openai/v1/chat/completions/",
    ],
)
def test_a_wrong_base_url_for_completions_is_told_the_right_one(path):
    assert told(path) == f"Path not found. {SET_BASE_URL}chat/completions."


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/responses", "responses"),
        ("/quote", "quote"),
        ("/openai/v1/responses/quote", "responses/quote"),
        ("/v1/v1/models", "models"),
        ("/usage", "usage"),
    ],
)
def test_a_wrong_base_url_for_another_endpoint_is_told_the_right_one(path, endpoint):
    assert told(path, "GET") == f"Path not found. {SET_BASE_URL}{endpoint}."


@pytest.mark.parametrize("header", [{"HTTP_AUTHORIZATION": "Bearer mgw_live_wrong"}, {"HTTP_X_API_KEY": "mgw_live_wrong"}])
def test_a_client_with_a_key_gets_no_page_of_models(header):
    assert told("/models", "GET", **header) == f"Path not found. {SET_BASE_URL}models."


@pytest.mark.parametrize("path", ["/v1/v1/messages", "/messages", "/anthropic/v1/messages/count_tokens", "/messages/quote"])
def test_a_wrong_base_url_for_messages_is_told_the_right_one_without_the_version(path):
    endpoint = path[path.index("messages") :]
    set_url = f"Set base_url to {HERE}, so that the request goes to {HERE}/v1/{endpoint}."
    assert told(path) == f"Path not found. {set_url}"


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "/v1//chat/completions"])
def test_a_slash_too_many_is_named(path):
    right = f"{HERE}/v1/chat/completions"
    assert told(path) == f"Path not found: it has a slash too many. Send the request to {right}."


# A path of another API -> what the gateway has not, and words of what there is instead.
MISSING = {
    "/v1/completions": ("text completions", "as a message of the user"),
    "/completions": ("text completions", "as a message of the user"),
    "/v1/engines/davinci/completions": ("engines", "in the body"),
    "/v1/images/generations": ("endpoints for images", "image_support"),
    "/v1/audio/speech": ("endpoints for audio", "input_audio"),
    "/v1/videos": ("endpoints for videos", ""),
    "/v1/files": ("files", "file_data"),
    "/v1/files/file-1/content": ("files", "file_data"),
    "/openai/v1/files": ("files", "file_data"),
    "/v1/uploads/upload_1/parts": ("uploads", "file_data"),
    "/v1/batches": ("batches", "background: true"),
    "/v1/batches/batch_1/cancel": ("batches", "background: true"),
    "/v1/messages/batches": ("batches", "by itself"),
    "/v1/vector_stores/vs_1/files": ("vector stores", f"{HERE}/v1/embeddings"),
    "/v1/assistants": ("assistants", "previous_response_id"),
    "/v1/threads/thread_1/messages": ("threads", "previous_response_id"),
    "/v1/threads/thread_1/runs": ("threads", "previous_response_id"),
    "/v1/conversations/conv_1/items": ("stored conversations", "previous_response_id"),
    "/v1/realtime/sessions": ("realtime sessions", "stream: true"),
    "/v1/moderations": ("moderations", "moderation"),
    "/v1/fine_tuning/jobs": ("fine-tuning", ""),
    "/v1/evals": ("evals", ""),
    "/v1/containers/cntr_1": ("containers", "at the caller"),
    "/v1/organization/usage/completions": ("administration of this path", f"{HERE}/v1/usage"),
    "/api/v1/credits": ("credits of this path", f"{HERE}/v1/usage"),
    "/v1/rerank": ("reranking", f"{HERE}/v1/embeddings"),
}


@pytest.mark.parametrize("path", MISSING)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_endpoint_that_the_gateway_does_not_have_is_told_what_there_is_instead(path, method):
    name, instead = MISSING[path]
    message = told(path, method)
    assert message.startswith(f"The gateway has no {name}, {CHAT_ONLY}")
    assert instead in message.removeprefix(f"The gateway has no {name}, {CHAT_ONLY}")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("rest", ["chatcmpl-1", "chatcmpl-1/", "chatcmpl-1/messages"])
def test_a_stored_chat_completion_is_told_where_its_cost_and_where_stored_replies_are(method, rest):
    assert told(f"/v1/chat/completions/{rest}", method) == (
        f"Chat completions are not stored. GET {HERE}/v1/completions/{{id}} tells what one cost; "
        f"{HERE}/v1/responses stores replies."
    )


@pytest.mark.parametrize("path", ["/responses/resp_1", "/v1/responses/resp_1/nowhere"])
def test_a_stored_response_at_a_wrong_path_is_told_the_right_one(path):
    assert told(path, "GET") == f"Path not found. Responses are at {HERE}/v1/responses and {HERE}/v1/responses/{{id}}."


@pytest.mark.parametrize("path", ["/v1/", "/v1/chat", "/v1/v1", "/v1/nowhere"])
def test_other_paths_under_v1_are_told_which_there_are(path):
    assert (
        told(path) == f"Path not found. The paths of {HERE}/v1 are /chat/completions, /messages,"
        " /messages/count_tokens, /responses, /responses/compact, /responses/input_tokens,"
        " /embeddings, /messages/quote, /responses/quote, /quote, /models, /usage, /key,"
        " /generation."
    )


def test_a_single_model_at_a_wrong_path_is_told_the_right_one():
    message = f"Path not found. Models are at {HERE}/v1/models and {HERE}/v1/models/{{id}}."
    assert told("/models/demo/echo", "GET", HTTP_AUTHORIZATION="Bearer mgw_live_wrong") == message


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/billing/balance", "/api/billing/balance"),
        ("/v1/billing/balance", "/api/billing/balance"),
        ("/v1/api/billing/ledger", "/api/billing/ledger"),
    ],
)
def test_an_endpoint_of_the_base_address_is_told_its_path(path, right):
    assert told(path, "GET") == f"Path not found. Send the request to {HERE}{right}."


@pytest.mark.parametrize("path", ["/api/chat", "/api/keys/key_1/x", "/api/files"])
def test_other_paths_under_api_are_told_where_all_are_described(path):
    assert told(path) == f"Path not found. All paths are described at {HERE}/api/openapi.json."


def test_any_other_path_is_told_nothing_more():
    assert told("/nowhere") == "Path not found."


@pytest.mark.usefixtures("two_addresses")
@pytest.mark.parametrize("host", [BASE, "other.example.org"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions", "/v1/v1/chat/completions"])
def test_completions_at_the_wrong_host_are_told_the_right_one(host, path):
    right = f"http://{API}/v1"
    assert f"Set base_url to {right}, so that the request goes to {right}/chat/completions." in told(path, host=host)


@pytest.mark.usefixtures("two_addresses")
@pytest.mark.parametrize("host", [API, "other.example.org"])
def test_the_api_of_the_base_address_at_the_wrong_host_is_told_the_right_one(host):
    assert f"Send the request to http://{BASE}/api/billing/balance." in told("/api/billing/balance", "GET", host)
    assert f"at http://{BASE}/api/openapi.json." in told("/api/nowhere", "GET", host)
    assert f"http://{API} serves /v1; the dashboard, the rankings and /api are at http://{BASE}." in told("/", "GET", host)


@pytest.mark.usefixtures("two_addresses")
def test_the_address_has_the_scheme_by_which_it_is_reached(settings):
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    message = told("/chat/completions", host=API, HTTP_X_FORWARDED_PROTO="https")
    assert f"Set base_url to https://{API}/v1," in message


@pytest.mark.parametrize("secret", [None, "mgw_live_wrong"])
def test_a_caller_without_a_valid_key_is_told_the_same(secret):
    assert told("/v1/files", secret=secret).startswith(f"The gateway has no files, {CHAT_ONLY}")


def test_nothing_of_the_path_is_repeated():
    for path in ("/v1/<script>alert(1)</script>", "/<b>/chat/completions", "/v1/files/%0d%0aset-cookie:x"):
        message = told(path)
        assert not {"<", "script", "set-cookie", "\n"} & set(message.split() + list(message))
