"""Second factors at sign-in, who needs one, and what is kept of them."""

import json
import re
import time
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest
from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Permission
from django.core import mail
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client

from billing.models import User
from billing.sign_in import forms, limits
from gateway_project.activity.models import Activity
from keys.models import ApiKey
from tests import factories, second_factors, sessions
from tests.billing.sign_in.key_forms import NEW_KEY, key_form
from tests.pages.conftest import (  # fixtures
    owner,  # noqa: F401
    owner_of,
    powerless,  # noqa: F401
    signed_in,
    superuser,  # noqa: F401
    support,  # noqa: F401
    support_user,  # noqa: F401
)
from tests.sessions import expire

SIGN_IN, CODE, FACTORS = "/accounts/login/", "/accounts/2fa/authenticate/", "/accounts/2fa/"
WRONG = "000000"


@pytest.fixture
def user(alice):
    """alice's owner, with an authenticator app."""
    user = owner_of(alice)
    second_factors.give_app(user)
    return user


@pytest.fixture
def half(user):
    """A client that has given the password, and now needs a code."""
    client = Client()
    reply = client.post(SIGN_IN, {"login": user.email, "password": factories.PASSWORD, "next": "/dashboard/keys/"})
    assert reply["Location"] == CODE
    return client


@pytest.fixture
def _required(settings):
    settings.STAFF_NEED_SECOND_FACTOR = True


def test_the_password_alone_signs_in_nobody_who_has_a_second_factor(half):
    assert half.get("/dashboard/")["Location"].startswith(SIGN_IN)
    assert "device" not in half.cookies


def test_a_code_signs_in_and_leads_to_the_requested_page(half):
    assert half.post(CODE, {"code": second_factors.code()})["Location"] == "/dashboard/keys/"
    assert half.get("/dashboard/").status_code == 200


def test_a_wrong_code_is_refused_and_logged(half, caplog):
    page = half.post(CODE, {"code": WRONG})
    assert 'role="alert"' in page.content.decode()
    assert half.get("/dashboard/").status_code == 302
    assert "sign-in as alice@example.org from 127.0.0.1 failed at two-factor authentication" in caplog.text


def test_a_code_counts_once_also_in_another_process(half, user):
    code = second_factors.code()
    assert half.post(CODE, {"code": code}).status_code == 302
    cache.clear()  # which another process does not share
    other = Client()
    other.post(SIGN_IN, {"login": user.email, "password": factories.PASSWORD})
    assert "was already used" in other.post(CODE, {"code": code}).content.decode()
    assert other.get("/dashboard/").status_code == 302


def spellings(code):
    return [f"{code[:3]} {code[3:]}", f"{code[:3]}-{code[3:]}", "-".join(code), code.translate(FULL_WIDTH), f"{code}."]


FULL_WIDTH = str.maketrans("0123456789", "０１２３４５６７８９")


def test_a_code_counts_once_however_it_is_written(half, user, caplog, monkeypatch):
    monkeypatch.setitem(limits.RATES, "success", limits.Rate(10, 60))
    code = second_factors.code()
    assert half.post(CODE, {"code": code.translate(FULL_WIDTH)}).status_code == 302
    mail.outbox.clear()
    for spelling in [code, *spellings(code)]:
        cache.clear()
        assert "was already used" in second_attempt(user, spelling).content.decode()
    assert {message.subject for message in mail.outbox} == {"Reused sign-in code at the Model Gateway"}
    assert mail.outbox[0].to == [user.email]
    assert "everywhere else:\n\nhttp://localhost:8000/dashboard/password/\n" in str(mail.outbox[0].body)
    assert "a code of alice@example.org was tried a second time" in caplog.text


def second_attempt(user, code):
    other = Client()
    other.post(SIGN_IN, {"login": user.email, "password": factories.PASSWORD})
    reply = other.post(CODE, {"code": code})
    assert other.get("/dashboard/").status_code == 302
    return reply


def test_after_a_code_an_earlier_one_counts_no_more(half, user):
    early, late = second_factors.code(), second_factors.code(seconds=30)
    assert half.post(CODE, {"code": late}).status_code == 302
    assert second_attempt(user, early).status_code == 200


def test_a_code_of_a_clock_that_was_ahead_locks_nobody_out(half, user):
    User.objects.update(last_code_step=int(time.time()) // 30 + 1_000)
    assert half.post(CODE, {"code": second_factors.code()}).status_code == 302


def test_the_code_that_set_up_an_app_signs_nobody_in(owner, alice):  # noqa: F811
    secret, _ = set_up(owner)
    user = owner_of(alice)
    assert user.last_code_step is not None
    reply = second_attempt(user, second_factors.code_of(user.last_code_step, secret))
    assert "was already used" in reply.content.decode()


def test_concurrent_attempts_accept_a_code_once(transactional_db, user):
    code = second_factors.code()

    def accept(_):
        try:
            return forms.use_step(user, forms.find_step(user, code))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(accept, range(4))) == [False, False, False, True]


def test_guessing_codes_is_limited(half, monkeypatch):
    monkeypatch.setitem(limits.RATES, "user", limits.Rate(3, 3_600))
    assert [half.post(CODE, {"code": WRONG}).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert half.post(CODE, {"code": second_factors.code()}).status_code == 429


def test_without_the_password_nobody_uses_up_the_codes_of_a_user(user):
    assert Client().post(CODE, {"code": WRONG})["Location"] == SIGN_IN


def test_a_code_confirms_an_act_instead_of_the_password(user, alice):
    client = signed_in(user)
    expire(client)
    assert "Or a code from your authenticator app" in client.post(NEW_KEY, key_form(alice)).content.decode()
    client.post(NEW_KEY, {**key_form(alice), "current_code": WRONG})
    assert not ApiKey.objects.exists()
    made = client.post(NEW_KEY, {**key_form(alice), "current_code": second_factors.code()})
    assert "is ready" in made.content.decode()


# --- Setting up and removing -----------------------------------------------------------------------------------------


def set_up(client):
    """Set up an app as the pages say. Return its secret, and the page of recovery codes."""
    path = f"{FACTORS}totp/activate/"
    secret = client.get(path).context["form"].secret
    return secret, client.post(path, {"code": second_factors.code(secret)}, follow=True)


def test_an_app_is_set_up_encrypted_recorded_and_with_recovery_codes_shown_once(owner, alice):  # noqa: F811
    secret, page = set_up(owner)
    codes = re.findall(r"^\d{8}$", page.content.decode().replace('data-once="">', "\n").replace("data-once>", "\n"), re.M)
    assert len(codes) == 10
    assert "no-store" in page["Cache-Control"]
    assert secret not in str(list(Authenticator.objects.values()))
    acts = Activity.objects.order_by("id").values_list("act", "summary")
    assert list(acts) == [
        ("ADDED", "Added an authenticator app for signing in."),
        ("ADDED", "Added recovery codes for signing in."),
    ]
    again = owner.get(f"{FACTORS}recovery-codes/").content.decode()
    assert not any(code in again for code in codes)
    client = Client()
    client.post(SIGN_IN, {"login": "alice@example.org", "password": factories.PASSWORD})
    assert client.post(CODE, {"code": codes[0]}).status_code == 302
    assert client.get("/dashboard/").status_code == 200
    client = Client()
    client.post(SIGN_IN, {"login": "alice@example.org", "password": factories.PASSWORD})
    assert client.post(CODE, {"code": codes[0]}).status_code == 200  # used before


@pytest.mark.parametrize("path", ["totp/activate/", "totp/deactivate/", "recovery-codes/generate/", "webauthn/add/"])
def test_changing_second_factors_needs_the_password(user, path):
    if path == "totp/activate/":
        Authenticator.objects.all().delete()
    client = signed_in(user)
    expire(client)
    before = list(Authenticator.objects.values())
    assert "Confirm with your password" in client.post(f"{FACTORS}{path}", {"code": WRONG}).content.decode()
    assert list(Authenticator.objects.values()) == before


def test_the_last_app_goes_with_its_recovery_codes(owner):  # noqa: F811
    set_up(owner)
    assert owner.post(f"{FACTORS}totp/deactivate/").status_code == 302
    assert not Authenticator.objects.exists()
    assert Activity.objects.filter(act="DELETED").count() == 2


@pytest.mark.parametrize("path", ["", "totp/activate/", "recovery-codes/generate/", "webauthn/add/"])
def test_strangers_see_no_page_of_second_factors(db, path):
    assert Client().get(f"{FACTORS}{path}")["Location"].startswith(SIGN_IN)
    assert Client().post(f"{FACTORS}{path}").status_code in (302, 405)


def test_beginning_to_sign_in_with_a_passkey_is_limited(db, monkeypatch):
    monkeypatch.setitem(limits.RATES, "address", limits.Rate(2, 3_600))
    path, accept = f"{FACTORS}webauthn/login/", {"accept": "application/json"}
    assert [Client().get(path, headers=accept).status_code for _ in range(3)] == [200, 200, 429]


def test_a_passkey_that_was_removed_says_so(user):
    def encode(data):
        return urlsafe_b64encode(data).decode().rstrip("=")

    client, path = Client(), f"{FACTORS}webauthn/login/"
    client.get(path, headers={"accept": "application/json"})
    response = {
        "clientDataJSON": encode(json.dumps({"type": "webauthn.get", "challenge": "", "origin": ""}).encode()),
        "authenticatorData": encode(bytes(37)),
        "signature": encode(b"signed"),
        "userHandle": encode(user_pk_to_url_str(user).encode()),
    }
    credential = {"id": "eA", "rawId": "eA", "type": "public-key", "response": response, "clientExtensionResults": {}}
    reply = client.post(path, {"credential": json.dumps(credential)}, follow=True)
    assert "Wrong code, or a passkey that was removed." in reply.content.decode()
    assert client.get("/dashboard/").status_code == 302


# --- Staff -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/admin/", "/admin/billing/account/", "/dashboard/", "/accounts/sessions/"])
@pytest.mark.usefixtures("_required")
def test_staff_without_a_second_factor_are_led_to_set_one_up(support, path):  # noqa: F811
    reply = support.get(path, follow=True)
    assert reply.redirect_chain == [(FACTORS, 302)]
    assert "Staff must use two-factor authentication" in reply.content.decode()
    assert support.post(path).status_code == 302


@pytest.mark.usefixtures("_required")
def test_staff_with_a_second_factor_open_their_pages(support, support_user):  # noqa: F811
    set_up(support)
    assert support.get("/admin/").status_code == 200
    assert support.get("/accounts/sessions/").status_code == 200


@pytest.mark.usefixtures("_required")
def test_staff_without_a_second_factor_can_leave(support):  # noqa: F811
    assert support.post("/dashboard/sign-out/")["Location"] == SIGN_IN


@pytest.mark.usefixtures("_required")
def test_recovery_codes_alone_are_no_second_factor(support, support_user):  # noqa: F811
    codes = {"type": Authenticator.Type.RECOVERY_CODES, "data": {"seed": "x", "used_mask": 0}}
    with transaction.atomic():
        Authenticator.objects.create(user=support_user, **codes)
    assert support.get("/admin/")["Location"] == FACTORS


@pytest.mark.usefixtures("_required")
def test_owners_and_developers_machines_need_none(owner, settings, superuser):  # noqa: F811
    assert owner.get("/dashboard/").status_code == 200
    settings.STAFF_NEED_SECOND_FACTOR = False
    assert superuser.get("/admin/").status_code == 200


@pytest.mark.usefixtures("_required")
def test_a_public_page_does_not_ask_who_is_signed_in(support):  # noqa: F811
    reply = support.get("/rankings")
    assert reply.status_code == 200
    assert "Cookie" not in reply.get("Vary", "")


REMOVE = {"action": "remove_second_factors"}


def test_staff_remove_the_lost_second_factor_of_an_owner(superuser, user):  # noqa: F811
    superuser.post("/admin/billing/user/", {**REMOVE, "_selected_action": [user.pk]})
    assert not Authenticator.objects.exists()
    act = Activity.objects.get(act="DELETED")
    assert (act.actor.email, act.object_id, act.summary) == (
        "root@example.org",
        str(user.pk),
        "Removed an authenticator app for signing in.",
    )


def test_only_superusers_remove_the_second_factor_of_other_staff(db):
    clerk = factories.make_user("clerk@example.org", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=["view_user", "change_user"]))
    colleague = factories.make_user("colleague@example.org", is_staff=True)
    second_factors.give_app(colleague)
    client = Client()
    sessions.sign_in(client, clerk)
    page = client.post("/admin/billing/user/", {**REMOVE, "_selected_action": [colleague.pk]}, follow=True)
    assert "You may not remove the two-factor authentication of colleague@example.org." in page.content.decode()
    assert Authenticator.objects.filter(user=colleague).exists()


@pytest.mark.parametrize("model", ["account/emailaddress", "mfa/authenticator", "usersessions/usersession"])
def test_no_page_of_the_admin_edits_what_is_the_users_own(superuser, model):  # noqa: F811
    assert superuser.get(f"/admin/{model}/").status_code == 404
    assert User.objects.count() == 1
