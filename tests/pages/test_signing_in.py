"""Signing in and out, and the account that a member sees."""

import pytest

from billing.models import Account, Membership, Role
from keys.models import ApiKey
from tests import factories
from tests.pages.conftest import owner_of, signed_in
from tests.pages.dashboard_pages import text

PAGES = ["/dashboard/", "/dashboard/ledger/", "/dashboard/keys/", "/dashboard/keys/new/", "/dashboard/password/"]


def test_sign_in_ignores_the_case_of_the_e_mail_address(stranger, alice):
    reply = stranger.post("/accounts/login/", {"login": "Alice@Example.org", "password": factories.PASSWORD})
    assert (reply.status_code, reply["Location"]) == (302, "/dashboard/")
    assert stranger.get("/dashboard/").status_code == 200


def test_the_former_address_of_the_page_leads_to_it(stranger):
    assert stranger.get("/dashboard/sign-in/?next=/dashboard/keys/")["Location"] == "/accounts/login/?next=/dashboard/keys/"


def test_sign_in_leads_to_the_requested_page(stranger, alice):
    credentials = {"login": "alice@example.org", "password": factories.PASSWORD, "next": "/dashboard/keys/"}
    assert stranger.post("/accounts/login/", credentials)["Location"] == "/dashboard/keys/"


def test_sign_in_does_not_redirect_to_another_site(stranger, alice):
    credentials = {"login": "alice@example.org", "password": factories.PASSWORD, "next": "https://example.net/"}
    assert stranger.post("/accounts/login/", credentials)["Location"] == "/dashboard/"


@pytest.mark.parametrize("email", ["alice@example.org", "nobody@example.org", "a\x00b", ""])
def test_a_wrong_password_is_refused(stranger, alice, email):
    reply = stranger.post("/accounts/login/", {"login": email, "password": "wrong"})
    assert reply.status_code == 200
    assert 'role="alert"' in reply.content.decode()
    assert stranger.get("/dashboard/").status_code == 302


@pytest.mark.parametrize("path", PAGES)
def test_pages_redirect_to_sign_in(stranger, alice, path):
    reply = stranger.get(path)
    assert (reply.status_code, reply["Location"]) == (302, f"/accounts/login/?next={path}")
    assert reply.content == b""


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_not_cached(owner, path):
    reply = owner.get(path)
    assert reply.status_code == 200
    assert "no-store" in reply["Cache-Control"]
    assert "private" in reply["Cache-Control"]


def test_the_content_security_policy_allows_own_files_only(owner):
    assert "default-src 'self'" in owner.get("/dashboard/")["Content-Security-Policy"]


def test_sign_out_needs_a_post(owner):
    assert owner.get("/dashboard/sign-out/").status_code == 405
    assert owner.get("/dashboard/").status_code == 200
    assert owner.post("/dashboard/sign-out/")["Location"] == "/accounts/login/"
    assert owner.get("/dashboard/").status_code == 302


def test_changing_the_password_ends_other_sessions(owner, alice):
    elsewhere = signed_in(owner_of(alice))
    new = {
        "old_password": factories.PASSWORD,
        "new_password1": "a wholly new sentence",
        "new_password2": "a wholly new sentence",
    }
    assert owner.post("/dashboard/password/", new)["Location"] == "/dashboard/"
    assert owner_of(alice).check_password("a wholly new sentence")
    assert owner.get("/dashboard/").status_code == 200
    assert elsewhere.get("/dashboard/").status_code == 302


def test_a_form_without_its_csrf_token_does_nothing(alice, key, rows):
    from django.test import Client

    forger = Client(enforce_csrf_checks=True)
    forger.force_login(owner_of(alice))
    before = rows()
    for path in ["keys/new/", f"keys/{key.pk}/limit/", f"keys/{key.pk}/revoke/", "account/", "password/", "sign-out/"]:
        assert forger.post(f"/dashboard/{path}", {"name": "forged"}).status_code == 403, path
    assert rows() == before
    assert forger.get("/dashboard/").status_code == 200


# --- Members of several accounts, of none, of no more ----------------------------------------------------------


def test_a_member_of_several_accounts_chooses_one(owner, alice):
    second = factories.make_account("Second", cents=4200, owner=owner_of(alice))
    assert "$42.00" not in owner.get("/dashboard/").content.decode()
    assert owner.post("/dashboard/account/", {"account": str(second.pk)})["Location"] == "/dashboard/"
    for path in PAGES[:2]:
        assert "$42.00" in owner.get(path).content.decode()


@pytest.mark.parametrize("choice", ["theirs", "", "nonsense", "\x00"])
def test_a_member_cannot_choose_the_account_of_others(owner, alice, charlie, choice):
    reply = owner.post("/dashboard/account/", {"account": str(charlie.pk) if choice == "theirs" else choice})
    assert reply.status_code == 404
    assert owner.get("/dashboard/").context["request"].member.account_name == "Alice"


def test_a_removed_member_loses_access(owner, alice, key, rows):
    Membership.objects.all().delete()
    before = rows()
    for path in [*PAGES[:4], f"/dashboard/keys/{key.pk}/limit/"]:
        for reply in (owner.get(path), owner.post(path, {})):
            assert reply.status_code in (403, 405)
            assert "Alice" not in reply.content.decode()
    assert rows() == before


def test_a_removed_membership_ends_the_choice_of_its_account(owner, alice):
    second = factories.make_account("Second", cents=4200, owner=owner_of(alice))
    owner.post("/dashboard/account/", {"account": str(second.pk)})
    Membership.objects.filter(account=second).delete()
    reply = owner.get("/dashboard/")
    assert "$10.00" in reply.content.decode()
    assert [choice["name"] for choice in reply.context["request"].member.choices] == ["Alice"]


def test_a_key_is_not_made_in_an_account_chosen_after_the_form_was_opened(owner, alice):
    form = {"name": "laptop", "spending_type": "NONE", "account": str(alice.pk)}
    second = factories.make_account("Second", owner=owner_of(alice))
    owner.post("/dashboard/account/", {"account": str(second.pk)})
    reply = owner.post("/dashboard/keys/new/", form)
    assert "The selected account is now Second" in reply.content.decode()
    assert not ApiKey.objects.exists()
    assert owner.post("/dashboard/keys/new/", {**form, "account": str(second.pk)}).status_code == 200
    assert ApiKey.objects.get().account == second


def test_a_closed_account_says_so(owner, alice):
    Account.objects.update(is_active=False)
    assert "its keys are refused. Settings show who closed it, and whether you can reopen it." in text(owner.get("/dashboard/"))
    viewer = factories.make_user("viewer@example.org")
    factories.add_member(account=alice, user=viewer, role=Role.VIEWER)
    assert "its keys are refused. Ask the operator" in text(signed_in(viewer).get("/dashboard/"))


@pytest.mark.parametrize(("path", "status"), [("/dashboard/nowhere/", 404), ("/nowhere", 404)])
def test_a_wrong_address_answers_with_a_page_that_needs_no_database(stranger, django_assert_num_queries, db, path, status):
    with django_assert_num_queries(0):
        reply = stranger.get(path, headers={"accept": "text/html"})
    assert reply.status_code == status
    assert "Page not found." in reply.content.decode()
    assert reply["Content-Type"].startswith("text/html")
