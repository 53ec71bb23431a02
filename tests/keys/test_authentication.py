"""Authentication by ``Authorization: Bearer <API key>``, over HTTP."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import Account
from gateway_project import identifiers
from gateway_project.cache import TTLCache
from keys import authentication, lifecycle, secret
from keys.models import ApiKey
from tests import factories
from tests.conftest import client_for
from tests.monotonic_clock import use_clock

BALANCE = "/api/billing/balance"


def get(header=None):
    headers = {} if header is None else {"HTTP_AUTHORIZATION": header}
    return client_for(None).get(BALANCE, **headers)


def assert_refused(reply):
    assert reply.status_code == 401
    assert reply["WWW-Authenticate"] == "Bearer"
    error = reply.json()["error"]
    assert set(reply.json()) == {"error"}
    assert set(error) == {"message", "type", "code", "param"}
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_api_key", None)
    assert error["message"].startswith("Incorrect API key provided")  # LiteLLM knows an AuthenticationError by these words


@pytest.fixture(autouse=True)
def _no_identity_is_cached():
    authentication._callers.clear()
    authentication._failed_lookup_times.clear()


@pytest.fixture
def key(alice):
    return factories.make_key(alice)


def test_a_key_opens_its_account(key):
    reply = get(f"Bearer {key[1]}")
    assert reply.status_code == 200
    assert reply.json()["balanceInCents"] == 1000


@pytest.mark.parametrize(
    "written", ["bearer {}", "BEARER {}", "Bearer  {}", "Bearer\t{}", "bearer \t  {}", "Bearer {} ", "Bearer {}\t"]
)
def test_the_scheme_may_be_in_any_case_and_followed_by_any_blanks(key, written):
    assert get(written.format(key[1])).status_code == 200


def junk(real):
    unknown = secret.mint(identifiers.short_uuid7())
    return {
        "nothing": None,
        "an empty header": "",
        "no scheme": real,
        "another scheme": f"Basic {real}",
        "a scheme alone": "Bearer",
        "a scheme and a space": "Bearer ",
        "a key in two": f"Bearer {real[:20]} {real[20:]}",
        "two keys": f"Bearer {real}, Bearer {real}",
        "another product's key": "Bearer sk-proj-abcdefghijklmnopqrstuvwxyz0123456789",
        "one character mistyped": f"Bearer {real[:-1]}{'0' if real[-1] != '0' else '1'}",
        "a key cut short": f"Bearer {real[:-1]}",
        "another prefix": f"Bearer mgw_test_{real[9:]}",
        "a very long header": f"Bearer {unknown}{'x' * 100_000}",
        "a long scheme": f"{'b' * 250} {real}",
        "letters beyond ASCII": f"Bearer {real[:-1]}\u00e9",
        "digits beyond ASCII": f"Bearer {real[:-1]}\u0661",
        "a line break": f"Bearer {real}\n",
        "a NUL": f"Bearer {real}\x00",
        "quotes": f'Bearer "{real}"',
        "SQL": "Bearer ' OR 1=1 --",
    }


@pytest.mark.parametrize("what", junk(secret.mint("0" * 22)))
def test_a_malformed_key_is_refused_without_a_query(key, what, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert_refused(get(junk(key[1])[what]))


def test_a_request_without_a_key_gets_a_bearer_challenge():
    assert "Authorization: Bearer <API_KEY>" in get().json()["error"]["message"]


@pytest.mark.parametrize("what", ["another product's key", "one character mistyped", "no scheme"])
def test_the_message_for_a_wrong_key_says_where_to_get_one_and_shows_nothing_of_it(key, what):
    header = junk(key[1])[what]
    message = get(header).json()["error"]["message"]
    assert "dashboard's Keys page" in message
    assert "Authorization: Bearer <API_KEY>" in message
    assert header.split()[-1][9:20] not in message


@pytest.mark.one_cell
def test_a_well_formed_unknown_key_is_refused(db, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert_refused(get(f"Bearer {secret.mint(identifiers.short_uuid7())}"))


def test_another_secret_for_a_known_key_is_refused(key):
    assert_refused(get(f"Bearer {secret.mint(key[0].pk)}"))


def test_all_refused_keys_get_the_same_message(key):
    unknown = get(f"Bearer {secret.mint(identifiers.short_uuid7())}").json()
    lifecycle.revoke_key(key[0])
    assert get(f"Bearer {key[1]}").json() == get("Bearer nonsense").json() == unknown


@pytest.fixture(params=["at first sight", "although its identity was cached"])
def seen_before(request, key):
    if request.param != "at first sight":
        assert get(f"Bearer {key[1]}").status_code == 200
        assert authentication._callers


@pytest.mark.usefixtures("seen_before")
def test_a_revoked_key_stops_at_once(key):
    lifecycle.revoke_key(key[0])
    assert_refused(get(f"Bearer {key[1]}"))


@pytest.mark.usefixtures("seen_before")
def test_an_expired_key_stops_at_once(key):
    ApiKey.objects.update(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert_refused(get(f"Bearer {key[1]}"))


@pytest.mark.usefixtures("seen_before")
def test_the_keys_of_a_closed_account_stop_at_once(key):
    Account.objects.update(is_active=False)
    assert_refused(get(f"Bearer {key[1]}"))
    Account.objects.update(is_active=True)
    assert get(f"Bearer {key[1]}").status_code == 200


def test_a_key_that_expires_later_works_until_then(alice):
    _, minted = factories.make_key(alice, expires_at=datetime.now(UTC) + timedelta(hours=1))
    assert get(f"Bearer {minted}").status_code == 200


@pytest.mark.one_cell
def test_a_new_key_works_after_another_secret_with_its_id_was_refused(alice, settings):
    key_id = identifiers.short_uuid7()
    for _ in range(3):
        assert_refused(get(f"Bearer {secret.mint(key_id)}"))
    minted = secret.mint(key_id)
    ApiKey.objects.create(id=key_id, account=alice, name="late", digest=secret.digest(minted, settings.KEY_PEPPERS[0]))
    assert get(f"Bearer {minted}").status_code == 200


def test_an_unknown_secret_is_looked_up_once(db, django_assert_num_queries, monkeypatch):
    monkeypatch.setattr(authentication, "_unknown_secrets", TTLCache(seconds=10, entries_max=2, clock=lambda: 0.0))
    stranger = f"Bearer {secret.mint(identifiers.short_uuid7())}"
    assert_refused(get(stranger))
    with django_assert_num_queries(0):
        for _ in range(5):
            assert_refused(get(stranger))


@pytest.mark.one_cell
def test_the_cache_of_unknown_secrets_is_bounded_and_expires(db, django_assert_num_queries, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(authentication, "_unknown_secrets", TTLCache(seconds=10, entries_max=2, clock=lambda: seconds[0]))
    strangers = [f"Bearer {secret.mint(identifiers.short_uuid7())}" for _ in range(3)]
    for stranger in strangers:
        assert_refused(get(stranger))
    assert len(authentication._unknown_secrets) == 2
    for later, queries in ((9.9, 0), (0.2, 1)):
        seconds[0] += later
        with django_assert_num_queries(queries):
            assert_refused(get(strangers[2]))


def test_a_new_key_is_delayed_but_works_in_a_flood_of_unknown_secrets(alice, monkeypatch):
    use_clock(monkeypatch, authentication).stop()  # all within a second, however slow the machine
    strangers = [secret.mint(identifiers.short_uuid7()) for _ in range(20)]
    assert authentication._look_up_batch(strangers, is_rerun=False) == [None] * 20
    key, minted = factories.make_key(alice)
    before = time.monotonic()
    assert get(f"Bearer {minted}").status_code == 200
    assert time.monotonic() - before >= authentication._PACE_SECONDS


@pytest.mark.one_cell
def test_concurrent_secrets_are_looked_up_in_one_query(alice, django_assert_num_queries):
    made = [factories.make_key(alice) for _ in range(3)]
    another = secret.mint(made[0][0].pk)
    secrets = [*(minted for _, minted in made), another, secret.mint(identifiers.short_uuid7())]
    with django_assert_num_queries(1):
        found = authentication._look_up_batch(secrets, is_rerun=False)
    assert found == [*(authentication.Caller(key.pk, alice.pk, key.digest) for key, _ in made), None, None]


def test_a_known_key_costs_one_query(key, django_assert_num_queries):
    get(f"Bearer {key[1]}")
    with django_assert_num_queries(1):
        get(f"Bearer {key[1]}")


def test_keys_open_only_their_own_account(alice, bob):
    secrets = [factories.make_key(account)[1] for account in (alice, bob)]
    for _ in range(2):  # looked up first, then cached
        assert [get(f"Bearer {each}").json()["balanceInCents"] for each in secrets] == [1000, 0]


def test_keys_work_after_a_rotation_of_the_pepper(key, settings):
    old = settings.KEY_PEPPERS[0]
    settings.KEY_PEPPERS = ["n" * 40, old]
    assert get(f"Bearer {key[1]}").status_code == 200
    settings.KEY_PEPPERS = ["n" * 40]
    authentication._callers.clear()  # as in a process started with the new settings
    assert_refused(get(f"Bearer {key[1]}"))


def test_the_cache_of_identities_is_bounded(alice, monkeypatch):
    monkeypatch.setattr(authentication, "_CALLERS_MAX", 2)
    for _ in range(4):
        assert get(f"Bearer {factories.make_key(alice)[1]}").status_code == 200
    assert len(authentication._callers) == 2


def test_no_part_of_a_secret_is_stored_logged_or_answered(alice, caplog):
    with CaptureQueriesContext(connection) as captured:
        key, minted = factories.make_key(alice)
        replies = [get(f"Bearer {minted}").content.decode(), get(f"Bearer {minted}x").content.decode()]
    random = minted[32:64]
    everything = [*replies, caplog.text, str(authentication._callers), *(query["sql"] for query in captured)]
    assert [text for text in everything if random in text] == []
    assert (key.last_four, ApiKey.objects.get().digest) == (minted[-4:], key.digest)
