"""Encryption keys are rotated as docs/operating/deploying.md says, and no reply and no provider's key is lost on any host."""

import io
import json
import re
from pathlib import Path

import pytest
from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.test import RequestFactory

from billing.alerts import endpoints
from billing.ledger import audit
from billing.models import LedgerEntry, WebhookEndpoint
from completions.charging import stored_responses
from completions.management.commands import reencrypt_secrets
from completions.models import IdempotentRequest, Provider, StoredResponse
from gateway_project import secretbox
from keys import management_keys
from tests import chat, second_factors
from tests.conftest import client_for
from tests.faults import fault

PAGE = (Path(__file__).parents[3] / "docs" / "operating" / "deploying.md").read_text()
NAME, MANAGE = "GATEWAY_ENCRYPTION_KEYS=", "model-gateway "


def documented_steps() -> list[str]:
    section = PAGE.partition("### Encryption keys\n")[2].partition("\n### ")[0]
    return re.findall(r"^    (\S.*?) +# \d\. ", section, re.M)


OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


@pytest.fixture(autouse=True)
def _encrypted_with_the_old_key(settings, tmp_path, echo_model):
    """The model's provider has a stored key, without which it is not asked."""
    settings.ENCRYPTION_KEYS = [OLD]
    settings.OUTBOX_DIR = tmp_path
    provider = Provider.objects.get()
    provider.seal_api_key("sk-1")
    provider.save()


def ask(api, key):
    reply = chat.send(api, chat.body(), HTTP_IDEMPOTENCY_KEY=key)
    assert reply.status_code == 200, reply.content
    return reply.json()["id"]


def run(*arguments):
    printed = io.StringIO()
    call_command(*arguments, stdout=printed, stderr=io.StringIO())
    return printed.getvalue()


def reencrypt():
    return json.loads(run("reencrypt_secrets", "--json"))


@fault(
    "Deployment",
    "Secrets are rotated over several hosts, one after another",
    "No request fails on any host",
)
def test_the_documented_rotation_loses_nothing_on_any_host(api, alice, settings):
    """After each step every host replays what any host stored, also where the other hosts do not have the new setting yet."""
    steps = documented_steps()
    asked = {"before": ask(api, "before")}
    for number, step in enumerate(steps):
        earlier = settings.ENCRYPTION_KEYS
        if step.startswith(NAME):
            settings.ENCRYPTION_KEYS = [{"OLD": OLD, "NEW": NEW}[name] for name in step.removeprefix(NAME).split(",")]
        else:
            assert step.startswith(MANAGE)
            run(*step.removeprefix(MANAGE).split())
        current = settings.ENCRYPTION_KEYS
        asked[f"step {number}"] = ask(api, f"step {number}")
        for keys in (earlier, current):
            settings.ENCRYPTION_KEYS = keys
            assert {key: ask(api, key) for key in asked} == asked
    assert settings.ENCRYPTION_KEYS == [NEW]
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == len(asked) == len(steps) + 1
    assert audit.verify(alice.pk) == []


def test_a_repetition_finds_nothing_left_to_encrypt(api, settings):
    ask(api, "a")
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    before = IdempotentRequest.objects.get()
    none = {"unreadable": 0, "changedMeanwhile": 0, "waitingInOutbox": 0, "deadLetters": 0}
    assert reencrypt() == {"reencrypted": 2, "current": 0, **none}
    after = IdempotentRequest.objects.get()
    assert (after.sealed_reply == before.sealed_reply, len(after.sealed_reply)) == (False, before.reply_bytes)
    assert reencrypt() == {"reencrypted": 0, "current": 2, **none}
    assert IdempotentRequest.objects.get().sealed_reply == after.sealed_reply


def test_second_factors_are_encrypted_with_the_first_key(alice, settings):
    second_factors.give_app(alice.members.get())
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    assert reencrypt()["reencrypted"] == 2
    settings.ENCRYPTION_KEYS = [NEW]
    assert Authenticator.objects.get().wrap().validate_code(second_factors.code())
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(CommandError, match="2 cannot be decrypted"):
        reencrypt()


def test_secrets_of_webhooks_are_encrypted_with_the_first_key(alice, settings):
    request = RequestFactory().get("/")
    request.user = alice.members.get()
    endpoint, old = endpoints.make(request, alice, "https://example.org/")
    new = endpoints.rotate(request, endpoint)
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    assert [reencrypt()["reencrypted"] for _ in range(2)] == [2, 0]
    settings.ENCRYPTION_KEYS = [NEW]
    assert endpoints.read_secrets(WebhookEndpoint.objects.get()) == [new, old]
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(CommandError, match="2 cannot be decrypted"):
        reencrypt()


def test_more_replies_than_a_batch_has_are_all_encrypted(api, settings, monkeypatch):
    monkeypatch.setattr(reencrypt_secrets, "_BATCH_ROWS", 2)
    ids = {key: ask(api, key) for key in "abcde"}
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    assert reencrypt()["reencrypted"] == 1 + len(ids)
    settings.ENCRYPTION_KEYS = [NEW]
    assert {key: ask(api, key) for key in ids} == ids


def test_stored_responses_are_encrypted_with_the_first_key(api, settings):
    made = api.post("/v1/responses", {"model": "demo/echo", "input": "Hello"}).json()
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    before = StoredResponse.objects.get()
    assert [reencrypt()["reencrypted"] for _ in range(2)] == [2, 0]
    after = StoredResponse.objects.get()
    for name in stored_responses.TEXTS:
        assert getattr(after, name) != getattr(before, name)
    settings.ENCRYPTION_KEYS = [NEW]
    assert api.get(f"/v1/responses/{made['id']}").json() == made
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(CommandError, match="2 cannot be decrypted"):
        reencrypt()


def test_replies_to_management_keys_are_encrypted_too(alice, settings):
    _, minted = management_keys.issue(alice, name="terraform", created_by=alice.members.get())

    def make():
        return client_for(minted).post("/api/keys", {"name": "build"}, headers={"idempotency-key": "a"}).json()

    made = make()
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    reencrypt()
    settings.ENCRYPTION_KEYS = [NEW]
    assert make() == made


def test_what_cannot_be_decrypted_is_reported_and_left_as_it_is(api, settings):
    ask(api, "a")
    sealed = IdempotentRequest.objects.get().sealed_reply
    settings.ENCRYPTION_KEYS = [NEW]
    with pytest.raises(CommandError, match=r"^2 cannot be decrypted with any of GATEWAY_ENCRYPTION_KEYS\.$"):
        run("reencrypt_secrets")
    assert IdempotentRequest.objects.get().sealed_reply == sealed


def test_what_is_written_meanwhile_is_left_and_reported(settings, monkeypatch):
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    encrypt_again = secretbox.reencrypt

    def write_meanwhile(sealed):
        Provider.objects.update(sealed_api_key="another")
        return encrypt_again(sealed)

    monkeypatch.setattr(secretbox, "reencrypt", write_meanwhile)
    with pytest.raises(CommandError, match=r"^1 were written meanwhile: repeat this\.$"):
        run("reencrypt_secrets")
    assert Provider.objects.get().sealed_api_key == "another"


@pytest.mark.parametrize("name", ["chatcmpl-1.json", "chatcmpl-1.dead"])
def test_settlements_on_disk_are_reported(settings, name):
    (settings.OUTBOX_DIR / name).write_text("{}")
    with pytest.raises(CommandError, match="drain it and repeat this, on every host"):
        run("reencrypt_secrets")


def test_a_key_that_its_provider_refused_stays_refused(settings):
    provider = Provider.objects.get()
    Provider.objects.update(refused_key=provider.key_fingerprint)
    settings.ENCRYPTION_KEYS = [NEW, OLD]
    reencrypt()
    provider = Provider.objects.get()
    assert (provider.is_key_refused, provider.read_api_key()) == (True, "sk-1")
