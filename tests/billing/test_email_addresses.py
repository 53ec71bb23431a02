"""One spelling of each email address, wherever one is typed."""

import json
from importlib import import_module
from io import StringIO

import pytest
from allauth.account.models import EmailAddress
from django.apps import apps
from django.core import mail
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client

from billing import email_addresses
from billing.models import Invitation, SignInLimit, User
from billing.sign_in import limits
from tests.pages.conftest import owner, owner_of  # noqa: F401  fixtures

EMAIL = "ann@example.org"
SAME = {  # as EMAIL: mail software maps each to the same domain
    "upper case": "Ann@EXAMPLE.org",
    "around it": " ann@example.org ",
    "soft hyphen": "ann@exam\u00adple.org",
    "soft hyphen at the end": "ann@example.org\u00ad",
    "zero width space": "ann@exam\u200bple.org",
    "word joiner": "ann@exam\u2060ple.org",
    "byte order mark": "ann@\ufeffexample.org",
    "invisible times": "ann@example\u2062.org",
    "variation selector": "ann@exam\ufe0fple.org",
    "combining grapheme joiner": "ann@exam\u034fple.org",
    "full width": "ann@\uff45\uff58\uff41\uff4d\uff50\uff4c\uff45.org",
    "full width at sign": "ann\uff20example.org",
    "ideographic full stop": "ann@example\u3002org",
    "full width full stop": "ann@example\uff0eorg",
    "mathematical letters": "ann@\U0001d41e\U0001d431ample.org",
    "letters in circles": "ann@\u24d4\u24e7ample.org",
    "long s, ligature and Kelvin apart": "ann@example.or\u210a",
    "several": "ann@\u00ade\u200bx\u2060ample\u3002ORG",
}
OTHERS = {
    "bücher.example": "xn--bcher-kva.example",
    "BÜCHER.example": "xn--bcher-kva.example",
    "bu\u0308cher.example": "xn--bcher-kva.example",
    "b\u00adücher.example": "xn--bcher-kva.example",
    "XN--BCHER-KVA.example": "xn--bcher-kva.example",
    "straße.example": "xn--strae-oqa.example",  # another domain than strasse.example since IDNA 2008
    "ex\u0430mple.org": "xn--exmple-4nf.org",  # a Cyrillic letter
    "例え。テスト": "xn--r8jz45g.xn--zckzah",
    "نامه\u200cای.example": "xn--mgba3gch31f060k.example",  # a joiner that this word needs
    "[192.0.2.1]": "[192.0.2.1]",
    "localhost": "localhost",
}
NONE = [
    "exam\u200dple.org",
    "exam\u200cple.org",
    "exam\u202eple.org",
    "\u00ad.org",
    "a_\u00adb.org",
    "-\u00ada.org",
    "\u00ad",
    "ü" * 80,
]


@pytest.mark.parametrize("typed", SAME.values(), ids=SAME)
def test_each_spelling_of_a_domain_is_one_address(typed):
    assert email_addresses.read(typed) == EMAIL
    assert limits.mailbox(typed) == EMAIL


@pytest.mark.parametrize(("typed", "domain"), OTHERS.items(), ids=ascii)
def test_a_domain_is_stored_in_ascii(typed, domain):
    assert email_addresses.read(f"ann@{typed}") == f"ann@{domain}"
    assert email_addresses.read(f"ann@{domain}") == f"ann@{domain}"


@pytest.mark.parametrize("domain", NONE, ids=ascii)
def test_what_can_be_no_domain_is_no_address_and_has_no_limit_of_its_own(domain):
    with pytest.raises(ValidationError):
        email_addresses.read(f"ann@{domain}")
    assert email_addresses.canonical(f"ann@{domain}") == ""


@pytest.mark.parametrize("name", ['"ann"', '"a\\nn"', '"\\a\\n\\n"', "\uff02ann\uff02", '"ann+1"', '"a@b"'], ids=ascii)
def test_a_name_in_quotes_is_no_address_and_has_no_limit_of_its_own(name):
    with pytest.raises(ValidationError):
        email_addresses.read(f"{name}@example.org")
    assert email_addresses.canonical(f"{name}@example.org") == ""


@pytest.mark.parametrize(
    "typed",
    ["", "@", "ann", "ann@", "@example.org", "a\u00adnn@example.org", f"{'a' * 250}@example.org", "ann@" + "ü." * 120 + "org"],
)
def test_other_text_is_no_address(typed):
    with pytest.raises(ValidationError):
        email_addresses.read(typed)


@pytest.fixture
def mails_per_mailbox(settings):
    settings.SIGN_UP, settings.SIGN_UP_DOMAINS, settings.MAILBOX_MAILS_PER_DAY = True, [], 4  # two at once
    return 2


@pytest.mark.parametrize("path", ["/accounts/signup/", "/accounts/password/reset/"])
def test_all_spellings_share_the_limit_of_mails_to_one_mailbox(db, mails_per_mailbox, path):
    for place, typed in enumerate(SAME.values()):
        reply = Client(REMOTE_ADDR=f"192.0.2.{place}").post(path, {"email": typed})
        assert "Check your email" in reply.content.decode() or reply.status_code == 429, typed
    assert [message.to for message in mail.outbox] == [[EMAIL]] * mails_per_mailbox
    before = SignInLimit.objects.count()
    for domain in NONE:
        assert "Enter a valid email address." in Client().post(path, {"email": f"ann@{domain}"}).content.decode()
    assert (len(mail.outbox), SignInLimit.objects.count()) == (mails_per_mailbox, before)


def test_whoever_signed_up_signs_in_with_each_spelling(db):
    User.objects.create_user("ann@exam\u00adple.org", "a wholly new sentence")
    assert User.objects.get().email == EMAIL
    for place, typed in enumerate(SAME.values()):
        sent = {"login": typed, "password": "a wholly new sentence"}
        assert Client(REMOTE_ADDR=f"192.0.2.{place}").post("/accounts/login/", sent).status_code == 302, typed
        SignInLimit.objects.all().delete()


def test_all_spellings_share_the_limit_of_attempts_to_sign_in(db):
    for domain in NONE:
        Client().post("/accounts/login/", {"login": f"ann@{domain}", "password": "wrong"})
    none = SignInLimit.objects.count()
    for typed in list(SAME.values())[:4]:
        Client().post("/accounts/login/", {"login": typed, "password": "wrong"})
    assert SignInLimit.objects.count() == none + 1


def test_only_the_named_domains_sign_up_in_each_spelling(db, mails_per_mailbox, settings):
    settings.SIGN_UP_DOMAINS = ["Bücher.example"]
    Client().post("/accounts/signup/", {"email": "ann@b\u00adücher.example"})
    assert [message.to for message in mail.outbox] == [["ann@xn--bcher-kva.example"]]


def test_an_invitation_and_a_change_have_the_one_spelling(owner, alice):  # noqa: F811
    owner.post("/dashboard/members/invite/", {"email": "bob@exam\u00adple.org", "role": "VIEWER", "account": alice.pk})
    owner.post("/accounts/email/", {"email": "ann@exam\u200bple.org"})
    assert list(Invitation.objects.values_list("email", flat=True)) == ["bob@example.org"]
    assert owner_of(alice).address_changes.get().address == EMAIL


def test_staff_and_operators_make_one_user(admin_client, db):
    for typed in ("ann@exam\u00adple.org", "ann@exam\u2060ple.org"):
        admin_client.post("/admin/billing/user/add/", {"email": typed})
    found = StringIO()
    call_command("create_account", "ann@example\u3002org", "--json", stdout=found)
    call_command("create_account", "ann@exam\u034fple.org", "--json", stdout=found)
    first, second = map(json.loads, found.getvalue().splitlines())
    assert (first, User.objects.filter(email__startswith="ann").get().email) == (second, EMAIL)
    with pytest.raises(CommandError, match="EMAIL: .* is not an email address"):
        call_command("create_account", "ann@exam\u200dple.org")


def test_former_spellings_are_brought_to_the_one_unless_it_is_taken(db):
    for email in ("ann@müller.example", "bea@xn--mller-kva.example", "bea@müller.example"):
        user = User.objects.create_user(f"made-{len(email)}-{User.objects.count()}@example.org")
        User.objects.filter(pk=user.pk).update(email=email)
        EmailAddress.objects.create(user=user, email=email)
    import_module("billing.migrations.0018_addresses_have_one_spelling").respell(apps, None)
    kept = {"ann@xn--mller-kva.example", "bea@xn--mller-kva.example", "bea@müller.example"}
    assert set(User.objects.values_list("email", flat=True)) >= kept
    assert set(EmailAddress.objects.values_list("email", flat=True)) == kept
