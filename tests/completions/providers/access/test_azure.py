"""Entra ID's access keys: for an application with a secret, and for the identity of an App Service."""

import pytest

from completions.models import Completion
from completions.providers.access import azure
from tests.chat import assert_error
from tests.completions.providers.access import azure_servers, servers
from tests.completions.providers.access.azure_servers import APPLICATION, APPLICATION_SECRET, IDENTITY_HEADER
from tests.completions.providers.access.servers import AccessKeys
from tests.completions.rows import ask, assert_charged
from tests.upstream import refusal, whole

TABLE = 'kind = "openai"\nbase_url = "{}"\nauth = {{ type = "azure"{} }}'
_VARIABLES = ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET", "FEDERATED_TOKEN_FILE", "AUTHORITY_HOST", "USERNAME")


@pytest.fixture
def keys() -> AccessKeys:
    return AccessKeys("eyJ0eXAi.")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in _VARIABLES:
        monkeypatch.delenv(f"AZURE_{name}", raising=False)


@pytest.fixture
def _checked(upstream, keys):
    upstream.will_answer(
        lambda received: whole() if keys.accepts(received.headers["authorization"]) else refusal(401, "expired")
    )


@pytest.fixture
def app_service(cloud, keys, monkeypatch):
    cloud.answer = azure_servers.answer_identity(keys)
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{cloud.url}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", IDENTITY_HEADER)
    return cloud


@pytest.mark.usefixtures("_checked")
def test_an_app_service_has_its_key_from_its_identity_endpoint(api, alice, app_service, keys, load, upstream):
    load(cloud=TABLE.format(upstream.url, ""))
    answer = ask(api)
    assert answer.status_code == 200, answer.content
    assert upstream.requests[0].headers["authorization"] == f"Bearer {keys.issued[0]}"
    assert (len(app_service.asked), keys.refusals) == (1, 0)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_each_fetch_asks_anew(app_service, keys):
    fetch = azure.make_fetch({"type": "azure"}, "")
    assert [fetch().proof.secrets for _ in range(2)] == [(keys.issued[0],), (keys.issued[1],)]
    assert 3_500 < fetch().good_seconds <= 3_600


@pytest.mark.parametrize(("auth", "asked_for"), [({}, "of-the-host"), ({"client_id": "of-the-file"}, "of-the-file")])
def test_one_of_several_identities_is_named_by_the_file_or_else_by_the_host(app_service, monkeypatch, auth, asked_for):
    monkeypatch.setenv("AZURE_CLIENT_ID", "of-the-host")
    azure.make_fetch({"type": "azure", **auth}, "")()
    assert app_service.asked[0].query["client_id"] == asked_for


def test_an_identity_that_is_refused_is_told(api, app_service, load, monkeypatch, upstream, said):
    monkeypatch.setenv("IDENTITY_HEADER", "of-another-app")
    load(cloud=TABLE.format(upstream.url, ""))
    answer = ask(api)
    assert_error(answer, 503, "upstream_error")
    [failed] = Completion.objects.get().failed_attempts
    assert "no such header" in failed["reason"]
    assert "of-another-app" not in said.text + answer.content.decode()


@pytest.fixture
def entra(keys, monkeypatch, tmp_path):
    """What gives applications their access keys, over TLS, as Microsoft's library wants it."""
    context, file = azure_servers.certificate(tmp_path)
    with servers.serving(context) as server:
        server.answer = azure_servers.answer_applications(keys, server.url)
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", server.url)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", file)
        yield server


AUTH = f', env = "AZURE_APP", tenant_id = "adfs", client_id = "{APPLICATION}"'


@pytest.mark.usefixtures("_checked")
def test_an_application_shows_its_secret_for_its_key(api, alice, entra, keys, load, monkeypatch, upstream):
    monkeypatch.setenv("AZURE_APP", APPLICATION_SECRET)
    load(cloud=TABLE.format(upstream.url, AUTH))
    answer = ask(api)
    assert answer.status_code == 200, answer.content
    assert upstream.requests[0].headers["authorization"] == f"Bearer {keys.issued[0]}"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


def test_a_wrong_secret_is_told_without_it(api, entra, load, monkeypatch, upstream, said):
    monkeypatch.setenv("AZURE_APP", "not~the.secret")
    load(cloud=TABLE.format(upstream.url, AUTH))
    answer = ask(api)
    assert_error(answer, 503, "upstream_error")
    [failed] = Completion.objects.get().failed_attempts
    assert "Invalid client secret provided" in failed["reason"]
    assert "not~the.secret" not in said.text + failed["reason"] + answer.content.decode()
    assert upstream.requests == []
