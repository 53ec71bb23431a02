"""Mails: their two parts, and their limits: what strangers can have sent to somebody, and cannot keep from somebody."""

import html
import re
import time

import pytest
from django.core import mail
from django.test import Client

from billing.models import SignInLimit
from billing.sign_in import limits, mails
from gateway_project import installation, metrics
from tests import factories
from tests.pages.conftest import owner_of, signed_in

SIGN_IN, RESET, SIGN_UP = "/accounts/login/", "/accounts/password/reset/", "/accounts/signup/"
ALICE = "alice@example.org"
SPELLINGS = [ALICE, "alice+1@example.org", "ALICE+2@Example.org", "a.l.i.c.e@example.org", "a.lice+x+y@example.org"]


@pytest.fixture(autouse=True)
def _few_mails(settings):
    settings.MAILBOX_MAILS_PER_DAY, settings.SIGN_UP, settings.SIGN_UP_DOMAINS = 4, True, []  # two at once


def ask(email=ALICE, page=RESET, client=None):
    reply = (client or Client()).post(page, {"email": email})
    assert reply.status_code == 200
    return reply.content.decode().replace(email.lower(), "").replace(email, "")


def refused(limit):
    return metrics.mails_refused_total.labels(limit)._value.get()


def html_of(message):
    [(page, kind)] = message.alternatives
    assert kind == "text/html"
    return page


def parts_of(message):
    """Return the text of a mail, and its HTML as text with its links."""
    page = html_of(message)
    words = re.sub(r"<title>.*?</title>|<[^>]+>", " ", page)
    return message.body, " ".join(html.unescape(words).split()), re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', page)


def test_a_mail_says_the_same_as_text_and_as_html_with_one_button(alice):
    ask()
    text, shown, links = parts_of(mail.outbox[0])
    [address] = re.findall(r"^http\S+$", text, re.MULTILINE)
    assert [(html.unescape(target), words) for target, words in links] == [
        (address, "Choose a new password"),
        (address, html.escape(address)),
    ]
    for paragraph in text.split("\n\n"):
        assert " ".join(paragraph.split()) in shown


def test_words_of_others_in_a_mail_are_no_markup(alice):
    mails.send(ALICE, "act_decided", what="<b>credit</b>", account="http://x & co", outcome="<script>")
    page = html_of(mail.outbox[0])
    assert "&lt;b&gt;credit&lt;/b&gt;" in page
    assert "<script" not in page
    assert "<a " not in page


def test_every_mail_with_a_link_has_words_for_its_button():
    texts = {path.stem: path.read_text() for path in (installation.TEMPLATES / "mail").glob("*.txt")}
    with_link = {name for name, text in texts.items() if re.search(r"^\{\{ link \}\}$", text, re.MULTILINE)}
    assert with_link == set(mails.BUTTONS)


def test_all_spellings_of_a_mailbox_get_as_many_mails_as_one(alice):
    before = refused("mailbox")
    pages = {ask(email) for email in SPELLINGS}
    assert len(mail.outbox) == 2
    assert len(pages) == 1  # strangers do not see whether a mail was sent
    assert refused("mailbox") == before + 3


def test_every_kind_of_mail_that_strangers_can_cause_counts_together(alice, charlie):
    ask(page=SIGN_UP)
    signed_in(owner_of(charlie)).post("/accounts/email/", {"email": ALICE})
    ask()
    assert sent_to(ALICE) == 2
    ask("somebody.else@example.org")
    assert sent_to("somebody.else@example.org") == 1


def sent_to(email):
    return sum(message.to == [email] for message in mail.outbox)


def test_strangers_cannot_keep_a_user_from_being_told(alice, django_capture_on_commit_callbacks):
    for _ in range(3):
        ask()
    new = "a wholly new sentence"
    form = {"old_password": factories.PASSWORD, "new_password1": new, "new_password2": new}
    with django_capture_on_commit_callbacks(execute=True):
        signed_in(owner_of(alice)).post("/dashboard/password/", form)
    assert "The password was changed." in str(mail.outbox[-1].body)


def test_nothing_else_that_happens_keeps_notices_of_security_back(alice, settings, django_capture_on_commit_callbacks):
    settings.MAILS_PER_HOUR = 2
    assert [mails.send(ALICE, "code_used_again", link="") for _ in range(2)] == [True, False]
    with django_capture_on_commit_callbacks(execute=True):
        mails.notify(owner_of(alice), "Removed a passkey for signing in.")
    browser = signed_in(owner_of(alice))
    browser.post("/accounts/email/", {"email": "new@example.org"})
    assert [message.to[0] for message in mail.outbox] == [ALICE, ALICE, ALICE, "new@example.org"]


def test_an_address_is_not_changed_unless_it_can_be_told(alice, charlie, monkeypatch):
    monkeypatch.setitem(limits.RATES, "security", limits.Rate(burst=1, interval_seconds=900))
    browser = signed_in(owner_of(alice))
    browser.post("/accounts/email/", {"email": "first@example.org"})
    assert len(mail.outbox) == 2
    pages = [browser.post("/accounts/email/", {"email": email}) for email in ("new@example.org", "charlie@example.org")]
    for page in pages:  # which do not tell who has a sign-in here
        assert "Nothing was changed. Try again later." in page.content.decode()
    assert len(mail.outbox) == 2


def test_strangers_cannot_keep_a_user_from_a_link_on_a_known_device(alice):
    browser = Client()
    browser.post(SIGN_IN, {"login": ALICE, "password": factories.PASSWORD})
    del browser.cookies["sessionid"]
    for _ in range(3):
        ask()
    assert len(mail.outbox) == 2
    for _ in range(3):
        ask(client=browser)
    assert len(mail.outbox) == 4  # a known device is limited, too


def test_all_mails_that_strangers_cause_are_limited_together(db, settings):
    settings.MAILS_PER_HOUR = 4
    before = refused("gateway")
    for number in range(4):
        ask(f"user{number}@example.org")
    assert len(mail.outbox) == 2
    assert refused("gateway") == before + 2


def test_what_the_gateway_is_refused_uses_up_nothing_of_the_mailbox(db, settings):
    settings.MAILS_PER_HOUR = 2
    ask("somebody.else@example.org")
    for _ in range(3):
        ask()
    assert sent_to(ALICE) == 0
    SignInLimit.objects.filter(digest=limits.mails_limit(mails.Cause.STRANGER.value).digest).delete()
    limits._next_attempts.clear()
    ask()
    assert sent_to(ALICE) == 1


def test_what_a_mailbox_is_refused_uses_up_nothing_of_the_others(db, settings):
    settings.MAILS_PER_HOUR = 6
    for _ in range(5):
        ask()
    ask("somebody.else@example.org")
    assert len(mail.outbox) == 3


def test_a_mail_that_is_known_to_be_refused_needs_no_database():
    limit = limits.mailbox_limit(ALICE, mails.Cause.EVENT.value)
    limits._next_attempts.put(limit.digest, time.monotonic() + 60)
    with pytest.raises(mails.NotSent, match="the limit of mails of the mailbox is reached"):
        mails.deliver(ALICE, "changed", change="Changed.", link="")
