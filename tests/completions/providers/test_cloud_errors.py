"""The errors of the clouds, in their own shapes: the status that the caller gets, the wait, and whether our key is refused."""

import json
from typing import Any

import pytest

from completions.providers import error_body, error_meanings
from tests import factories
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.rows import ask, assert_released
from tests.upstream import KEY_ENV, event, reply, stream

DEPLOYMENT = {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}}
AUDIENCE = {"statusCode": 401, "message": "Unauthorized. Access token is missing, invalid, audience is incorrect or expired."}
PERMISSION = (
    "Permission 'aiplatform.endpoints.predict' denied on resource '//x/publishers/anthropic/models/m' (or it may not exist)."
)
DISABLED = "Vertex AI API has not been used in project 1 before or it is disabled."
EXHAUSTED = [{"error": {"code": 429, "message": "Resource exhausted. Please try again later.", "status": "RESOURCE_EXHAUSTED"}}]
MISSING = "Publisher Model `projects/p/models/m` was not found or your project does not have access to it."
# kind, status, body, headers -> the caller's status
ERRORS: dict[str, tuple[str, int, Any, dict[str, str], int]] = {
    "Azure's access key": ("openai", 401, AUDIENCE, {}, 502),
    "Azure's deployment": ("openai", 404, DEPLOYMENT, {}, 502),
    "Bedrock's key": (
        "openai",
        403,
        {"Message": "Authentication failed: Please make sure your API Key is valid."},
        {"x_amzn_errortype": "AccessDeniedException"},
        502,
    ),
    "Bedrock's quota": (
        "anthropic",
        400,
        {"message": "Your request exceeds the service quota for your account."},
        {"x_amzn_errortype": "ServiceQuotaExceededException:http://internal.amazon.com/"},
        503,
    ),
    "Bedrock's model": ("openai", 429, {"message": "The model is not ready."}, {}, 503),
    "Bedrock's validation": (
        "anthropic",
        400,
        {"message": "quota is no member of ServiceQuotaExceededException"},
        {"x_amzn_errortype": "ValidationException"},
        400,
    ),
    "Vertex's permission": (
        "anthropic",
        403,
        [{"error": {"code": 403, "message": PERMISSION, "status": "PERMISSION_DENIED"}}],
        {},
        502,
    ),
    "Vertex's API": ("gemini", 403, {"error": {"code": 403, "message": DISABLED}}, {}, 502),
    "Vertex's model": ("anthropic", 404, [{"error": {"code": 404, "message": MISSING}}], {}, 502),
    "Vertex's rate": ("anthropic", 429, EXHAUSTED, {}, 503),
}


def make(kind: str, upstream: Any) -> None:
    provider = factories.make_provider("cloud", kind=kind, base_url=upstream.url.removesuffix("/v1"), api_key_env=KEY_ENV)
    factories.make_model("acme/large", provider=provider, upstream_model="m-1")


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("kind", "status", "body", "headers", "told"), ERRORS.values(), ids=ERRORS.keys())
def test_each_means_what_its_cloud_says(api, alice, upstream, settings, kind, status, body, headers, told, streaming):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    make(kind, upstream)
    upstream.will(reply(json.dumps(body).encode(), status=status, **headers))
    answer = ask(api, stream=streaming)
    assert answer.status_code == told
    assert_released(alice)


@pytest.mark.parametrize(("given", "told"), [("20000", "20"), ("20001", "21"), ("soon", None), ("-1", None)])
def test_azures_wait_in_milliseconds_is_passed_on_in_seconds(api, alice, upstream, settings, given, told):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    make("openai", upstream)
    upstream.will(reply(b'{"error": {"code": "429", "message": "Rate limit"}}', status=429, retry_after_ms=given))
    assert ask(api).headers.get("Retry-After", None) == told


def test_an_error_of_google_in_a_stream_has_its_own_status(api, alice, upstream, settings):
    settings.UPSTREAM_ATTEMPTS_MAX = 1
    make("anthropic", upstream)
    upstream.will(stream(event(EXHAUSTED)), reply(json.dumps(EXHAUSTED).encode()))
    assert [ask(api, stream=is_stream).status_code for is_stream in (True, True, False)] == [503, 503, 503]
    upstream.will(stream(claude.start(), claude.text("Hi"), event(EXHAUSTED)))
    assert b"RESOURCE_EXHAUSTED" not in (told := ask(api, stream=True).getvalue())
    assert b'"error"' in told


@pytest.mark.parametrize(
    "message",
    [
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key.",
        "Signature expired: 20261128T000000Z is now earlier than 20261128T000500Z (20261128T001000Z - 5 min.)",
        "Credential should be scoped to a valid region.",
        "Credential should be scoped to correct service: 'bedrock-mantle'.",
        "The security token included in the request is expired",
        "The security token included in the request is invalid",
        "Authentication failed: Please make sure your API Key is valid.",
        DISABLED,
    ],
)
def test_what_clouds_say_of_credentials_is_about_ours(message):
    for name in ("message", "Message"):
        body = json.dumps({name: message})
        assert error_body.parse(body.encode()).reason == message
        assert error_meanings.is_about_key(403, body)


@pytest.mark.parametrize(
    "message",
    [
        "You don't have access to the model with the specified model ID.",
        "User: arn:aws:sts::1:x is not authorized to perform: bedrock:InvokeModel because no identity-based policy allows it",
    ],
)
def test_what_they_say_of_one_model_is_not(message):
    assert not error_meanings.is_about_key(403, json.dumps({"Message": message}))
