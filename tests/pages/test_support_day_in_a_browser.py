"""The day of a support person in a real Chromium, as a member of the ready groups: what the person sees, and the rows after it.

The first test signs in as people do: invitation, password, app. The others begin with the session of somebody who did.
"""

import re
from datetime import UTC, timedelta

from allauth.mfa.models import Authenticator
from django.db.models.functions import Now
from django.utils import timezone
from playwright.sync_api import expect

from billing import money
from billing.ledger import audit
from billing.models import CreditRequest, LedgerEntry, User
from completions.models import Completion, LanguageModel
from gateway_project.activity.models import Activity
from gateway_project.text import timestamps
from keys import lifecycle
from keys.models import ApiKey
from keys.refusal_history import collector
from keys.spending_limit import SpendingLimit
from tests import browser, chat, factories, second_factors, usage
from tests.conftest import client_for
from tests.keys.refusal_history.conftest import _nothing_collected
from tests.pages.desk_pages import account_page, key_page, page_of
from tests.pages.support_desk import DESK, _as_deployed, desk_of, follow, press, search
from tests.upstream import reply, upstream, whole

__all__ = ["_as_deployed", "_nothing_collected", "desk_of", "upstream"]

SUPPORT, LEAD, CATALOGUE = "support@example.org", "lead@example.org", "catalogue@example.org"


def acts():
    """Return who did what, in its order."""
    return [(act.act, act.actor and act.actor.email) for act in Activity.objects.order_by("pk").select_related("actor")]


# --- Beginning ---------------------------------------------------------------------------------------------------


def test_a_colleague_is_invited_into_a_group_and_signs_in_with_a_password_and_a_code(desk_of, open_page):
    boss = desk_of("boss@example.org")
    boss.goto("/admin/billing/user/add/")
    boss.get_by_label("Email address").fill(SUPPORT)
    boss.get_by_label("Staff status").check()
    boss.locator("#id_groups_from").get_by_role("option", name="Support", exact=True).dblclick()
    press(boss, "Save")
    boss.get_by_text(f"{SUPPORT} was sent a link to set a password. It works for 7 days.").wait_for()
    page = open_page(**DESK)
    page.goto("/mails/")
    page.get_by_role("link", name="http").first.click()
    browser.look(page, "day-password")
    for label in ("New password", "New password confirmation"):
        page.get_by_label(label, exact=True).fill("a wholly new sentence")
    press(page, "Set password")
    page.get_by_label("mail").fill(SUPPORT)
    page.get_by_label("Password").fill("a wholly new sentence")
    press(page, "Sign in")
    page.wait_for_url("**/accounts/2fa/")
    page.goto("/admin/")  # not before there is a second factor
    page.wait_for_url("**/accounts/2fa/")
    follow(page, "Set up an app")
    secret = page.locator(".small code").inner_text()
    page.get_by_label("code").fill(second_factors.code(secret))
    press(page, "Set up")
    follow(page, "I have saved them")
    page.get_by_role("heading", name="Today", exact=True).wait_for()
    expect(page.get_by_role("link", name="Users")).to_have_count(0)  # of other groups
    user = User.objects.get(email=SUPPORT)
    assert [group.name for group in user.groups.all()] == ["Support"]
    assert sorted(Authenticator.objects.filter(user=user).values_list("type", flat=True)) == ["recovery_codes", "totp"]
    assert ("INVITED", "boss@example.org") in acts()
    press(page, "Log out")
    page.wait_for_url("**/accounts/login/")
    page.goto("/admin/")
    page.get_by_label("mail").fill(SUPPORT)
    page.get_by_label("Password").fill("a wholly new sentence")
    press(page, "Sign in")
    page.get_by_label("Code").fill(second_factors.code(secret, seconds=30))  # each code counts once
    press(page, "Sign in")
    page.wait_for_url("**/admin/")


# --- Finding -----------------------------------------------------------------------------------------------------


def test_one_box_finds_by_each_kind_of_id_and_a_pasted_secret_gets_into_no_address(desk_of, alice, upstream):
    factories.make_model("acme/large", provider=factories.make_provider("scripted", kind="openai", base_url=upstream.url))
    key, secret = factories.make_key(alice, "laptop")
    [served] = whole()
    upstream.will(reply(served.partition(b"\r\n\r\n")[2], x_request_id="req_theirs"))
    assert chat.ask(client_for(secret), model="acme/large").status_code == 200
    completion = Completion.objects.get()
    payment = usage.buy(alice, 2_000, "pi_3Qx").entry
    page = desk_of(SUPPORT, "Support")
    addresses = []
    page.on("request", lambda request: addresses.append(f"{request.url} {request.headers.get('referer')}"))
    found = {
        "alice@example.org": alice,
        "Alice": alice,
        str(alice.pk): alice,
        f"mgw_live_...{key.last_four}": key,
        secret: key,
        completion.pk: completion,
        completion.request_id: completion,
        "pi_3Qx": payment,
        str(payment.pk): payment,
        "req_theirs": completion,
    }
    for term, row in found.items():
        search(page, term)
        page.wait_for_url(f"**{page_of(row)}")
        assert secret not in page.content()
    assert not [address for address in addresses if secret[-38:-4] in address]
    # The last one was the completion. What belongs together leads to each other.
    follow(page, str(key))
    page.wait_for_url(f"**{key_page(key)}")
    follow(page, str(alice))
    page.wait_for_url(f"**{account_page(alice)}")
    browser.look(page, "day-account")
    page.locator("#account-completions tbody a").first.click()
    page.wait_for_url(f"**{page_of(completion)}")
    search(page, "pi_nobody")
    page.get_by_text("No results that you can view for pi_nobody").wait_for()


# --- Money -------------------------------------------------------------------------------------------------------


def test_a_credit_above_the_threshold_takes_two_people_and_is_corrected_once(desk_of, alice):
    page, lead = desk_of(SUPPORT, "Support"), desk_of(LEAD, "Support lead", color_scheme="dark")
    page.goto(account_page(alice))
    follow(page, "Issue credit")
    page.get_by_label("Amount in US dollars").fill("200")
    page.get_by_label("Reason").fill("Sorry for the outage")
    page.get_by_label("Ticket").fill("T-1")
    press(page, "Issue credit")
    page.get_by_text("Nothing is booked until a colleague approves it.").wait_for()
    follow(page, "A credit of $200.00")
    page.get_by_role("link", name="Withdraw…").wait_for()
    expect(page.get_by_role("link", name="Approve…")).to_have_count(0)
    asked = CreditRequest.objects.get()
    alice.refresh_from_db()
    assert (asked.amount_cents, asked.decision, alice.balance_nanos) == (20_000, "", money.nanos(1_000))
    lead.reload()
    browser.look(lead, "day-home-of-a-lead")
    follow(lead, "Credits")
    lead.locator("#result_list tbody a").first.click()
    follow(lead, "Approve…")
    lead.get_by_text(f"{SUPPORT} asks for a credit of $200.00 for Alice").wait_for()
    press(lead, "Approve $200.00")
    lead.get_by_text("The credit of $200.00 for Alice is approved and booked. The balance is $210.00.").wait_for()
    credit = alice.entries.get(seq=2)
    assert (credit.type, credit.amount_nanos, credit.issued_by.email) == ("SUPPORT_CREDIT", money.nanos(20_000), SUPPORT)
    # $150.00 were due: the lead, who may correct, takes the rest back.
    lead.goto(account_page(alice))
    lead.locator("#account-entries tr", has_text="+$200.00").get_by_role("link", name="Correct").click()
    for amount, words in (("200.01", "The maximum is $200.00"), ("50", "")):
        lead.get_by_label("Amount in US dollars").fill(amount)
        lead.get_by_label("Reason").fill("$150.00 were due")
        press(lead, "Take back")
        lead.get_by_text(words or "-$50.00").first.wait_for()
    lead.wait_for_url(f"**{account_page(alice)}")
    expect(lead.locator("#account-entries tr", has_text="+$200.00").get_by_role("link", name="Correct")).to_have_count(0)
    page.goto(account_page(alice))
    page.locator(".support-sums").get_by_text("$160.00").first.wait_for()
    browser.look(page, "day-corrected")
    assert LedgerEntry.objects.get(account=alice, seq=3).metadata == {"reason": "$150.00 were due", "entryId": str(credit.pk)}
    assert acts()[-3:] == [("CREDIT_REQUESTED", SUPPORT), ("CREDITED", LEAD), ("CORRECTED", LEAD)]
    assert audit.verify() == []


# --- Refusals and limits -----------------------------------------------------------------------------------------


def test_a_refusal_is_explained_and_mended_with_a_raise_that_ends_by_itself(desk_of, alice, echo_model):
    key, secret = factories.make_key(alice, "laptop")
    lifecycle.set_spending_limit(key, SpendingLimit(0, "RECURRING", "DAILY"))
    refused = chat.ask(client_for(secret))
    assert refused.status_code == 402
    collector.write()
    page = desk_of(SUPPORT, "Support")
    search(page, refused["x-request-id"])
    page.get_by_text(refused.json()["error"]["message"]).first.wait_for()
    search(page, f"mgw_live_...{key.last_four}")
    page.wait_for_url(f"**{key_page(key)}")
    assert refused["x-request-id"] in page.locator(".support-refused").inner_text()
    assert refused.json()["error"]["message"] in page.locator(".support-refused").inner_text()
    _try(page, "No: 402 insufficient_quota")
    page.goto(key_page(key))
    follow(page, "Raise it temporarily")
    until = (timezone.now() + timedelta(days=2)).replace(second=0, microsecond=0)
    page.get_by_label("Amount in US dollars").fill("5")
    page.get_by_label("Until (UTC)").fill(f"{until:%Y-%m-%dT%H:%M}")
    page.get_by_label("Reason").fill("A batch over the weekend")
    press(page, "Raise limit")
    page.get_by_text(f"$0.00 per day, raised to $5.00 until {timestamps.in_words(until)}").first.wait_for()
    browser.look(page, "day-raised")
    key.refresh_from_db()
    assert (key.spending_limit_cents, key.raised_limit_cents, key.raised_until.astimezone(UTC)) == (0, 500, until)
    assert acts()[-1] == ("KEY_RAISED", SUPPORT)
    _try(page, "Yes")
    assert chat.ask(client_for(secret)).status_code == 200
    ApiKey.objects.filter(pk=key.pk).update(raised_until=Now())  # as two days later
    _try(page, "No: 402 insufficient_quota")
    assert chat.ask(client_for(secret)).status_code == 402
    page.goto(key_page(key))
    expect(page.get_by_text("raised to")).to_have_count(0)


def _try(page, answer):
    """Ask on the key's page, or again on that of the trial, whether a request would be served: the answer's heading says it."""
    if "/trial/" not in page.url:
        page.goto(re.sub(r"/change/.*", "/change/", page.url))
        follow(page, "Test a request")
        page.get_by_label("Model").fill("demo/echo")
        page.get_by_label("Max tokens").fill("100")
    press(page, "Try")
    expect(page.locator("#answer h2")).to_have_text(answer)


# --- Prices ------------------------------------------------------------------------------------------------------


def test_a_price_that_changes_by_more_than_a_quarter_is_confirmed_twice(desk_of, echo_model, settings):
    settings.PRICES_NEED_APPROVAL = False
    page = desk_of(CATALOGUE, "Catalogue")
    page.goto(page_of(echo_model))
    follow(page, "Change the price")
    field = page.get_by_label("Input, $ per million tokens")
    expect(field).to_have_value("0.50")
    field.fill("0.80")
    press(page, "Preview change")
    page.get_by_text("Review the change: input $0.50 -> $0.80 (+60 %), at once.").wait_for()
    press(page, "Set price")
    page.get_by_text("Select this to confirm.").wait_for()
    browser.look(page, "day-price")
    assert LanguageModel.objects.get().prices.count() == 1
    page.get_by_label("Confirm large change").check()
    press(page, "Set price")
    page.get_by_text("input $0.50 -> $0.80 (+60 %)").first.wait_for()
    follow(page, "History")
    page.get_by_text("Set the price: input $0.50 -> $0.80 (+60 %), at once.").wait_for()
    price = echo_model.prices.latest("effective_from")
    assert (price.input_nanos, price.output_nanos) == (money.price_nanos("0.80"), money.price_nanos("1.50"))
    assert acts()[-1] == ("PRICED", CATALOGUE)
