"""Google's access keys: for a service account, a workload with an identity of its own, and a machine of Google Cloud."""

import json
import time

import pytest
from google.auth.compute_engine import _metadata

from completions.models import Completion
from completions.providers.access import google
from tests.chat import assert_error
from tests.completions.providers.access import google_servers
from tests.completions.rows import ask, assert_charged
from tests.upstream import refusal, whole

TABLE = 'kind = "openai"\nbase_url = "{}"\nauth = {{ type = "google"{} }}'


@pytest.fixture
def _checked(upstream, keys):
    """The provider accepts what the token server issued, for as long as it is good."""
    upstream.will_answer(
        lambda received: whole() if keys.accepts(received.headers["authorization"]) else refusal(401, "expired")
    )


@pytest.fixture
def account(api, cloud, keys, load, monkeypatch, upstream):
    """The provider is shown the access keys of a service account, whose JSON is in the environment."""
    cloud.answer = google_servers.answer_assertions(keys)
    monkeypatch.setenv("VERTEX_ACCOUNT", google_servers.service_account(f"{cloud.url}/token"))
    load(cloud=TABLE.format(upstream.url, ', env = "VERTEX_ACCOUNT"'))


@pytest.mark.usefixtures("_checked", "account")
def test_a_service_account_signs_for_its_access_key(api, alice, cloud, keys, upstream):
    assert ask(api).status_code == 200
    assert upstream.requests[0].headers["authorization"] == f"Bearer {keys.issued[0]}"
    assert (len(cloud.asked), keys.refusals) == (1, 0)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.usefixtures("_checked")
def test_a_workload_exchanges_its_own_key_for_one_of_google(api, alice, cloud, keys, load, monkeypatch, tmp_path, upstream):
    cloud.answer = google_servers.answer_exchanges(keys)
    (tmp_path / "subject").write_text(google_servers.SUBJECT_SECRET)
    file = tmp_path / "identity.json"
    file.write_text(google_servers.workload_identity(f"{cloud.url}/v1/token", str(tmp_path / "subject")))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    load(cloud=TABLE.format(upstream.url, ""))
    assert ask(api).status_code == 200
    assert [asked.form["subject_token"] for asked in cloud.asked] == [google_servers.SUBJECT_SECRET]
    assert upstream.requests[0].headers["authorization"] == f"Bearer {keys.issued[0]}"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.usefixtures("_checked")
def test_a_machine_of_google_has_its_key_from_the_metadata_server(
    api, alice, cloud, keys, load, monkeypatch, tmp_path, upstream
):
    cloud.answer = google_servers.answer_metadata(keys)
    host = cloud.url.removeprefix("http://")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))  # no account of a developer
    monkeypatch.setenv("GCE_METADATA_IP", host)
    monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", host)  # read from GCE_METADATA_HOST when it is imported
    load(cloud=TABLE.format(upstream.url, ""))
    assert ask(api).status_code == 200, cloud.asked
    assert upstream.requests[0].headers["authorization"] == f"Bearer {keys.issued[0]}"
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=57_000)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"private_key": google_servers.another_key()}, "invalid_grant: Invalid JWT Signature."),
        ({"private_key": "garbage"}, "Unable to load PEM file"),
        ({"client_email": ""}, "missing fields client_email"),
    ],
    ids=["another account's", "garbage", "incomplete"],
)
def test_what_is_wrong_with_a_service_account_is_told_without_it(api, account, monkeypatch, cloud, changed, words, said):
    stored = google_servers.service_account(f"{cloud.url}/token", **changed)
    if changed.get("client_email") == "":
        stored = json.dumps({name: value for name, value in json.loads(stored).items() if name != "client_email"})
    monkeypatch.setenv("VERTEX_ACCOUNT", stored)
    answer = ask(api)
    assert_error(answer, 503, "upstream_error")
    [failed] = Completion.objects.get().failed_attempts
    assert failed["status"] is None
    assert words in failed["reason"]
    lines = json.loads(stored)["private_key"].splitlines()[1:-1]
    assert not [line for line in lines if line in said.text + failed["reason"] + answer.content.decode()]


def test_a_clock_that_is_wrong_is_told_by_google(api, account, monkeypatch, said):
    google_servers.clock.ahead_seconds = 600
    try:
        ask(api)
    finally:
        google_servers.clock.ahead_seconds = 0
    [failed] = Completion.objects.get().failed_attempts
    assert "Check your iat and exp values in the JWT claim." in failed["reason"]


@pytest.mark.usefixtures("_checked")
def test_claude_is_shown_the_key_instead_of_its_own_header(api, alice, cloud, keys, load, monkeypatch, upstream):
    cloud.answer = google_servers.answer_assertions(keys)
    monkeypatch.setenv("VERTEX_ACCOUNT", google_servers.service_account(f"{cloud.url}/token"))
    load(cloud=TABLE.format(upstream.url, ', env = "VERTEX_ACCOUNT"').replace('"openai"', '"anthropic"'))
    ask(api)
    sent = upstream.requests[0].headers
    assert (sent["authorization"], "x-api-key" in sent) == (f"Bearer {keys.issued[0]}", False)


def test_a_key_is_good_until_google_says(cloud, keys):
    keys.seconds = 1_000
    cloud.answer = google_servers.answer_assertions(keys)
    fetch = google.make_fetch({"type": "google"}, google_servers.service_account(f"{cloud.url}/token"))
    began_at = time.monotonic()
    fetched = fetch()
    assert fetched.proof.secrets == (keys.issued[0],)
    assert 1_000 - (time.monotonic() - began_at) - 1 <= fetched.good_seconds <= 1_000
    assert fetched.renewed_after_seconds == fetched.good_seconds - 300
    assert fetch().proof.secrets == (keys.issued[1],)
