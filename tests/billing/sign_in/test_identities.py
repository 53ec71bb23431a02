"""Signing in and signing up with Google and GitHub, whose place a server of our own takes."""

from datetime import timedelta
from urllib.parse import urlsplit

import pytest
import requests
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.core import mail
from django.db.models import F
from django.test import Client

from billing.models import Account, Invitation, LedgerEntry, Membership, Role, User
from billing.sign_in import limits
from gateway_project.activity.models import Activity
from gateway_project.checks import check_identities
from tests import factories, second_factors, sessions
from tests.billing.members.invitation_forms import invite, link
from tests.billing.sign_in import identity_server
from tests.billing.sign_in.identity_server import Person
from tests.pages.conftest import make_staff, other_owner, owner, owner_of, rows, signed_in  # noqa: F401  fixtures
from tests.sessions import expire

LIST, DASHBOARD, SIGN_IN, CODE = "/accounts/3rdparty/", "/dashboard/", "/accounts/login/", "/accounts/2fa/authenticate/"
EMAIL, PROVIDERS = "ann@example.org", ["google", "github"]
ANN = Person("101", [(EMAIL, True)])


@pytest.fixture(autouse=True)
def elsewhere(settings, monkeypatch, db):
    """Google and GitHub, where Ann is signed in."""
    settings.SIGN_UP, settings.SIGN_UP_DOMAINS = True, []
    with identity_server.serving(settings, monkeypatch) as server:
        server.person = ANN
        yield server


@pytest.fixture(params=PROVIDERS)
def provider(request):
    return request.param


def leave(provider, client, **form):
    """Press the button. Return the address at the provider."""
    reply = client.post(f"/accounts/{provider}/login/", form)
    assert reply.status_code == 302, reply.content.decode()
    return reply["Location"]


def come_back(client, address):
    """Let the browser go there. Return our reply when it comes back."""
    back = urlsplit(requests.get(address, allow_redirects=False, timeout=300).headers["Location"])
    assert back.netloc == "testserver"
    return client.get(f"{back.path}?{back.query}")


def go(provider, client=None, **form):
    client = client or Client()
    return come_back(client, leave(provider, client, **form))


def connect(provider, client):
    return go(provider, client, process="connect")


def is_signed_in(client):
    return client.get("/accounts/sessions/").status_code == 200


def acts():
    return list(Activity.objects.order_by("id").values_list("summary", flat=True))


# --- Signing up ------------------------------------------------------------------------------------------------------


def test_a_person_signs_up_and_signs_in_again(provider):
    client = Client()
    assert go(provider, client, next="/dashboard/keys/")["Location"] == "/dashboard/keys/"
    assert client.get(DASHBOARD).status_code == 200
    user = User.objects.get()
    assert (user.email, user.has_usable_password(), user.is_staff) == (EMAIL, False, False)
    assert Account.objects.get().members.get() == user
    assert go(provider, other := Client())["Location"] == DASHBOARD
    assert is_signed_in(other)
    assert (User.objects.count(), Account.objects.count(), SocialAccount.objects.count()) == (1, 1, 1)
    [told] = acts()
    assert told.startswith("Signed up with G")
    assert not LedgerEntry.objects.exists()
    assert Activity.objects.get().account_id == Account.objects.get().pk


def test_only_the_address_is_kept_of_a_profile(provider):
    go(provider)
    go(provider)
    [kept] = SocialAccount.objects.values_list("extra_data", flat=True)
    assert kept == ({"email": EMAIL} if provider == "google" else {"login": "ann"})
    assert not SocialToken.objects.exists()
    assert not EmailAddress.objects.exists()


def test_an_address_counts_only_if_the_provider_has_verified_it(provider, elsewhere, rows):  # noqa: F811
    elsewhere.person, before = Person("101", [(EMAIL, False)]), rows()
    reply = go(provider, client := Client())
    assert (reply.status_code, is_signed_in(client)) == (403, False)
    assert "has not verified your email address" in reply.content.decode()
    assert rows() == before


def test_github_names_several_addresses_of_which_one_may_sign_up(elsewhere, settings):
    settings.SIGN_UP_DOMAINS = ["example.com", "users.noreply.github.com"]
    others = [("1+ann@users.noreply.github.com", True), ("ann@example.com", False)]
    elsewhere.person = Person("101", [(EMAIL, True), *others])
    assert "ann@example.org belongs to another" in go("github").content.decode()
    elsewhere.person = Person("101", [(EMAIL, True), *others, ("Ann.B@Example.com", True)])
    go("github")
    assert User.objects.get().email == "ann.b@example.com"


def test_sign_up_that_is_off_or_bound_is_so_with_an_identity(provider, settings, rows):  # noqa: F811
    before = rows()
    settings.SIGN_UP = False
    assert (
        "You need an invitation to open an account, and ann@example.org has none."
        in go(provider, client := Client()).content.decode()
    )
    settings.SIGN_UP, settings.SIGN_UP_DOMAINS = True, ["example.com"]
    assert "ann@example.org belongs to another" in go(provider, client).content.decode()
    assert (rows(), is_signed_in(client)) == (before, False)


def test_a_person_who_signs_up_with_an_identity_gets_the_trial_credit_once(provider, settings):
    settings.TRIAL_CREDIT_CENTS = 150
    client = Client()
    for _ in range(2):
        go(provider, client)
    assert LedgerEntry.objects.get().title == "Trial credit"
    assert Account.objects.get().balance_nanos == 1_500_000_000


def test_who_is_invited_signs_up_with_an_identity_and_joins(provider, owner, alice, settings):  # noqa: F811
    settings.SIGN_UP, settings.TRIAL_CREDIT_CENTS = False, 150
    invite(owner, alice, EMAIL, Role.BILLING)
    path, client = link(), Client()
    page = client.get(path).content.decode()
    assert f'name="next" value="{path}"' in page
    assert go(provider, client, next=path)["Location"] == path
    assert "Join account" in client.get(path).content.decode()
    client.post("/dashboard/members/join/", {"key": path.partition("?key=")[2]})
    assert Membership.objects.get(user__email=EMAIL).role == Role.BILLING
    assert Account.objects.count() == 1  # no other of their own
    assert not LedgerEntry.objects.filter(reference__startswith="trial:").exists()


def test_an_invitation_that_ended_lets_nobody_sign_up(owner, alice, settings):  # noqa: F811
    settings.SIGN_UP = False
    invite(owner, alice, EMAIL)
    Invitation.objects.update(expires_at=F("created_at") + timedelta(seconds=-1))
    assert go("google").status_code == 403
    invite(owner, alice, EMAIL)
    owner.post(f"/dashboard/members/invitations/{Invitation.objects.get(revoked_at=None).pk}/revoke/")
    assert go("google").status_code == 403


# --- Users with the same address ---------------------------------------------------------------------------------------


def test_the_same_address_joins_nobody_to_a_user(provider, elsewhere, alice, rows):  # noqa: F811
    """Who got at an address elsewhere gets nothing here; and who opened an account here with it keeps no way in."""
    elsewhere.person, before = Person("7", [("Alice@example.org", True)]), rows()
    reply = go(provider, client := Client())
    assert (reply.status_code, is_signed_in(client)) == (403, False)
    assert "alice@example.org already signs in here, but not with G" in reply.content.decode()
    assert (rows(), SocialAccount.objects.count()) == (before, 0)


def test_who_signs_in_as_before_connects_an_identity_and_then_signs_in_with_it(
    provider, elsewhere, alice, django_capture_on_commit_callbacks
):
    elsewhere.person = Person("7", [("alice.private@example.com", True)], login="alice7")
    client = Client()
    client.post(SIGN_IN, {"login": "alice@example.org", "password": factories.PASSWORD, "next": LIST})
    with django_capture_on_commit_callbacks(execute=True):
        assert connect(provider, client)["Location"] == LIST
    known = "Google (alice.private@example.com)" if provider == "google" else "GitHub (alice7)"
    assert f"You can now sign in with {known}." in client.get(LIST).content.decode()
    assert acts() == [f"Connected {known} for signing in."]
    assert (mail.outbox[0].to, known in mail.outbox[0].body) == (["alice@example.org"], True)
    go(provider, other := Client())
    assert "alice@example.org" in other.get(LIST).content.decode()
    assert owner_of(alice).email == "alice@example.org"
    assert f"{known} is already connected." in client.get(connect(provider, client)["Location"]).content.decode()
    assert SocialAccount.objects.count() == 1


def test_an_identity_of_one_user_is_not_connected_to_another(provider, owner, other_owner):  # noqa: F811
    connect(provider, owner)
    page = other_owner.get(connect(provider, other_owner)["Location"]).content.decode()
    assert "is connected to another user" in page
    assert SocialAccount.objects.get().user.email == "alice@example.org"


# --- What holds for every sign-in ----------------------------------------------------------------------------------------


def test_a_second_factor_is_asked_for(provider, owner, alice):  # noqa: F811
    connect(provider, owner)
    second_factors.give_app(owner_of(alice))
    client = Client()
    assert go(provider, client, next="/dashboard/keys/")["Location"] == CODE
    assert not is_signed_in(client)
    assert client.post(CODE, {"code": second_factors.code()})["Location"] == "/dashboard/keys/"
    assert is_signed_in(client)


def test_staff_without_a_second_factor_must_set_one_up(provider, settings):
    settings.STAFF_NEED_SECOND_FACTOR = True
    connect_as = make_staff("support@example.org", [])
    settings.STAFF_NEED_SECOND_FACTOR = False
    connect(provider, signed_in(connect_as))
    settings.STAFF_NEED_SECOND_FACTOR = True
    assert go(provider, client := Client())["Location"] == "/admin/"
    assert [client.get(path)["Location"] for path in ("/admin/", DASHBOARD, LIST)] == ["/accounts/2fa/"] * 3


def test_a_closed_sign_in_stays_closed(provider, owner, alice):  # noqa: F811
    connect(provider, owner)
    User.objects.filter(pk=owner_of(alice).pk).update(is_active=False)
    assert go(provider, client := Client())["Location"] == "/accounts/inactive/"
    assert not is_signed_in(client)


def test_a_closed_account_is_shown_as_with_a_password(provider, owner, alice):  # noqa: F811
    connect(provider, owner)
    Account.objects.update(is_active=False)
    go(provider, client := Client())
    assert "This account is closed" in client.get(DASHBOARD).content.decode()


def test_a_sign_in_appears_in_the_list_of_sessions_and_makes_the_device_known(provider, owner):  # noqa: F811
    connect(provider, owner)
    go(provider, client := Client())
    assert "This one" in client.get("/accounts/sessions/").content.decode()
    assert "device" in client.cookies


# --- Between here and the provider -------------------------------------------------------------------------------------


def test_only_a_form_of_ours_begins_a_sign_in(provider, elsewhere):
    client = Client(enforce_csrf_checks=True)
    assert "Continue with G" in client.get(f"/accounts/{provider}/login/").content.decode()
    assert client.post(f"/accounts/{provider}/login/").status_code == 403
    assert Client().post(f"/accounts/{provider}/login/", {"process": "redirect"}).status_code == 400
    assert elsewhere.asked == []


def test_the_provider_is_asked_for_the_address_only(provider, elsewhere):
    go(provider)
    assert set(elsewhere.asked[0]["scope"].split()) == ({"openid", "email"} if provider == "google" else {"user:email"})


def test_a_reply_of_the_provider_counts_once_and_in_the_browser_that_asked(provider, elsewhere):
    client = Client()
    address = leave(provider, client)
    back = urlsplit(requests.get(address, allow_redirects=False, timeout=300).headers["Location"])
    path = f"{back.path}?{back.query}"
    assert Client().get(path)["Location"] == SIGN_IN  # another browser: its state is unknown
    assert elsewhere.exchanges == 0
    assert client.get(path)["Location"] == DASHBOARD
    client.post("/accounts/logout/")
    assert client.get(path)["Location"] == SIGN_IN
    assert elsewhere.exchanges == 1


@pytest.mark.parametrize("way", ["declined", "down", "unreachable", "forged code"])
def test_a_provider_that_does_not_confirm_signs_in_nobody(provider, way, elsewhere, monkeypatch, caplog, rows):  # noqa: F811
    before, client = rows(), Client()
    elsewhere.person, elsewhere.is_down = (None if way == "declined" else ANN), way == "down"
    address = leave(provider, client)
    back = urlsplit(requests.get(address, allow_redirects=False, timeout=300).headers["Location"])
    if way == "unreachable":
        from billing.sign_in.identities import _ADAPTERS

        monkeypatch.setattr(_ADAPTERS[provider], "access_token_url", "http://127.0.0.1:1/")
    if way == "forged code":
        elsewhere.codes.clear()
    reply = client.get(f"{back.path}?{back.query}", follow=True)
    assert "did not confirm who you are. Nothing was changed." in reply.content.decode()
    assert (rows(), is_signed_in(client)) == (before, False)
    assert "from 127.0.0.1 failed" in caplog.text
    assert "invalid_grant" not in caplog.text


@pytest.mark.parametrize("claim", ["issuer", "audience"])
def test_an_id_token_of_another_issuer_or_for_another_client_counts_for_nothing(claim, elsewhere, rows):  # noqa: F811
    before = rows()
    setattr(elsewhere, claim, "https://example.com")
    assert go("google")["Location"] == SIGN_IN
    assert rows() == before


def test_a_sign_in_leads_to_no_other_site():
    assert go("google", next="https://example.com/")["Location"] == DASHBOARD


def test_beginning_to_sign_in_is_limited(monkeypatch):
    monkeypatch.setitem(limits.RATES, "address", limits.Rate(2, 3_600))
    client = Client()
    assert [client.post("/accounts/google/login/").status_code for _ in range(3)] == [302, 302, 429]


def test_forms_may_lead_to_the_providers_on_pages_that_do(elsewhere, owner):  # noqa: F811
    def allowed(path, client):
        return elsewhere.origin in client.get(path)["Content-Security-Policy"].partition("form-action")[2]

    assert all(allowed(path, Client()) for path in (SIGN_IN, "/accounts/signup/", "/accounts/google/login/"))
    assert allowed(LIST, owner)
    assert not allowed(DASHBOARD, owner)


@pytest.mark.parametrize("missing", PROVIDERS)
def test_a_provider_that_is_not_configured_is_not_there(missing, settings):
    settings.SOCIALACCOUNT_PROVIDERS = {id: app for id, app in settings.SOCIALACCOUNT_PROVIDERS.items() if id != missing}
    assert Client().post(f"/accounts/{missing}/login/").status_code == 404
    assert Client().get(f"/accounts/{missing}/login/callback/").status_code == 404
    [other] = [name for name in PROVIDERS if name != missing]
    page = Client().get(SIGN_IN).content.decode()
    assert (f"/accounts/{other}/login/" in page, f"/accounts/{missing}/login/" in page) == (True, False)


@pytest.mark.parametrize(
    ("client", "found"), [(("", ""), []), (("id", "secret"), []), (("id", ""), ["E030"]), (("", "secret"), ["E030"])]
)
def test_half_a_configuration_is_found(client, found, settings):
    settings.IDENTITY_CLIENTS = {"google": client, "github": ("", "")}
    assert [finding.id for finding in check_identities()] == [f"gateway.{number}" for number in found]


# --- The list of one's own -----------------------------------------------------------------------------------------------


def test_an_identity_is_disconnected_and_signs_in_no_more(provider, owner, alice, django_capture_on_commit_callbacks):  # noqa: F811
    connect(provider, owner)
    with django_capture_on_commit_callbacks(execute=True):
        page = owner.post(LIST, {"account": SocialAccount.objects.get().pk}, follow=True).content.decode()
    assert "You can no longer sign in with it" in page
    assert "Nothing is connected." in page
    assert acts()[-1].startswith("Disconnected G")
    assert "Disconnected G" in mail.outbox[-1].body
    go(provider, other := Client())
    assert owner_of(alice).email not in other.get(LIST).content.decode()  # somebody new


def test_the_last_way_in_is_not_disconnected(provider, settings):
    go(provider, client := Client())
    identity = SocialAccount.objects.get()
    assert "This is your only way to sign in." in client.post(LIST, {"account": identity.pk}).content.decode()
    other = "github" if provider == "google" else "google"
    connect(other, client)
    providers = settings.SOCIALACCOUNT_PROVIDERS
    settings.SOCIALACCOUNT_PROVIDERS = {provider: providers[provider]}  # with the other one nobody signs in any more
    assert "This is your only way to sign in." in client.post(LIST, {"account": identity.pk}).content.decode()
    settings.SOCIALACCOUNT_PROVIDERS = providers
    assert client.post(LIST, {"account": identity.pk}).status_code == 302
    assert [identity.provider for identity in SocialAccount.objects.all()] == [other]


def test_nobody_disconnects_the_identity_of_somebody_else(owner, other_owner):  # noqa: F811
    connect("google", other_owner)
    owner.post(LIST, {"account": SocialAccount.objects.get().pk})
    assert SocialAccount.objects.count() == 1
    assert Client().post(LIST)["Location"].startswith(SIGN_IN)


def test_connecting_and_disconnecting_need_the_password(provider, owner, elsewhere):  # noqa: F811
    connect(provider, owner)
    expire(owner)
    form = {"account": SocialAccount.objects.get().pk}
    assert "Confirm with your password" in owner.post(LIST, form).content.decode()
    path = f"/accounts/{provider}/login/"
    assert "Confirm with your password" in owner.post(path, {"process": "connect"}).content.decode()
    assert "Confirm with your password" in owner.post(f"{path}?process=connect").content.decode()
    assert (SocialAccount.objects.count(), len(elsewhere.asked)) == (1, 1)
    reply = owner.post(path, {"process": "connect", "current_password": factories.PASSWORD})
    assert reply["Location"].startswith(elsewhere.origin)
    assert Client().post(path, {"process": "connect"})["Location"].startswith(SIGN_IN)


def test_who_has_no_password_confirms_by_signing_in_again(provider, elsewhere):
    go(provider, client := Client())
    expire(client)
    invitation = {"email": "bob@example.org", "role": "VIEWER", "account": Account.objects.get().pk}
    asked = client.post("/dashboard/members/invite/", invitation)
    page = asked.content.decode()
    assert "You signed in more than 15 minutes ago. Sign in again below" in page
    assert 'name="current_password"' not in page
    assert elsewhere.origin in asked["Content-Security-Policy"]
    assert go(provider, client, next="/dashboard/members/invite/")["Location"] == "/dashboard/members/invite/"
    assert client.post("/dashboard/members/invite/", invitation).status_code == 302
    assert Invitation.objects.count() == 1


def test_another_user_in_the_same_browser_gets_nothing_of_what_was_begun(provider, alice, charlie):
    """A sign-out between the button and the provider's reply ends what was begun."""
    client = signed_in(owner_of(alice))
    address = leave(provider, client, process="connect")
    client.post("/accounts/logout/")
    sessions.sign_in(client, owner_of(charlie))
    assert come_back(client, address)["Location"] in (SIGN_IN, LIST)
    assert not SocialAccount.objects.exists()


def test_who_has_no_password_sets_one_by_mail_which_names_the_other_ways_in(provider, django_capture_on_commit_callbacks):
    go(provider, client := Client())
    assert "You have no password" in client.get("/dashboard/password/").content.decode()
    client.post("/accounts/password/reset/", {"email": EMAIL})
    key, new = link().partition("?key=")[2], "a wholly new sentence"
    with django_capture_on_commit_callbacks(execute=True):
        Client().post("/accounts/password/link/", {"key": key, "new_password1": new, "new_password2": new})
    assert "can sign in as you." in mail.outbox[-1].body
    other = Client()
    assert other.post(SIGN_IN, {"login": EMAIL, "password": new})["Location"] == DASHBOARD
    assert other.post(LIST, {"account": SocialAccount.objects.get().pk}).status_code == 302  # it is not the last way in now
