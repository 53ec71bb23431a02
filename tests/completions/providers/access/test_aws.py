"""Requests that are signed for AWS, against a server on loopback that recomputes each signature."""

import pytest

from completions.models import Completion, Provider
from tests.chat import assert_error
from tests.completions.providers.access import aws_servers
from tests.completions.providers.access.aws_servers import CONTAINER_SECRET, Bedrock
from tests.completions.rows import ask, ask_streamed, assert_charged, assert_released, events, text

AUTH = '{ type = "aws", region = "eu-central-1", service = "bedrock" }'


@pytest.fixture
def bedrock(upstream):
    server = Bedrock()
    upstream.will_answer(server.answer)
    return server


@pytest.fixture
def _keys_in_environment(monkeypatch, bedrock):
    bedrock.accounts = {"AKIAENVIRONMENT00000": ("secret/of+the=environment", "")}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT00000")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret/of+the=environment")


@pytest.fixture
def container(monkeypatch, bedrock, cloud):
    """The server of a container's credentials, which Bedrock accepts."""
    bedrock.accounts = aws_servers.account("ASIACONTAINER0000001")
    cloud.answer = aws_servers.answer_container(lambda: aws_servers.session("ASIACONTAINER0000001"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{cloud.url}/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", CONTAINER_SECRET)
    return cloud


@pytest.fixture
def served(api, load, upstream):
    load(cloud=f'kind = "openai"\nbase_url = "{upstream.url}"\nauth = {AUTH}')


@pytest.mark.usefixtures("_keys_in_environment", "served")
def test_a_request_is_signed_with_the_keys_of_the_environment(api, alice, bedrock, upstream):
    assert ask(api).status_code == 200
    assert len(bedrock.signatures) == 1
    assert "x-amz-security-token" not in upstream.requests[0].headers
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_stream_is_signed_with_the_session_of_a_container(api, alice, bedrock, container, served, upstream):
    assert text(events(ask_streamed(api))) == "Hello you"
    assert [asked.headers["authorization"] for asked in container.asked] == [CONTAINER_SECRET]
    assert upstream.requests[0].headers["x-amz-security-token"] == aws_servers.session_of("ASIACONTAINER0000001")
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.usefixtures("_keys_in_environment")
def test_names_of_models_in_a_path_are_quoted_as_aws_expects(api, bedrock, load, upstream):
    paths = 'paths = { chat = "/model/{model}/chat@v1?b=2%20" }\nquery = { a = "1: 2/3" }'
    load(cloud=f'kind = "openai"\nbase_url = "{upstream.url}"\nauth = {AUTH}\n{paths}')
    route = Provider.objects.get().routes.get()
    route.upstream_model = "anthropic.claude-v1:0/é@001"
    route.save()
    assert ask(api).status_code == 200, ask(api).content
    assert upstream.requests[0].path.startswith("/v1/model/anthropic.claude-v1%3A0%2F%C3%A9@001/chat@v1?b=2%20&a=1%3A%202%2F3")
    assert len(bedrock.signatures) == 1


@pytest.mark.usefixtures("_keys_in_environment", "served")
def test_the_bytes_that_are_sent_are_signed_again_for_each_attempt(api, alice, bedrock, upstream):
    bedrock.failures = [503]
    assert ask(api, max_tokens=17).status_code == 200
    first, second = upstream.requests
    assert first.raw == second.raw
    assert len(bedrock.signatures) == 2  # both right
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
    assert Completion.objects.get().attempts == 2


@pytest.mark.usefixtures("_keys_in_environment")
def test_a_failover_is_signed_for_the_other_region(api, alice, bedrock, load, upstream, spare):
    other = Bedrock(region="us-east-1", accounts=bedrock.accounts)
    spare.will_answer(other.answer)
    bedrock.failures = [500, 500]
    table = 'kind = "openai"\nbase_url = "{}"\nauth = {{ type = "aws", region = "{}", service = "bedrock" }}'
    load(cloud=table.format(upstream.url, "eu-central-1"), spare=table.format(spare.url, "us-east-1"))
    answer = ask(api)
    assert (answer.status_code, answer["x-gateway-provider"]) == (200, "spare")
    assert (len(bedrock.signatures), len(other.signatures)) == (1, 1)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


WRONG = [
    ({"region": "us-west-2"}, "Credential should be scoped to a valid region. (signed for bedrock in eu-central-1)"),
    (
        {"service": "bedrock-mantle"},
        "Credential should be scoped to correct service: '...'. (signed for bedrock in eu-central-1)",
    ),
    ({"ahead_seconds": 600}, "(the clock of this host is 10 minutes behind the provider's)"),
    ({"ahead_seconds": -600}, "(the clock of this host is 10 minutes ahead of the provider's)"),
    ({"accounts": {"AKIAENVIRONMENT00000": ("another", "")}}, "The request signature we calculated does not match"),
    ({"accounts": {}}, "The security token included in the request is invalid."),
    ({"expired": {"AKIAENVIRONMENT00000"}}, "The security token included in the request is expired"),
]


@pytest.mark.usefixtures("_keys_in_environment", "served")
@pytest.mark.parametrize(("wrong", "words"), WRONG, ids=[*("region", "service", "behind", "ahead", "secret", "key", "expired")])
def test_what_is_wrong_is_told_to_staff_and_not_to_the_caller(api, alice, bedrock, wrong, words, said):
    for name, value in wrong.items():
        setattr(bedrock, name, value)
    answer = ask(api)
    error = assert_error(answer, 502, "upstream_error")
    assert not {"signature", "credential", "region", "clock"} & set(error["message"].lower().split())
    [failed] = Completion.objects.get().failed_attempts
    assert words in failed["reason"]
    assert "secret/of" not in said.text + str(failed) + answer.content.decode()
    assert_released(alice)


def test_what_aws_repeats_of_a_session_is_kept_nowhere(api, bedrock, container, served, said):
    session = aws_servers.session_of("ASIACONTAINER0000001")
    bedrock.message = f"The Canonical String for this request should have been 'POST x-amz-security-token:{session} signature"
    bedrock.ahead_seconds = 600
    answer = ask(api)
    [failed] = Completion.objects.get().failed_attempts
    assert failed["reason"].startswith(
        "The Canonical String for this request should have been 'POST x-amz-security-token:*** sig"
    )
    assert session not in answer.content.decode() + said.text


def test_a_session_that_was_withdrawn_is_replaced_by_the_next_one(api, alice, bedrock, container, served):
    assert ask(api).status_code == 200
    bedrock.accounts = aws_servers.account("ASIACONTAINER0000002")
    container.answer = aws_servers.answer_container(lambda: aws_servers.session("ASIACONTAINER0000002"))
    answer = ask(api)
    assert (answer.status_code, answer["x-gateway-attempts"]) == (200, "2")
    assert len(bedrock.signatures) == 2


def test_a_key_of_bedrock_is_shown_as_it_is(api, alice, load, monkeypatch, upstream):
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "ABSK-a-key-of-bedrock")
    load(cloud=f'kind = "openai"\nbase_url = "{upstream.url}"\nauth = {{ type = "aws", env = "AWS_BEARER_TOKEN_BEDROCK" }}')
    assert ask(api).status_code == 200
    assert upstream.requests[0].headers["authorization"] == "Bearer ABSK-a-key-of-bedrock"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)
