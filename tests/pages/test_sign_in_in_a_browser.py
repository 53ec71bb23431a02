"""Signing up, invitations, passkeys and authenticator apps in a real Chromium, with its virtual authenticator."""

import pytest
from allauth.mfa.models import Authenticator

from tests import browser, factories, second_factors
from tests.billing.sign_in import identity_server

STAFF = "support@example.org"
PHONE_OR_DARK = pytest.mark.parametrize(
    "options",
    [pytest.param(browser.PHONE, id="phone"), pytest.param({"color_scheme": "dark"}, id="dark", marks=pytest.mark.long)],
)


@pytest.fixture
def _required(settings):
    settings.STAFF_NEED_SECOND_FACTOR = True


def with_authenticator(page):
    """Give the page's browser a device that has passkeys, and confirms each."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return page


def sign_out(page):
    page.locator("details.menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/accounts/login/")


@pytest.mark.usefixtures("_required")
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_staff_set_up_a_passkey_and_sign_in_with_it_alone(open_page, scheme):
    factories.make_user(STAFF, is_staff=True, is_superuser=True)
    page = with_authenticator(open_page(color_scheme=scheme))
    page.goto("/admin/")
    page.get_by_label("mail").fill(STAFF)
    page.get_by_label("Password").fill(factories.PASSWORD)
    browser.look(page, f"sign-in-{scheme}")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/accounts/2fa/")
    browser.look(page, f"second-factor-{scheme}")
    page.get_by_role("link", name="Add a passkey").click()
    browser.look(page, f"passkey-{scheme}")
    page.get_by_role("button", name="Add passkey").click()
    page.wait_for_url("**/recovery-codes/")
    page.get_by_text("Save these codes now").wait_for()
    browser.look(page, f"recovery-codes-{scheme}")
    page.goto("/accounts/2fa/")
    page.get_by_text("No password needed").wait_for()
    browser.look(page, f"second-factors-{scheme}")
    page.goto("/accounts/sessions/")
    browser.look(page, f"sessions-{scheme}")
    page.goto(f"/accounts/2fa/webauthn/keys/{Authenticator.objects.get(type='webauthn').pk}/remove/")
    browser.look(page, f"passkey-remove-{scheme}")
    sign_out(page)
    page.goto("/admin/")
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url("**/admin/")
    assert [factor.type for factor in Authenticator.objects.order_by("id")] == ["webauthn", "recovery_codes"]


def test_after_the_password_a_passkey_is_the_second_factor(open_page, alice):
    page = with_authenticator(open_page())
    browser.sign_in(page, "alice@example.org")
    page.goto("/accounts/2fa/webauthn/add/")
    page.get_by_role("checkbox").uncheck()
    page.get_by_role("button", name="Add passkey").click()
    page.wait_for_url("**/recovery-codes/")
    page.goto("/dashboard/")
    sign_out(page)
    page.get_by_label("mail").fill("alice@example.org")
    page.get_by_label("Password").fill(factories.PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/2fa/authenticate/")
    browser.look(page, "one-more-step")
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url("**/dashboard/")


def test_an_app_is_set_up_without_scripts_on_a_telephone(open_page, alice):
    page = open_page(java_script_enabled=False, **browser.PHONE)
    browser.sign_in(page, "alice@example.org")
    page.goto("/accounts/2fa/totp/activate/")
    secret = page.locator("code").inner_text()
    browser.look(page, "app-phone")
    assert page.evaluate("document.querySelector('.qr').naturalWidth") > 100
    page.get_by_label("code").fill(second_factors.code(secret))
    page.get_by_role("button", name="Set up").click()
    page.get_by_text("Save these codes now").wait_for()
    for path in ("", "webauthn/add/", "totp/deactivate/", "recovery-codes/generate/"):
        page.goto(f"/accounts/2fa/{path}")
        browser.look(page, f"app-{path.replace('/', '-')}phone")


@PHONE_OR_DARK
def test_a_person_signs_up_and_changes_the_address(open_page, settings, tmp_path, db, options):
    settings.MAIL_DIR, settings.EMAIL_BACKEND = tmp_path, "gateway_project.mail.DirectoryBackend"
    page, name = open_page(**options), "phone" if "is_mobile" in options else "dark"
    page.goto("/accounts/login/")
    browser.look(page, f"login-{name}")
    page.get_by_role("link", name="Sign up").click()
    page.get_by_label("mail").fill("ann@example.org")
    browser.look(page, f"sign-up-{name}")
    page.get_by_role("button", name="Email me a link").click()
    page.get_by_role("heading", name="Check your email").wait_for()
    browser.look(page, f"mail-sent-{name}")
    page.get_by_role("link", name="read the email here").click()
    page.get_by_role("link", name="http").first.click()
    browser.look(page, f"sign-up-link-{name}")
    page.get_by_label("New password", exact=True).fill("a wholly new sentence")
    page.get_by_label("New password confirmation").fill("a wholly new sentence")
    page.get_by_role("button", name="Open account").click()
    page.wait_for_url("**/dashboard/")
    page.locator("details.menu summary").click()
    page.get_by_role("link", name="Email").click()
    page.get_by_label("mail").fill("ann@example.com")
    browser.look(page, f"email-{name}")
    assert browser.fits(page)
    page.get_by_role("button", name="Send link").click()
    page.get_by_role("link", name="read the email here").click()
    page.get_by_role("link", name="http").first.click()
    browser.look(page, f"confirm-{name}")
    page.get_by_role("button", name="Change address").click()
    page.get_by_text("You now sign in as ann@example.com").wait_for()
    page.goto("/mails/")
    page.get_by_role("link", name="/undo-email/").first.click()
    browser.look(page, f"undo-{name}")


@PHONE_OR_DARK
def test_a_person_signs_up_with_google_and_connects_github(open_page, settings, monkeypatch, options):
    settings.SIGN_UP, settings.SIGN_UP_DOMAINS = True, []
    name = "phone" if "is_mobile" in options else "dark"
    with identity_server.serving(settings, monkeypatch) as elsewhere:
        elsewhere.person = identity_server.Person("101", [("ann@example.org", True)])
        page = open_page(**options)
        page.goto("/accounts/signup/")
        browser.look(page, f"identity-sign-up-{name}")
        page.goto("/accounts/login/")
        browser.look(page, f"identity-login-{name}")
        page.get_by_role("button", name="Continue with Google").click()
        page.wait_for_url("**/dashboard/")
        page.goto("/accounts/3rdparty/")
        page.get_by_role("button", name="Connect GitHub").click()
        page.get_by_text("You can now sign in with GitHub (ann).").wait_for()
        browser.look(page, f"identities-{name}")
        assert browser.fits(page)
        page.get_by_role("button", name="Disconnect Google (ann@example.org)").click()
        page.get_by_text("You can no longer sign in with it").wait_for()
        page.get_by_role("button", name="Disconnect GitHub (ann)").click()
        page.get_by_text("This is your only way to sign in.").wait_for()
        browser.look(page, f"identity-last-{name}")
        elsewhere.person = None
        page.goto("/accounts/3rdparty/")
        page.get_by_role("button", name="Connect Google").click()
        page.get_by_text("Google did not confirm who you are.").wait_for()
