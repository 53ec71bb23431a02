"""Signing up, and changing one's email address."""

import re
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core import mail
from django.db import connection
from django.test import Client

from billing.ledger import audit
from billing.models import Account, LedgerEntry, User
from gateway_project.activity.models import Activity
from tests import factories
from tests.pages.conftest import owner, owner_of, signed_in  # noqa: F401  fixtures
from tests.sessions import expire
from tests.waiting import PROCESS_SECONDS_MAX

SIGN_UP, CHANGE, SIGN_IN = "/accounts/signup/", "/accounts/email/", "/accounts/login/"
EMAIL, NEW = "ann@example.org", "a wholly new sentence"


@pytest.fixture(autouse=True)
def _open_to_all(settings):
    settings.SIGN_UP, settings.SIGN_UP_DOMAINS = True, []


def link():
    [found] = re.findall(r"^http://testserver(/\S+)$", str(mail.outbox[-1].body), re.M)
    return found


def use(path, password=NEW, client=None):
    path, _, key = path.partition("?key=")
    return (client or Client()).post(path, {"key": key, "new_password1": password, "new_password2": password})


def ask(email=EMAIL):
    return Client().post(SIGN_UP, {"email": email})


def test_people_sign_up_with_an_address_that_they_prove(db):
    assert "Sign up" in Client().get(SIGN_IN).content.decode()
    assert "Check your email" in ask(" Ann@Example.org ").content.decode()
    assert (User.objects.count(), Account.objects.count(), mail.outbox[0].to) == (0, 0, [EMAIL])
    path = link()
    assert EMAIL in Client().get(path).content.decode()
    assert "too common" in use(path, "password1234").content.decode()
    client = Client()
    assert use(path, client=client)["Location"] == "/dashboard/"
    page = client.get("/dashboard/")
    assert (page.status_code, "Your account is open." in page.content.decode()) == (200, True)
    assert {"password_given_at", "signed_in_at", "used_at"} <= set(client.session.keys())
    assert Client().post(SIGN_IN, {"login": EMAIL, "password": NEW})["Location"] == "/dashboard/"
    assert Account.objects.get().members.get().email == EMAIL
    assert Activity.objects.get().summary == "Signed up."
    assert use(path).status_code == 404  # the link works once
    assert Account.objects.count() == 1


def test_who_is_signed_in_as_somebody_else_stays_so(owner):  # noqa: F811
    ask()
    assert use(link(), client=owner)["Location"] == "/dashboard/"
    page = owner.get("/dashboard/").content.decode()
    assert "The account of ann@example.org is open. Sign out to sign in to it." in page
    assert "alice@example.org" in page


def test_signing_up_again_tells_only_the_owner_of_the_address(alice):
    texts = [ask(email).content.decode().replace(email, "") for email in ("alice@example.org", "nobody@example.org")]
    assert texts[0] == texts[1]
    assert "where you already sign in with it" in mail.outbox[0].body
    assert "/accounts/password/reset/" in mail.outbox[0].body


def test_the_link_ends_after_a_day_and_cannot_be_forged(db, monkeypatch):
    ask()
    path = link()
    assert use(path[:-1] + ("A" if path[-1] != "A" else "B")).status_code == 404
    now = time.time()
    monkeypatch.setattr("django.core.signing.time.time", lambda: now + 86_401)
    assert use(path).status_code == 404
    assert not User.objects.exists()


def test_where_sign_up_is_off_nobody_signs_up(db, settings):
    ask()
    path = link()
    settings.SIGN_UP = False
    assert "You need an invitation to open an account" in Client().get(SIGN_UP).content.decode()
    ask("other@example.org")
    assert use(path).status_code == 404  # also with a link from before
    assert (len(mail.outbox), User.objects.count()) == (1, 0)


def test_only_people_of_the_named_domains_sign_up(db, settings):
    settings.SIGN_UP_DOMAINS = ["example.com"]
    for email in (EMAIL, "ann@example.com.example.org", "ann@sub.example.com"):
        assert "this address belongs to another" in ask(email).content.decode()
    assert mail.outbox == []
    ask("ann@EXAMPLE.com")
    assert mail.outbox[0].to == ["ann@example.com"]


# --- Trial credit -----------------------------------------------------------------------------------------------------


@pytest.fixture
def _trial_credit(settings):
    settings.TRIAL_CREDIT_CENTS = 150


def sign_up(email):
    ask(email)
    client = Client()
    assert use(link(), client=client)["Location"] == "/dashboard/"
    return client


@pytest.mark.usefixtures("_trial_credit")
def test_whoever_signs_up_gets_the_trial_credit_of_the_operator_once(db):
    client = sign_up(EMAIL)
    entry = LedgerEntry.objects.get()
    assert (entry.type, entry.amount_nanos, entry.title) == ("SUPPORT_CREDIT", 1_500_000_000, "Trial credit")
    assert Account.objects.get().balance_nanos == 1_500_000_000
    assert EMAIL not in entry.reference
    assert "Trial credit" in client.get("/dashboard/").content.decode()
    [credited] = Activity.objects.filter(act=Activity.Act.CREDITED)
    assert (credited.account_id, credited.summary) == (entry.account_id, f"Credited $1.50 to try, entry {entry.pk}.")
    assert audit.verify() == []


@pytest.mark.usefixtures("_trial_credit")
def test_a_further_account_of_the_same_mailbox_gets_no_trial_credit(db):
    sign_up(EMAIL)
    for further in ("ann+second@example.org", "a.nn@example.org", "A.N.N+3@example.org", "ben@example.org"):
        sign_up(further)
    credited = LedgerEntry.objects.values_list("account__name", flat=True)
    assert sorted(credited) == [EMAIL, "ben@example.org"]
    assert Account.objects.count() == 5
    assert audit.verify() == []


@pytest.mark.usefixtures("_trial_credit")
def test_no_credit_is_given_before_the_address_is_proved(db):
    ask()
    Client().get(link())
    assert not LedgerEntry.objects.exists()


def test_without_a_trial_credit_an_account_begins_with_nothing(db):
    sign_up(EMAIL)
    assert not LedgerEntry.objects.exists()


@pytest.mark.usefixtures("_trial_credit")
@pytest.mark.parametrize("emails", [[EMAIL] * 4, [f"ann+{number}@example.org" for number in range(4)]])
def test_of_links_of_one_person_opened_at_once_one_gives_credit(transactional_db, emails):
    paths = [(ask(email), link())[1] for email in emails]
    together = threading.Barrier(len(paths))

    def open_link(path):
        together.wait(PROCESS_SECONDS_MAX)
        try:
            return use(path).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(len(paths)) as threads:
        statuses = Counter(threads.map(open_link, paths))
    assert statuses[302] == len(set(emails)) == Account.objects.count()
    assert LedgerEntry.objects.count() == 1
    assert audit.verify() == []


# --- Change of address -----------------------------------------------------------------------------------------------


def test_an_address_changes_when_the_new_one_is_proved(owner, alice, django_capture_on_commit_callbacks):  # noqa: F811
    owner.post(CHANGE, {"email": "Alice@New.example.org"})
    assert [message.to for message in mail.outbox] == [["alice@example.org"], ["alice@new.example.org"]]
    assert owner_of(alice).email == "alice@example.org"
    path, other = link(), signed_in(owner_of(alice))
    assert Client().get(path).status_code == 200  # which changes nothing: mail scanners open links
    assert owner_of(alice).email == "alice@example.org"
    with django_capture_on_commit_callbacks(execute=True):
        assert use(path, client=owner)["Location"] == "/accounts/email/"
    assert owner_of(alice).email == "alice@new.example.org"
    assert [client.get("/dashboard/").status_code for client in (owner, other)] == [200, 302]
    assert mail.outbox[2].to == ["alice@example.org"]
    act = Activity.objects.order_by("-id")[0]
    assert (act.before, act.after) == ({"email": "alice@example.org"}, {"email": "alice@new.example.org"})
    assert use(path).status_code == 404
    assert Client().post(SIGN_IN, {"login": "alice@new.example.org", "password": factories.PASSWORD}).status_code == 302


def test_the_address_of_somebody_else_cannot_be_taken(owner, alice, charlie):  # noqa: F811
    owner.post(CHANGE, {"email": "ann@example.org"})
    path = link()
    factories.make_user("ann@example.org")
    assert use(path).status_code == 404
    owner.post(CHANGE, {"email": "charlie@example.org"})
    assert "where you already sign in with it" in mail.outbox[-1].body
    assert owner_of(alice).email == "alice@example.org"


def test_changing_the_address_needs_the_password(owner):  # noqa: F811
    expire(owner)
    assert "Confirm with your password" in owner.post(CHANGE, {"email": EMAIL}).content.decode()
    assert mail.outbox == []
    assert Client().get(CHANGE)["Location"].startswith(SIGN_IN)
