"""/dashboard/budgets/: what members see of monthly budgets, and how owners and developers create, change and delete them."""

import pytest
from django.utils import timezone

from billing.models import Account, Role
from gateway_project.activity.models import Activity
from keys.models import Budget
from tests import factories
from tests.pages.conftest import make_staff, other_owner, owner, owner_of, signed_in  # noqa: F401  fixtures
from tests.pages.dashboard_pages import text

pytestmark = pytest.mark.django_db
LIST = "/dashboard/budgets/"
CENT = 10_000_000


@pytest.fixture
def key(alice):
    return factories.make_key(alice, "laptop", tags=["web"], created_by=owner_of(alice))[0]


def make_budget(account, cents=5_000, action="STOP", *, spent_cents=0, held_cents=0, **place):
    budget = account.budgets.create(**{"scope": "ACCOUNT", **place}, amount_cents=cents, action=action)
    month = timezone.now().date().replace(day=1)
    amounts = {"spent_nanos": spent_cents * CENT, "held_nanos": held_cents * CENT}
    budget.months.create(month=month, amount_cents=cents, **amounts)
    return budget


def rows():
    return list(Budget.objects.order_by("pk").values_list("scope", "tag", "member", "amount_cents", "action", "ended_at"))


def acts():
    return list(Activity.objects.filter(act__startswith="BUDGET").order_by("pk").values_list("act", "summary"))


def test_an_account_without_budgets_is_told_what_they_are_for(owner, alice):  # noqa: F811
    assert "No budgets yet. Create one to limit" in text(owner.get(LIST))


@pytest.mark.parametrize(
    ("action", "spent_cents", "held_cents", "words"),
    [
        ("STOP", 0, 0, "0 % $0.00 of $50.00 Requests are refused Change"),
        ("STOP", 4_999, 1, "99 % $49.99 of $50.00 , $0.01 held Requests are refused Change"),
        ("WARN", 100, 0, "2 % $1.00 of $50.00 Only an alert Change"),
        ("WARN", 6_000, 0, "120 % $60.00 of $50.00 Spent Only an alert Change"),
    ],
)
def test_a_budget_says_what_is_spent_and_what_happens_at_100_percent(owner, alice, action, spent_cents, held_cents, words):  # noqa: F811
    make_budget(alice, 5_000, action, spent_cents=spent_cents, held_cents=held_cents)
    assert f"The whole account {min(spent_cents // 50, 120)}% {words}" in text(owner.get(LIST))


def test_a_spent_budget_says_until_when_requests_are_refused(owner, alice):  # noqa: F811
    make_budget(alice, spent_cents=5_000)
    assert "Spent Requests are refused until 1 " in text(owner.get(LIST))


def test_months_before_ended_budgets_and_other_accounts_are_not_shown(owner, alice, bob):  # noqa: F811
    make_budget(bob, 700)
    make_budget(alice, 800, scope="TAG", tag="gone")
    Budget.objects.filter(tag="gone").update(ended_at=timezone.now())
    budget = alice.budgets.create(scope="ACCOUNT", amount_cents=900, action="WARN")
    budget.months.create(month="2020-01-01", amount_cents=900, spent_nanos=CENT)
    page = text(owner.get(LIST))
    assert "$0.00 of $9.00" in page
    assert ("$7.00" in page, "$8.00" in page) == (False, False)


def test_budgets_are_created_for_the_account_a_tag_and_a_member(owner, alice, key):  # noqa: F811
    user = owner_of(alice)
    amounts = {"amount": "12.50", "action": "STOP"}
    for place in ({"scope": "ACCOUNT"}, {"scope": "TAG", "tag": "web"}, {"scope": "MEMBER", "member": user.pk}):
        assert owner.post(f"{LIST}new/", {**amounts, **place}).status_code == 302
    assert rows() == [
        ("ACCOUNT", "", None, 1_250, "STOP", None),
        ("TAG", "web", None, 1_250, "STOP", None),
        ("MEMBER", "", user.pk, 1_250, "STOP", None),
    ]
    end = "can spend $12.50 per month. When it is spent, requests are refused."
    assert acts() == [
        ("BUDGET_SET", f"The whole account {end}"),
        ("BUDGET_SET", f"Keys with the tag web {end}"),
        ("BUDGET_SET", f"Keys of {user.email} {end}"),
    ]
    assert Account.objects.get(pk=alice.pk).has_budgets


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"amount": "0"}, "amount", "The minimum is $0.01."),
        ({"amount": ""}, "amount", "This field is required."),
        ({"amount": "1.234"}, "amount", "at most two decimals"),
        ({"action": ""}, "action", "This field is required."),
        ({"scope": ""}, "scope", "This field is required."),
        ({"scope": "TAG", "tag": ""}, "tag", "Enter the tag."),
        ({"scope": "TAG", "tag": "nowhere"}, "tag", "No key has this tag."),
        ({"scope": "MEMBER"}, "member", "Choose the member."),
        ({"scope": "MEMBER", "member": "0"}, "member", "not one of the available choices"),
        ({"scope": "ACCOUNT"}, "scope", "This has a budget already."),
    ],
)
def test_a_wrong_budget_is_refused_by_its_field_and_stays_typed(owner, alice, key, given, field, words):  # noqa: F811
    make_budget(alice)
    sent = {"scope": "TAG", "tag": "web", "amount": "77.25", "action": "WARN", **given}
    reply = owner.post(f"{LIST}new/", sent)
    assert (reply.status_code, list(reply.context["form"].errors)) == (200, [field])
    page = reply.content.decode()
    assert words in page
    assert [
        value for name, value in sent.items() if name in ("tag", "amount") and value and f'value="{value}"' not in page
    ] == []
    assert (len(rows()), acts()) == (1, [])


def test_a_budget_is_changed_and_recorded(owner, alice):  # noqa: F811
    budget = make_budget(alice, 5_000, spent_cents=2_000)
    assert 'value="50.00"' in owner.get(f"{LIST}{budget.pk}/").content.decode()
    assert owner.post(f"{LIST}{budget.pk}/", {"amount": "20", "action": "WARN"}).status_code == 302
    assert rows() == [("ACCOUNT", "", None, 2_000, "WARN", None)]
    [act] = Activity.objects.filter(act="BUDGET_SET")
    assert (act.before, act.after) == (
        {"amount_cents": 5_000, "action": "STOP"},
        {"amount_cents": 2_000, "action": "WARN"},
    )
    assert (act.account_id, act.object_id) == (alice.pk, budget.pk)
    assert "100 % $20.00 of $20.00 Spent Only an alert" in text(owner.get(LIST))
    wrong = owner.post(f"{LIST}{budget.pk}/", {"amount": "x1", "action": "STOP"})
    assert (wrong.status_code, 'value="x1"' in wrong.content.decode(), rows()[0][3]) == (200, True, 2_000)


def test_a_budget_is_deleted_after_a_question(owner, alice):  # noqa: F811
    budget = make_budget(alice)
    assert "You cannot undo this" in text(owner.get(f"{LIST}{budget.pk}/delete/"))
    assert rows()[0][-1] is None
    assert owner.post(f"{LIST}{budget.pk}/delete/").status_code == 302
    assert rows()[0][-1] is not None
    assert acts() == [("BUDGET_DELETED", "Deleted the monthly budget. The whole account: $50.00.")]
    assert owner.post(f"{LIST}{budget.pk}/delete/").status_code == 404
    assert not Account.objects.get(pk=alice.pk).has_budgets


@pytest.mark.parametrize(("role", "status"), [("DEVELOPER", 200), ("BILLING", 403), ("VIEWER", 403)])
def test_who_may_set_limits_may_set_budgets(alice, role, status):
    budget = make_budget(alice)
    member = signed_in(factories.add_member(alice, factories.make_user("m@example.org"), Role(role)).user)
    assert member.get(LIST).status_code == 200
    assert [member.get(f"{LIST}{path}").status_code for path in ("new/", f"{budget.pk}/", f"{budget.pk}/delete/")] == [
        status
    ] * 3
    assert ("New budget" in text(member.get(LIST))) == (status == 200)


def test_budgets_of_other_accounts_are_not_found(owner, bob):  # noqa: F811
    theirs = make_budget(bob)
    paths = (f"{theirs.pk}/", f"{theirs.pk}/delete/")
    assert [owner.post(f"{LIST}{path}", {"amount": "1", "action": "WARN"}).status_code for path in paths] == [404, 404]
    assert rows() == [("ACCOUNT", "", None, 5_000, "STOP", None)]


def test_support_sees_budgets_and_runs(alice, key):
    make_budget(alice, spent_cents=4_000)
    key.runs.create(name="nightly-42", budget_nanos=10**9, spent_nanos=10**8)
    support = signed_in(make_staff("a@example.org", ["billing.view_account", "keys.view_apikey"]))
    page = text(support.get(f"/admin/billing/account/{alice.pk}/change/"))
    assert "The whole account 80 % this month $40.00 $0.00 $50.00 Requests are refused until" in page
    assert "Run nightly-42 of laptop Open $0.10 $0.00 $1.00" in page
