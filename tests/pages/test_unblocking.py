"""Support finds what blocks a sign-in by the address, and unblocks it."""

import pytest
from django.test import Client

from billing.models import SignInLimit
from billing.sign_in import limits
from billing.sign_in.mails import Cause
from billing.staff import unblocking
from gateway_project.activity.models import Activity
from tests import factories
from tests.billing.sign_in.attempts import ALICE, BURST, BURST_OF_ADDRESS, _slow_rates, attempt, use_up
from tests.pages.conftest import make_staff, owner_of, signed_in
from tests.pages.desk_pages import send

__all__ = ["_slow_rates"]

PERMISSIONS = ["billing.view_account", "billing.view_signinlimit", "billing.unblock_sign_in"]
PAGE = "/admin/billing/signinlimit/unblock/"


@pytest.fixture
def support(db):
    return signed_in(make_staff("support@example.org", PERMISSIONS))


def page(address):
    return f"{PAGE}?address={address}"


def text(reply):
    return " ".join(reply.content.decode().split())


def unblock(client, address, **fields):
    return send(client, page(address), {"reason": "Called back", "ticket": "T-1", **fields})


def test_a_user_with_too_many_failures_is_found_and_signs_in_once_unblocked(support, alice):
    use_up()
    assert attempt(password=factories.PASSWORD).status_code == 429
    assert "cannot sign in now" in text(support.get("/admin/search/", {"q": ALICE}))
    shown = text(support.get(page(ALICE)))
    assert "Attempts to sign in on a new device: <strong>used up</strong>" in shown
    assert unblock(support, ALICE).status_code == 302
    assert not SignInLimit.objects.filter(pk=limits.user_limit(ALICE).digest).exists()
    assert attempt(password=factories.PASSWORD).status_code == 302
    act = Activity.objects.get(act="UNBLOCKED")
    assert (act.object_type, act.object_id, act.reason, act.ticket) == (
        "billing.user",
        str(owner_of(alice).pk),
        "Called back",
        "T-1",
    )
    assert f"Unblocked {ALICE}: Attempts to sign in on a new device" in act.summary
    assert "No limit of" in text(support.get(page("nobody@example.org")))


def test_a_known_device_is_found_and_unblocked(support, alice):
    device = Client()
    assert attempt(password=factories.PASSWORD, client=device).status_code == 302
    device.post("/dashboard/sign-out/")
    for _ in range(BURST):
        assert attempt(client=device).status_code == 200
    assert attempt(client=device, password=factories.PASSWORD).status_code == 429
    assert "Attempts to sign in on a device that is known: <strong>used up</strong>" in text(support.get(page(ALICE)))
    unblock(support, ALICE)
    assert attempt(client=device, password=factories.PASSWORD).status_code == 302


def test_a_network_that_failed_as_many_users_is_found_and_unblocked(support, alice):
    for number in range(BURST_OF_ADDRESS):
        attempt(f"user{number}@example.org")
    assert attempt(password=factories.PASSWORD).status_code == 429
    assert support.get("/admin/search/", {"q": "192.0.2.1"})["Location"] == page("192.0.2.1")
    assert unblock(support, "192.0.2.1").status_code == 302
    assert attempt(password=factories.PASSWORD).status_code == 302
    assert Activity.objects.get(act="UNBLOCKED").object_type == "billing.signinlimit"


# What a member of staff types, and the address whose limits it means.
TYPED = {
    "alice@example.org": ALICE,
    " Alice@Example.ORG ": ALICE,
    "ALICE@example.org": ALICE,
    "192.0.2.1": "192.0.2.1",
    "192.0.2.1:443": "192.0.2.1",
    "::ffff:192.0.2.1": "192.0.2.1",
    "2001:db8::7": "2001:db8::/64",
    "2001:db8::/64": "2001:db8::/64",
    "[2001:db8::7]:443": "2001:db8::/64",
    "alice": "",
    "": "",
    "999.1.1.1": "",
}


def test_each_spelling_of_an_address_means_its_limits(support, subtests):
    for typed, meant in TYPED.items():
        with subtests.test(typed):
            assert unblocking.read_address(typed) == meant
            assert support.get(PAGE, {"address": typed}).status_code == (200 if meant else 404)


def test_each_limit_of_a_person_and_of_a_network_is_found_by_the_address(support, alice, subtests):
    user = owner_of(alice)
    of_person = [limits.user_limit(ALICE), limits.success_limit(ALICE), limits.security_limit(ALICE)]
    of_person += [limits.second_factor_limit(user.pk), limits.device_limit("some device", ALICE)]
    of_person += [limits.mailbox_limit(ALICE, cause.value) for cause in Cause]
    network = "192.0.2.1"
    of_network = [limits.address_limit(network), limits.passkey_limit(network), limits.identity_limit(network)]
    of_network += [limits.mail_request_limit(network), limits.kept_form_limits(network)[0]]
    for address, each in [*((ALICE, each) for each in of_person), *((network, each) for each in of_network)]:
        with subtests.test(each.subject):
            limits.count_attempt([each])
            assert each.digest in {used.row.pk for used in unblocking.find(address)}
            listed = text(support.get("/admin/billing/signinlimit/", {"q": address}))
            assert each.digest in listed
    limits.count_attempt([limits.user_limit("bob@example.org"), limits.device_limit("some device", "bob@example.org")])
    assert len(unblocking.find(ALICE)) == len(of_person)


def test_unblocking_needs_a_reason_and_is_done_once(support, alice):
    use_up()
    assert "This field is required" in text(unblock(support, ALICE, reason=""))
    assert attempt(password=factories.PASSWORD).status_code == 429
    assert not Activity.objects.filter(act="UNBLOCKED").exists()


@pytest.mark.parametrize("missing", PERMISSIONS[1:])
def test_it_needs_both_permissions(alice, missing):
    client = signed_in(make_staff("less@example.org", [each for each in PERMISSIONS if each != missing]))
    use_up()
    assert client.get(page(ALICE)).status_code == 403
    assert client.post(page(ALICE), {"reason": "x"}).status_code == 403
    assert attempt(password=factories.PASSWORD).status_code == 429


def test_only_a_superuser_unblocks_a_colleague(support, superuser, db):
    colleague = make_staff("colleague@example.org", [])
    use_up(colleague.email)
    assert "is a colleague" in text(support.get(page(colleague.email)))
    assert support.post(page(colleague.email), {"reason": "x"}).status_code == 403
    assert unblock(superuser, colleague.email).status_code == 302


def test_the_page_of_the_account_leads_there(support, alice):
    assert f"{PAGE}?address=alice%40example.org" in text(support.get(f"/admin/billing/account/{alice.pk}/change/"))
