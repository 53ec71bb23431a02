"""What each role may do: every page and act of the dashboard, tried by each role, by a stranger, and signed out."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver

from billing.models import AccountAlert, AlertDelivery, Invitation, Membership, Payment, Role, WebhookEndpoint
from completions.models import OwnKey
from gateway_project.db import pool
from keys import management_keys
from keys.models import RefusedRequest, Run
from tests import factories
from tests.cases import undone
from tests.pages.conftest import key, rows, signed_in  # noqa: F401  fixtures

EVERYBODY, KEYS, PAYS, OWNS = "ODBV", "OD", "OB", "O"
# Pages of a user, which no account has: of the sign-in, and of what support asked for about this person.
OF_THE_USER = {"sign-in", "sign-out", "password", "support-requests", "withdraw-request"}


@dataclass(frozen=True)
class Case:
    """A page: who may open it, by the first letters of roles, what it then replies, and whether the form writes rows."""

    path: str
    who: str = EVERYBODY
    get: int = 200
    post: int = 405
    form: dict[str, str] = field(default_factory=dict)
    writes: bool = False


INVITED = {"email": "x@example.org", "role": "VIEWER", "account": "{account}"}
DETAILS = {"name": "Alice", "address": "1 High Street", "tax_id": ""}
BUDGET = {"amount": "7", "action": "WARN"}
NO_LIMIT = {"spending_type": "NONE", "account": "{account}"}
ROTATION = {"token": "0" * 22, "seen": '{{"secret": "mgw_live_…{last_four}"}}'}
REQUEST = {"model": "demo/echo", "prompt": "Hello", "max_tokens": "5", "account": "{account}"}
CASES = {
    "dashboard": Case(""),
    "budgets": Case("budgets/"),
    "new-budget": Case("budgets/new/", KEYS, post=302, form={"scope": "ACCOUNT", **BUDGET}, writes=True),
    "change-budget": Case("budgets/{budget}/", KEYS, post=302, form=BUDGET, writes=True),
    "delete-budget": Case("budgets/{budget}/delete/", KEYS, post=302, writes=True),
    "keys": Case("keys/"),
    "new-key": Case("keys/new/", KEYS, post=200, form={"name": "new", **NO_LIMIT}, writes=True),
    "limit-key": Case("keys/{key}/limit/", KEYS, post=302, form={"spending_type": "FIXED", "spending_limit": "5"}, writes=True),
    "key-lifetime": Case("keys/lifetime/", OWNS, post=302, form={"days": "90"}, writes=True),
    "apply-key-lifetime": Case("keys/lifetime/apply/", OWNS, get=405, post=302),  # no key is beyond it
    "find-key": Case("keys/find/", post=200, form={"secret": "mgw_live_"}),
    "management-keys": Case("keys/management/"),
    "new-management-key": Case("keys/management/new/", OWNS, post=200, form={"name": "deploy"}, writes=True),
    "revoke-management-key": Case("keys/management/{manager}/revoke/", OWNS, post=302, writes=True),
    "key": Case("keys/{key}/"),
    "change-key": Case("keys/{key}/change/", KEYS, post=302, form={"name": "other", "tags": "web"}, writes=True),
    "pause-key": Case("keys/{key}/pause/", KEYS, get=405, post=302, writes=True),
    "resume-key": Case("keys/{key}/resume/", KEYS, get=405, post=302),  # it is not paused
    "rotate-key": Case("keys/{key}/rotate/", KEYS, post=200, form={"grace_seconds": "0", **ROTATION}, writes=True),
    "end-former-secrets": Case("keys/{key}/former/end/", KEYS, get=405, post=302),  # there are none
    "revoke-key": Case("keys/{key}/revoke/", KEYS, post=302, writes=True),
    "playground": Case("playground/", KEYS, post=200, form=REQUEST, writes=True),
    "first-request": Case("start/", KEYS, post=200, form={"account": "{account}"}, writes=True),
    "send-first-request": Case("start/send/", KEYS, get=405, post=404, form={"account": "{account}"}),  # there is no key
    "playground-charge": Case("playground/charge/none/", get=404),
    "statement": Case("ledger/"),
    "statement-csv": Case("ledger.csv"),
    "monthly-statement": Case("ledger/2026/1/"),
    "usage": Case("usage/"),
    "usage-csv": Case("usage/usage.csv", get=405, post=200, writes=True),
    "usage-focus": Case("usage/focus.csv", get=405, post=200, writes=True),
    "requests": Case("requests/"),
    "requests-csv": Case("requests/export/", get=405, post=200, writes=True),
    "request": Case("requests/{refused}/"),
    "runs": Case("runs/"),
    "run": Case("runs/{key}/nightly/"),
    "billing": Case("billing/", PAYS, post=302, form={"amount": "12"}, writes=True),
    "billing-details": Case("billing/details/", PAYS, post=302, form=DETAILS, writes=True),
    "top-up": Case("billing/top-up/", PAYS, post=302, form={"off": "1"}),
    "cancel-payment": Case("billing/payments/{payment}/cancel/", PAYS, get=405, post=302),  # it has no page
    "retry-payment": Case("billing/payments/{payment}/retry/", PAYS, get=405, post=302),  # it is not over
    "payment": Case("billing/payments/{payment}/", PAYS),
    "receipt": Case("billing/payments/{payment}/receipt/", PAYS, get=404),  # it is not paid
    "invoice": Case("billing/payments/{payment}/invoice.pdf", PAYS, get=404),  # it is not paid
    "credit-note": Case("billing/credit-notes/none.pdf", PAYS, get=404),  # nothing was refunded
    "demo-payment": Case("billing/demo/none/", PAYS, get=404, post=404),
    "alerts": Case("alerts/"),
    "alert-threshold": Case("alerts/threshold/", PAYS, post=302, form={"threshold": "7"}, writes=True),
    "new-webhook": Case("alerts/webhooks/new/", KEYS, post=200, form={"url": "https://example.org/hook"}, writes=True),
    "webhook": Case("alerts/webhooks/{endpoint}/", KEYS),
    "rotate-webhook": Case("alerts/webhooks/{endpoint}/rotate/", KEYS, post=200, writes=True),
    "pause-webhook": Case("alerts/webhooks/{endpoint}/pause/", KEYS, get=405, post=302, form={"pause": ""}, writes=True),
    "test-webhook": Case("alerts/webhooks/{endpoint}/test/", KEYS, get=405, post=302, writes=True),
    "repeat-webhook": Case("alerts/webhooks/{endpoint}/again/", KEYS, post=200),  # only a test was sent
    "delete-webhook": Case("alerts/webhooks/{endpoint}/delete/", KEYS, post=302, writes=True),
    "send-delivery-again": Case("alerts/deliveries/{delivery}/again/", KEYS, get=405, post=302, writes=True),
    "settings": Case("settings/", OWNS),
    "data-demands": Case("settings/data/", OWNS, post=302, form={"data_policy": "deny"}, writes=True),
    "provider-keys": Case("settings/provider-keys/", OWNS),
    "new-provider-key": Case("settings/provider-keys/new/", OWNS, post=200),  # the button of the list opens the form
    "provider-key": Case(
        "settings/provider-keys/{own_key}/", OWNS, post=302, form={"models": "", "fallback": "ours"}, writes=True
    ),
    "remove-provider-key": Case("settings/provider-keys/{own_key}/remove/", OWNS, post=302, writes=True),
    "export": Case("settings/export/", OWNS, post=302, writes=True),
    "export-file": Case("settings/export/{payment}.zip", OWNS, get=404),  # it is none
    # Opening its page forgets the password: the form asks for it again.
    "close-account": Case("settings/close/", OWNS, post=200),
    "undo-closing": Case("settings/close/undo/", OWNS, get=405, post=302),  # it is not closed
    "emails": Case("settings/emails/", OWNS, post=302, form={"receipts": "on"}, writes=True),
    "rename-account": Case("settings/name/", OWNS, post=302, form={"name": "Renamed"}, writes=True),
    "activity": Case("settings/activity/", OWNS),
    "activity-csv": Case("settings/activity.csv", OWNS),
    "members": Case("members/"),
    "invite-member": Case(
        "members/invite/",
        OWNS,
        post=302,
        form=INVITED,
        writes=True,
    ),
    "revoke-invitation": Case("members/invitations/{invitation}/revoke/", OWNS, get=405, post=302, writes=True),
    "member-role": Case("members/{member}/role/", OWNS, post=302, form={"role": "BILLING"}, writes=True),
    "end-membership": Case("members/{member}/end/", OWNS, post=302, writes=True),
    "join": Case("members/join/", get=404, post=404),  # without a link
    "choose-account": Case("account/", get=405, post=302, form={"account": "{account}"}),
}


@pytest.fixture
def ids(alice, key):  # noqa: F811
    """What the paths and forms of the table name: rows of alice's account."""
    owner = alice.members.get()
    member = factories.add_member(account=alice, user=factories.make_user("other@example.org"), role=Role.VIEWER)
    manager, _ = management_keys.issue(alice, name="terraform", created_by=owner)
    payment = Payment.objects.create(account=alice, amount_cents=500, processor="stripe", is_live=False, created_by=owner)
    model = factories.make_model("demo/echo")
    own_key = OwnKey.objects.create(account=alice, provider=model.routes.get().provider, hint="wxyz")
    Run.objects.create(key=key, name="nightly", budget_nanos=1)
    budget = alice.budgets.create(scope="TAG", tag="web", amount_cents=5_000, action="STOP")
    invitation = Invitation.objects.create(
        account=alice,
        email="waits@example.org",
        role=Role.VIEWER,
        digest="0" * 64,
        invited_by=owner,
        expires_at=pool.database_time(),
    )
    refused = {"at": pool.database_time(), "request_id": "req_refused", "status": 402, "error": "InsufficientQuota"}
    RefusedRequest.objects.create(key=key, **refused)
    endpoint = WebhookEndpoint.objects.create(account=alice, url="https://example.org/", sealed_secret="sealed")
    alert = AccountAlert.objects.create(account=alice, kind="TEST", data={})
    delivery = AlertDelivery.objects.create(alert=alert, endpoint=endpoint, state="DEAD")
    return {
        "endpoint": endpoint.pk,
        "delivery": delivery.pk,
        "refused": "req_refused",
        "own_key": own_key.pk,
        "budget": budget.pk,
        "account": alice.pk,
        "key": key.pk,
        "last_four": key.last_four,
        "manager": manager.pk,
        "member": member.pk,
        "payment": payment.pk,
        "invitation": invitation.pk,
    }


@pytest.fixture(autouse=True)
def _demo(settings, tmp_path):
    settings.PAYMENT_PROCESSOR, settings.GATEWAY_VAR = "demo", tmp_path


def make_member(account, role):
    user = factories.make_user(f"{role.lower()}@example.org")
    factories.add_member(account=account, user=user, role=role)
    return user


def member_of(account, role):
    """Return a client of somebody who has this role in the account."""
    return signed_in(make_member(account, role))


def path_and_form(case, ids):
    return "/dashboard/" + case.path.format(**ids), {name: value.format(**ids) for name, value in case.form.items()}


def test_every_page_of_the_dashboard_is_in_the_table():
    reversed_paths: Any = get_resolver().reverse_dict
    paths = {name: found[0][0][0] for name, found in reversed_paths.items() if isinstance(name, str)}
    names = {name for name, path in paths.items() if path.startswith("dashboard/")}
    assert names == set(CASES) | OF_THE_USER


@pytest.mark.parametrize("role", list(Role))
def test_a_role_opens_its_pages_and_no_others(alice, ids, rows, subtests, role):  # noqa: F811
    user = make_member(alice, role)
    before = rows()
    for name, case in CASES.items():
        with subtests.test(name), undone():
            client, may = signed_in(user), role[0] in case.who
            path, form = path_and_form(case, ids)
            page = client.get(path)
            assert page.getvalue() or page.status_code in (302, 405)  # a download is under way until it is read
            assert page.status_code == (case.get if may or case.get == 405 else 403)
            assert rows() == before
            reply = client.post(path, form)
            assert reply.status_code == (case.post if may or case.post == 405 else 403), reply.getvalue()
            assert reply.getvalue() or reply.status_code in (302, 405)
            assert (rows() != before) == (may and case.writes)


def test_an_owner_of_another_account_reaches_nothing_of_this_one(ids, rows, alice, charlie, subtests):  # noqa: F811
    user = charlie.members.get()

    def rows_of_alice():
        every = [row for found in rows().values() for row in found]
        return [row for row in every if alice.pk in (row.get("account_id"), row.get("id"))]

    before = rows_of_alice()
    for name, case in CASES.items():
        with subtests.test(name), undone():
            client, (path, form) = signed_in(user), path_and_form(case, ids)
            for reply in (client.get(path), client.post(path, form)):
                is_of_alice = "{" in case.path or name == "choose-account"
                assert reply.status_code in ((404, 405) if is_of_alice else (200, 302, 404, 405))
                assert reply.status_code != 200 or "Alice" not in b"".join(reply).decode()
            assert rows_of_alice() == before


def test_somebody_signed_out_is_led_to_the_sign_in(ids, rows, subtests):  # noqa: F811
    before = rows()
    for name, case in CASES.items():
        if name == "join":
            continue
        with subtests.test(name), undone():
            client, (path, form) = Client(), path_and_form(case, ids)
            for reply, status in ((client.get(path), case.get), (client.post(path, form), case.post)):
                assert reply.status_code == (405 if status == 405 else 302)
                assert status == 405 or reply["Location"] == f"/accounts/login/?next={path}"
            assert rows() == before


WORDS = ("keys/new/", "/limit/", "/revoke/", "/billing/", "members/invite/", "/role/")


def test_pages_offer_what_the_role_may_do(alice, ids):
    offers: dict[Role, Any] = {}
    for role in Role:
        client = member_of(alice, role)
        pages = "".join(client.get(f"/dashboard/{path}").content.decode() for path in ("", "keys/", "members/", "ledger/"))
        offers[role] = {word for word in WORDS if word in pages}
    keys = {"keys/new/", "/limit/", "/revoke/"}
    assert offers == {
        Role.OWNER: keys | {"/billing/", "members/invite/", "/role/"},
        Role.DEVELOPER: keys,
        Role.BILLING: {"/billing/"},
        Role.VIEWER: set(),
    }


def test_a_refusal_says_which_role_one_has(alice):
    page = member_of(alice, Role.VIEWER).get("/dashboard/keys/new/").content.decode()
    assert "Your role in Alice is Viewer. It cannot create, change or revoke keys." in page


def test_a_new_role_counts_from_the_next_request(alice):
    client = member_of(alice, Role.VIEWER)
    assert client.get("/dashboard/keys/new/").status_code == 403
    Membership.objects.filter(role=Role.VIEWER).update(role=Role.DEVELOPER)
    assert client.get("/dashboard/keys/new/").status_code == 200


def test_a_role_is_of_the_selected_account(alice, charlie):
    """Who owns one account and views another may pay for the first only."""
    user = charlie.members.get()
    factories.add_member(account=alice, user=user, role=Role.VIEWER)
    client = signed_in(user)
    for account, status in ((alice, 403), (charlie, 200)):
        client.post("/dashboard/account/", {"account": str(account.pk)})
        assert client.get("/dashboard/billing/").status_code == status
