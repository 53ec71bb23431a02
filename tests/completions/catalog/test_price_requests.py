"""A price that staff set waits for a second person, who sees what changes, and what that does to holds and margins."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from billing.models import User
from completions.models import LanguageModel, Price, PriceRequest, ProviderPrice
from gateway_project.activity.models import Activity
from tests import factories, sessions

pytestmark = pytest.mark.django_db

PAGE = "/admin/completions/languagemodel/demo_2Fecho/price/"


def staff(name: str, *permissions: str) -> Client:
    user = User.objects.create_user(f"{name}@example.org", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="completions", codename__in=permissions))
    client = Client()
    sessions.sign_in(client, user)
    return client


@pytest.fixture
def asker() -> Client:
    return staff("asker", "add_price", "view_languagemodel", "view_pricerequest")


@pytest.fixture
def second() -> Client:
    return staff("second", "approve_price", "view_languagemodel", "view_pricerequest")


def text(reply: Any) -> str:
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).replace("&gt;", ">").split())


def ask(client: Client, **typed: str) -> Any:
    """Ask for a price on its page, which is sent twice."""
    given = {"input": "0.60", "output": "1.50", **typed}
    shown = client.post(PAGE, {"seen": str(Price.objects.earliest("pk").pk), **given})
    confirmed = {"seen": shown.context["form"]["seen"].value(), "confirmed": shown.context["form"]["confirmed"].value()}
    return client.post(PAGE, {**given, **confirmed, "is_large": "on"})


def page(act: str) -> str:
    return f"/admin/completions/pricerequest/{PriceRequest.objects.get().pk}/{act}/"


def prices() -> list[int]:
    return [price.sheet.rate("input") for price in Price.objects.order_by("effective_from")]


BEFORE = 500_000_000


def test_a_price_is_set_when_a_second_person_approves_it(echo_model: LanguageModel, asker: Client, second: Client) -> None:
    assert ask(asker, reason="Their list of May").status_code == 302
    assert prices() == [BEFORE]
    shown = text(second.get(page("approve")))
    assert (
        "asker@example.org asks to change the price of demo/echo : input $0.50 -> $0.60 (+20 %), when it is approved ." in shown
    )
    assert "The reason: Their list of May" in shown
    assert second.post(page("approve")).status_code == 302
    assert prices() == [BEFORE, 600_000_000]
    asked = PriceRequest.objects.get()
    assert (asked.decision, asked.decided_by.email, asked.price) == (
        "APPROVED",
        "second@example.org",
        Price.objects.latest("pk"),
    )
    acts = [(act.act, act.object_id, act.actor.email) for act in Activity.objects.order_by("id")]
    assert acts == [
        ("PRICE_REQUESTED", "demo/echo", "asker@example.org"),
        ("PRICED", "demo/echo", "second@example.org"),
    ]


def test_the_home_page_and_the_list_show_what_waits(echo_model: LanguageModel, asker: Client, second: Client) -> None:
    assert "Prices 0 prices wait for approval" in text(second.get("/admin/"))
    ask(asker)
    assert "Prices 1 price waits for approval" in text(second.get("/admin/"))
    waiting = text(second.get("/admin/completions/pricerequest/?state=waiting"))
    assert "input $0.50 -> $0.60 (+20 %), when it is approved" in waiting
    assert "waits for approval" in waiting


def test_who_asked_cannot_approve(echo_model: LanguageModel) -> None:
    alone = staff("alone", "add_price", "approve_price", "view_languagemodel", "view_pricerequest")
    ask(alone)
    assert "Someone else must approve it." in text(alone.get(page("approve")))
    alone.post(page("approve"))
    assert prices() == [BEFORE]
    assert PriceRequest.objects.get().decision == ""


def test_who_may_set_prices_may_not_approve_them(echo_model: LanguageModel, asker: Client) -> None:
    ask(asker)
    other = staff("other", "add_price", "view_languagemodel", "view_pricerequest")
    assert other.post(page("approve")).status_code == 403
    assert prices() == [BEFORE]


def test_a_declined_price_is_not_set_and_another_can_be_asked_for(
    echo_model: LanguageModel, asker: Client, second: Client
) -> None:
    ask(asker)
    assert "asked for another price, which waits for approval" in text(asker.get(PAGE))
    ask(asker, input="0.70")
    assert PriceRequest.objects.get().input_nanos == 600_000_000
    assert second.post(page("decline"), {"reason": "Too dear"}).status_code == 302
    assert prices() == [BEFORE]
    ask(asker, input="0.70")
    assert [(asked.input_nanos, asked.decision) for asked in PriceRequest.objects.order_by("requested_at")] == [
        (600_000_000, "DECLINED"),
        (700_000_000, ""),
    ]


def test_a_price_that_others_changed_meanwhile_is_not_approved(
    echo_model: LanguageModel, asker: Client, second: Client
) -> None:
    ask(asker)
    factories.Price.objects.create(model=echo_model, rates=factories.rates_of(input_nanos=1, output_nanos=1))
    assert "Another price was set since this was asked for." in text(second.get(page("approve")))
    second.post(page("approve"))
    assert prices() == [BEFORE, 1]


def test_a_price_begins_at_its_time_unless_that_has_passed(echo_model: LanguageModel, asker: Client, second: Client) -> None:
    start = (timezone.now() + timedelta(days=2)).replace(second=0, microsecond=0)
    ask(asker, starts_at=f"{start:%Y-%m-%dT%H:%M}")
    assert f"(+20 %), from {start:%Y-%m-%d %H:%M} UTC" in text(second.get(page("approve")))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        PriceRequest.objects.update(starts_at=timezone.now() - timedelta(hours=1))
        cursor.execute("SET LOCAL session_replication_role = origin")
    second.post(page("approve"))
    assert prices() == [BEFORE]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        PriceRequest.objects.update(starts_at=start)
        cursor.execute("SET LOCAL session_replication_role = origin")
    second.post(page("approve"))
    assert Price.objects.get(effective_from=start).input_nanos == 600_000_000


@pytest.fixture
def later(echo_model: LanguageModel, asker: Client, second: Client) -> Price:
    """A price that is approved, and has not begun."""
    start = (timezone.now() + timedelta(days=2)).replace(second=0, microsecond=0)
    ask(asker, starts_at=f"{start:%Y-%m-%dT%H:%M}")
    second.post(page("approve"))
    return Price.objects.get(effective_from=start)


def newest_page(act: str) -> str:
    return f"/admin/completions/pricerequest/{PriceRequest.objects.latest('requested_at').pk}/{act}/"


def test_an_approved_price_is_withdrawn_when_a_second_person_approves_it(later: Price, asker: Client, second: Client) -> None:
    start = f"{later.effective_from:%Y-%m-%d %H:%M} UTC"
    assert "A colleague approves it first" in text(asker.get(f"{PAGE}{later.pk}/"))
    assert asker.post(f"{PAGE}{later.pk}/").status_code == 302
    assert prices() == [BEFORE, 600_000_000]
    shown = text(second.get(newest_page("approve")))
    assert f"the withdrawal of the price that was to begin at {start}: the one before it stays" in shown
    assert f"The reason: Withdraws the price from {start}: input $0.60 -> $0.50 (-16.7 %)." in shown
    assert asker.post(newest_page("approve")).status_code == 403
    assert prices() == [BEFORE, 600_000_000]
    assert second.post(newest_page("approve")).status_code == 302
    assert prices() == [BEFORE]
    first, withdrawal = PriceRequest.objects.order_by("requested_at")
    assert (first.decision, first.price_id) == ("APPROVED", later.pk)
    assert (withdrawal.decision, withdrawal.price) == ("APPROVED", Price.objects.get())
    assert [(act.act, act.actor.email) for act in Activity.objects.order_by("id")][2:] == [
        ("PRICE_REQUESTED", "asker@example.org"),
        ("PRICED", "second@example.org"),
    ]


def test_a_temporary_price_does_not_stay_because_one_person_withdraws_the_next(
    later: Price, asker: Client, second: Client
) -> None:
    after = Price.objects.create(
        model_id="demo/echo",
        effective_from=later.effective_from + timedelta(days=1),
        rates=factories.rates_of(input_nanos=1, output_nanos=1),
    )
    asker.post(f"{PAGE}{after.pk}/")
    assert prices() == [BEFORE, 600_000_000, 1]
    second.post(newest_page("approve"))
    assert prices() == [BEFORE, 600_000_000]


def test_a_declined_withdrawal_leaves_the_price(later: Price, asker: Client, second: Client) -> None:
    asker.post(f"{PAGE}{later.pk}/")
    assert second.post(newest_page("decline"), {"reason": "It was announced"}).status_code == 302
    assert prices() == [BEFORE, 600_000_000]


def test_one_person_withdraws_a_price_that_has_none_before(echo_model: LanguageModel, asker: Client) -> None:
    factories.change_prices(Price.objects, effective_from=timezone.now() + timedelta(days=1))
    first = f"{PAGE}{Price.objects.get().pk}/"
    assert "the model is not served, as it has no other price" in text(asker.get(first))
    asker.post(first)
    assert (prices(), PriceRequest.objects.count()) == ([], 0)


def test_both_pages_say_what_it_does_to_holds_and_margins(echo_model: LanguageModel, asker: Client, second: Client) -> None:
    ProviderPrice.objects.create(
        model=echo_model,
        provider_id="echo",
        since="2020-01-01",
        rates=factories.rates_of(input_nanos=650000000, output_nanos=0),
    )
    shown = asker.post(PAGE, {"seen": str(Price.objects.get().pk), "input": "0.60", "output": "1.50"})
    ask(asker)
    for said in (text(shown), text(second.get(page("approve")))):
        assert "0 requests run now and hold $0.00. They keep their hold and their price." in said
        assert "Each new request of 1,000 input and 1,000 output tokens holds $0.0021 instead of $0.002." in said
        assert "It is below what echo charges: $0.65 for input." in said


def test_the_example_is_held_as_a_request_is_at_the_dearest_tier(echo_model: LanguageModel, asker: Client) -> None:
    seen = {"seen": str(Price.objects.get().pk), "input": "10", "output": "20"}
    shown = asker.post(PAGE, {**seen, "priority_input": "25", "priority_output": "50", "more_rates": ""})
    assert "input and 1,000 output tokens holds $0.075 instead of $0.002." in text(shown)


@pytest.mark.parametrize("change", ["input_nanos = 1", "model_id = 'other'", "requested_by_id = requested_by_id + 1"])
def test_what_is_asked_for_stays(echo_model: LanguageModel, asker: Client, change: str) -> None:
    ask(asker)
    for statement in (f"UPDATE completions_pricerequest SET {change}", "DELETE FROM completions_pricerequest"):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)


def test_a_new_model_has_no_price_until_one_is_approved(root: Client) -> None:
    assert "prices-0-input_dollars" not in root.get("/admin/completions/languagemodel/add/").content.decode()


@pytest.fixture
def root() -> Client:
    client = Client()
    sessions.sign_in(client, factories.User.objects.create_superuser("root@example.org", factories.PASSWORD))
    return client
