"""The admin's home page: what matters today, for those who may see it. And what provider and route pages measured."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from billing.models import CreditRequest, OwnerRequest, SecondFactorRequest
from completions import tasks
from completions.models import CatalogProposal, CompletionHour, FirstTokenHour, Incident, Price, Provider, Route, UptimeSums
from gateway_project.db import pool
from gateway_project.desk import panels
from gateway_project.monitoring.models import Process, TaskRun
from keys.models import RefusalCount
from rankings.models import SourceState
from tests import factories, usage
from tests.browser import sign_in
from tests.pages.conftest import make_staff, owner_of, signed_in
from tests.pages.desk_pages import home, panel, words
from tests.rankings.streams import streamed

OVERLOADED = {"provider": "echo", "status": 503, "reason": "overloaded"}


@pytest.fixture
def caller(alice):
    factories.make_model("acme/fast")
    return alice, factories.make_key(alice)[0]


def ended(hours_ago=0, *, completions=1, cost_nanos=0):
    """Sum up completions that ended in an hour. Return the hour."""
    hour = pool.database_time().replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago)
    CompletionHour.objects.create(hour=hour, completions=completions, cost_nanos=cost_nanos)
    return hour


def test_each_panel_is_for_those_who_may_see_the_list_behind_it(db, powerless):
    assert 'id="panel-' not in home(powerless)
    for each in panels.declared():
        staff = signed_in(make_staff(f"{each.id}@example.org", [each.permission]))
        shown = re.findall(r'<section[^>]*id="panel-([a-z-]+)"', home(staff))
        assert sorted(shown) == sorted(other.id for other in panels.declared() if other.permission == each.permission)
        assert staff.get(each.address).status_code == 200, each.id


def test_what_needs_attention_comes_first(superuser, alice):
    asker = factories.make_user("asker@example.org")
    CreditRequest.objects.create(reference="form", account=alice, amount_cents=30_050, reason="x", requested_by=asker)
    urgent, nothing_to_do, figures, others = re.split("<summary>Checked|<h2>Today so far|<h2>Good to know", home(superuser))
    assert shown_in(urgent) == ["approvals", "audit", "sources"]
    assert {"new-owners", "payments", "holds", "dead-letters", "provider-keys"} <= set(shown_in(nothing_to_do))
    assert shown_in(figures) == ["requests", "failures", "refusals", "spending", "first-token", "credits", "new-accounts"]
    assert shown_in(others) == []


def shown_in(part):
    return re.findall(r'<section [^>]*id="panel-([a-z-]+)"', part)


def test_a_home_page_without_work_says_so(db, superuser):
    approver = signed_in(make_staff("approver@example.org", ["billing.view_creditrequest"]))
    assert "Nothing needs attention." in words(home(approver))
    assert "Nothing needs attention." not in words(home(superuser))


def test_a_part_without_panels_has_no_heading(open_page, transactional_db):
    make_staff("reader@example.org", ["completions.view_completionhour"])
    page = open_page()
    sign_in(page, "reader@example.org", "/admin/")
    expect(page.get_by_text("Nothing needs attention.")).to_be_visible()
    expect(page.get_by_role("heading", name="Today so far")).to_be_visible()
    expect(page.get_by_role("heading", name="Good to know")).to_be_hidden()
    expect(page.get_by_text("Checked, with nothing to do")).to_be_hidden()


def test_what_waits_is_named_with_its_age_and_leads_to_where_it_is_decided(superuser, alice):
    asker = factories.make_user("asker@example.org")
    form = {"account": alice, "amount_cents": 30_050, "reason": "x", "requested_by": asker}
    old = CreditRequest.objects.create(reference="form-0", requested_at=pool.database_time() - timedelta(hours=5), **form)
    CreditRequest.objects.create(reference="form-1", **form)
    shown = panel(superuser, "approvals").replace("\xa0", " ")
    assert shown.startswith("Credits 2 credits wait for approval $300.50 for Alice 5 hours ago $300.50 for Alice 0 minutes ago")
    assert shown.endswith(" 5 hours ago")
    assert f'<a href="/admin/billing/creditrequest/{old.pk}/change/">' in home(superuser)


@pytest.mark.parametrize("kind", ["owner", "phone"])
def test_new_owners_and_lost_phones_wait_for_a_second_person_too(superuser, alice, kind):
    form = {"account": alice, "user": owner_of(alice), "reason": "x", "requested_by": factories.make_user("asker@example.org")}
    (OwnerRequest if kind == "owner" else SecondFactorRequest).objects.create(**form)
    name, said = ("new-owners", "1 new owner waits") if kind == "owner" else ("lost-phones", "1 lost phone waits")
    assert f"{said} for approval" in panel(superuser, name)


def test_a_refused_provider_key_an_overdue_hold_and_an_open_incident_need_somebody(superuser, alice):
    provider = factories.make_provider("acme", kind="openai", base_url="https://example.org/v1")
    now = pool.database_time()
    Provider.objects.filter(pk="acme").update(refused_key=provider.key_fingerprint, key_refused_at=now)
    Incident.objects.create(title="Slow replies")
    Incident.objects.create(title="Upgrade", impact="maintenance", began_at=now + timedelta(days=1))
    usage.place(alice, 1_000, reference="chatcmpl-1", expires_at=now - timedelta(hours=1))
    assert panel(superuser, "provider-keys").startswith("Refused provider keys 1 provider refused our key acme 0")
    assert "1 incident on the status page is open Slow replies" in panel(superuser, "incidents")
    assert "1 hold has expired and is still open" in panel(superuser, "holds")


def test_dead_letters_are_counted_by_host(superuser, db):
    reported = {"gauges": {"gateway_dead_letters": 2}, "encryption_keys": [], "peppers": [], "seen_at": pool.database_time()}
    Process.objects.create(host="web-1", role="web", pid=1, **reported)
    assert panel(superuser, "dead-letters").startswith("Dead letters 2 settlements could not be booked web-1 2: run")


def test_spending_and_requests_are_compared_with_yesterday_and_last_week(superuser, caller):
    hour = ended(cost_nanos=1_234_567_890)
    ended(24, cost_nanos=70_000_000_000, completions=3_600)
    ended(24 * 7, completions=7_200)
    assert re.match(r"Spending \$1\.23(46)? \$1\.23456789 Yesterday \$\d+\.\d\d(\d\d)? ", panel(superuser, "spending"))
    since = passed_seconds(hour)
    shown = panel(superuser, "requests").replace(",", "")
    until = passed_seconds(hour)
    found = re.match(r"Requests that ran 1 Yesterday (\d+) .*?Last week (\d+)", shown)
    assert found
    yesterday, last_week = map(int, found.groups())
    # Of an hour, the share until this second.
    assert since <= yesterday <= until
    assert 2 * since <= last_week <= 2 * until


def passed_seconds(hour):
    return min(int((pool.database_time() - hour).total_seconds()), 3_600)


def test_failed_requests_are_counted_as_on_the_status_page(superuser, caller):
    hour = pool.database_time().replace(minute=0, second=0, microsecond=0)
    UptimeSums.objects.create(is_day=False, since=hour, kind="model", subject="acme/fast", answered=197, failed=3)
    UptimeSums.objects.create(is_day=False, since=hour, kind="provider", subject="echo", answered=1, failed=50)
    assert panel(superuser, "failures").startswith("Failed requests as the status page counts 1.50 % Yesterday - Last week -")


def test_new_accounts_are_counted(superuser, alice):
    assert panel(superuser, "new-accounts") == "New accounts 1 Yesterday 0 Last week 0"


def test_the_time_to_first_token_is_shown_for_half_and_nearly_all_streams(superuser, caller):
    assert "No streams in the last 24 hours." in panel(superuser, "first-token")
    hour = ended(completions=3)
    for first_token_ms in (200, 420, 1700):
        FirstTokenHour.objects.create(hour=hour, milliseconds=first_token_ms, streams=1)
    tasks.sum_up_hours()
    shown = panel(superuser, "first-token")
    assert "0.42 s" in shown
    assert "99 % began within 1.70 s" in shown


def test_refusals_are_counted_by_reason_with_the_code_on_hover(superuser, caller):
    hour = pool.database_time().replace(minute=0, second=0, microsecond=0)
    for code, number, ago in (("rate_limit_exceeded", 1_200, 0), ("insufficient_quota", 7, 3), ("model_not_found", 5, 30)):
        RefusalCount.objects.create(
            key=caller[1], hour=hour - timedelta(hours=ago), status=429, code=code, error="RateLimitExceeded", number=number
        )
    shown = panel(superuser, "refusals")
    assert shown.startswith("Refused requests before they ran 1,20")
    assert "Too many requests or tokens per minute, or too many bytes at a time 429 rate_limit_exceeded 1,200" in shown
    assert '<dt><span class="coded" title="429 rate_limit_exceeded" tabindex="0">' in home(superuser)
    assert "model_not_found" not in shown


def test_routes_that_fail_or_rest_are_named(superuser, caller):
    assert panel(superuser, "routes").startswith("Failing and paused routes 0 of 1 routes")
    for _ in range(6):
        streamed(caller, "acme/fast", 100, 0, 10, failed_attempts=[OVERLOADED])
    assert "acme/fast at echo 50 % of 12 attempts failed" in panel(superuser, "routes")
    Route.objects.update(rests_until=pool.database_time() + timedelta(seconds=30))
    assert re.search(r"acme/fast at echo paused until [\d:]{8} UTC; 50 %", panel(superuser, "routes"))


def test_a_tier_that_served_without_rates_is_named_until_the_price_has_some(superuser, caller):
    told = "acme/fast at echo served the priority tier and was charged at the standard rates: enter rates for that tier"
    assert told not in panel(superuser, "prices")
    Route.objects.update(unrated_tier="priority", unrated_tier_at=pool.database_time() - timedelta(hours=25))
    assert told not in panel(superuser, "prices")
    Route.objects.update(unrated_tier_at=pool.database_time())
    assert told in panel(superuser, "prices")
    address = re.search(r'href="([^"]+)">acme/fast at echo', home(superuser))
    assert address
    assert superuser.get(address[1]).status_code == 200
    factories.change_prices(Price.objects, priority_input_nanos=1, priority_output_nanos=1)
    assert told not in panel(superuser, "prices")


def test_an_account_that_is_used_and_has_little_left_is_named(superuser, caller):
    factories.make_account("Not used", cents=50)
    streamed(caller, "acme/fast", 100, 0, 10)
    assert panel(superuser, "low-accounts").startswith("Accounts near zero 0 ")
    low = factories.make_account("Nearly empty", cents=50)
    streamed((low, factories.make_key(low)[0]), "acme/fast", 100, 0, 10)
    shown = panel(superuser, "low-accounts")
    assert shown.startswith("Accounts near zero 1 ")
    assert shown.endswith(" Nearly empty $0.50")


def test_credits_are_summed_up_by_what_they_are(superuser, alice):
    factories.credit(alice, 501)
    assert panel(superuser, "credits").startswith("Credit added in and out, without usage $15.01 ")
    assert "Support credit (2) $15.01" in panel(superuser, "credits")


@pytest.mark.parametrize(
    ("result", "days_ago", "said"),
    [
        (0, 0, "No findings. The whole ledger was checked."),
        (3, 0, "3 findings."),
        (0, 2, "No findings. Overdue: check that beat and a worker are running."),
    ],
)
def test_the_last_audit_of_the_book_is_shown(superuser, result, days_ago, said):
    never = "Last ledger audit Not audited yet. The audit runs every day at 03:00 UTC."
    assert panel(superuser, "audit").startswith(never)
    finished_at = pool.database_time() - timedelta(days=days_ago)
    TaskRun.objects.create(name="billing.tasks.verify_ledger", finished_at=finished_at, result=result)
    assert panel(superuser, "audit").startswith(f"Last ledger audit {said}")


def test_what_waits_is_counted(superuser, db):
    provider = factories.make_provider("acme", sync=Provider.Sync.PROPOSE)
    for number in range(2):
        CatalogProposal.objects.create(provider=provider, upstream_model=f"new-{number}", kind="new_model", old={}, new={})
    assert panel(superuser, "proposals").startswith("Proposals 2 ")


def test_sources_that_are_not_healthy_say_why(superuser, db):
    SourceState.objects.update_or_create(source="LMSYS_ARENA", defaults={"failures": 9, "error": "no reply"})
    assert "never read: no reply" in panel(superuser, "sources")


def test_the_home_page_makes_as_many_queries_with_many_rows(superuser, caller, django_assert_max_num_queries):
    for _ in range(20):
        streamed(caller, "acme/fast", 100, 0, 10, failed_attempts=[OVERLOADED])
    ended(completions=20)
    with django_assert_max_num_queries(40):
        home(superuser)


@pytest.mark.parametrize("page", ["provider/echo", "route/{route}"])
def test_provider_and_route_pages_show_failures_and_times(superuser, caller, page):
    for _ in range(3):
        streamed(caller, "acme/fast", 420, 0, 10)
    failed = streamed(caller, "acme/fast", 1700, 0, 10, hours_ago=2, failed_attempts=[OVERLOADED])
    path = f"/admin/completions/{page.format(route=Route.objects.get().pk)}/change/"
    shown = words(superuser.get(path).content.decode())
    assert "The last hour 3 0.0 % 0.42 s 0.42 s" in shown
    assert "The last 24 hours 5 20.0 % 0.42 s 1.70 s" in shown
    assert f"503 overloaded acme/fast {failed.pk}" in shown
