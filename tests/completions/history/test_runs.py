"""/dashboard/runs/: what members see of runs: what each spent, holds and has left, by model; and its requests."""

import csv
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from completions import tasks
from completions.models import Completion
from completions.usage import files
from keys.models import Run
from tests import chat, factories
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent
from tests.pages.conftest import make_staff, other_owner, owner, owner_of, signed_in  # noqa: F401  fixtures
from tests.pages.dashboard_pages import text

pytestmark = pytest.mark.django_db
LIST = "/dashboard/runs/"
DOLLAR = 10**9


@pytest.fixture
def key(alice):
    return factories.make_key(alice, "laptop")[0]


def make_run(key, name="nightly-42", budget_nanos=10 * DOLLAR, **fields):
    return Run.objects.create(key=key, name=name, budget_nanos=budget_nanos, **fields)


def listed(client, **filters):
    reply = client.get(LIST, filters)
    assert reply.status_code == 200, reply.content
    return [each["run"].name for each in reply.context["runs"]]


def address(run):
    return reverse("run", args=[run.key_id, run.name])


def ask_in_run(secret, name):
    """Ask for a completion of the run, and return its id."""
    headers = {"x-gateway-run": name, "x-gateway-run-budget": "2.50"}
    return chat.send(client_for(secret), chat.body(), headers=headers).json()["id"]


def test_an_account_without_runs_is_told_how_to_begin_one(owner):  # noqa: F811
    page = text(owner.get(LIST))
    assert "No runs yet." in page
    assert "x-gateway-run-budget: 2.50" in page


def test_runs_are_listed_newest_first_and_found_by_key_and_beginning(owner, alice, bob, key):  # noqa: F811
    second, _ = factories.make_key(alice, "second")
    make_run(key, "a-1")
    make_run(key, "b_%")
    make_run(second, "a-2")
    make_run(factories.make_key(bob)[0], "of-bob")
    assert listed(owner) == ["a-2", "b_%", "a-1"]
    assert listed(owner, key=key.pk) == ["b_%", "a-1"]
    assert listed(owner, search="a-") == ["a-2", "a-1"]
    assert listed(owner, search="b_%") == ["b_%"]
    assert listed(owner, search="%") == []
    assert "No matching runs." in text(owner.get(LIST, {"search": "z"}))
    wrong = owner.get(LIST, {"key": "x", "search": "kept"})
    assert (wrong.status_code, "Correct the marked filters" in wrong.content.decode()) == (400, True)
    assert 'value="kept"' in wrong.content.decode()


@pytest.mark.parametrize(
    ("fields", "hours", "state", "percent"),
    [
        ({}, None, "Open", 0),
        ({"spent_nanos": 7_999_999_999}, 1, "Open", 79),
        ({"spent_nanos": 8 * DOLLAR, "held_nanos": 1}, None, "Running", 80),
        ({"spent_nanos": 10 * DOLLAR}, None, "Spent", 100),
        ({"spent_nanos": 1}, -1, "Ended", 0),
        ({"held_nanos": 1}, -1, "Running", 0),
    ],
)
def test_a_run_has_a_state_and_its_percent(owner, key, fields, hours, state, percent):  # noqa: F811
    run = make_run(key, deadline=hours and timezone.now() + timedelta(hours=hours), **fields)
    assert f"{run.name} {state} laptop {percent}%" in text(owner.get(LIST))
    page = text(owner.get(address(run)))
    assert f"nightly-42 {state} " in page
    assert ("The deadline has passed" in page) == (hours == -1)
    assert ("further requests of this run are refused with the code" in page) == (state == "Spent")


def test_a_run_leads_with_what_it_spent_and_amounts_that_add_up(owner, key):  # noqa: F811
    run = make_run(key, budget_nanos=2_500_000_000, spent_nanos=1_234_567_891, held_nanos=12_345, requests=7)
    page = text(owner.get(address(run)))
    assert "Spent $1.23 of $2.50" in page
    assert "Spent $1.234567891 Held by running requests $0.000012345 Left $1.265419764 Budget $2.500000000" in page
    assert run.budget_nanos == 1_234_567_891 + 12_345 + 1_265_419_764
    assert "Requests 7" in page
    assert "GET /v1/runs/nightly-42" in page


def test_a_run_is_of_one_key_and_account(owner, alice, bob, key):  # noqa: F811
    theirs = make_run(factories.make_key(bob)[0])
    assert owner.get(address(theirs)).status_code == 404
    assert owner.get(f"{LIST}{key.pk}/nightly-42/").status_code == 404


def test_the_requests_of_a_run_are_listed_by_model_and_linked(owner, alice, echo_model):  # noqa: F811
    key, secret = factories.make_key(alice, "laptop")
    ids = {ask_in_run(secret, name) for name in ("nightly-42", "nightly-42", "other")}
    run, other = Run.objects.get(name="nightly-42"), Completion.objects.get(run="other").pk
    cost_nanos = sum(Completion.objects.filter(run=run.name).values_list("cost_nanos", flat=True))
    page = owner.get(address(run))
    assert [(each["model_id"], each["requests"], each["cost_nanos"]) for each in page.context["models"]] == [
        ("demo/echo", 2, cost_nanos)
    ]
    requests = f"/dashboard/requests/?key={key.pk}&run=nightly-42"
    assert f'href="{requests.replace("&", "&amp;")}"' in page.content.decode()
    found = owner.get(requests)
    assert {row["completion"].pk for row in found.context["rows"]} == ids - {other}
    assert f'href="{address(run)}"' in found.content.decode()
    one = found.context["rows"][0]["completion"]
    assert f'href="{address(run)}"' in owner.get(f"/dashboard/requests/{one.pk}/").content.decode()
    support = signed_in(make_staff("a@example.org", ["completions.view_completion"]))
    assert "nightly-42" in support.get(f"/admin/completions/completion/{one.pk}/change/").content.decode()
    file = b"".join(owner.post(f"/dashboard/requests/export/?key={key.pk}&run=nightly-42").streaming_content).decode()
    assert [row["run"] for row in csv.DictReader(file.splitlines())] == ["nightly-42"] * 2


def test_usage_is_grouped_by_run_beside_tags_of_the_same_name(owner, alice, echo_model):  # noqa: F811
    key, secret = factories.make_key(alice, "laptop")
    ask_in_run(secret, "nightly-42")
    chat.ask(client_for(secret), metadata={"run": "a tag"})
    for _ in range(2):  # read from what is booked, then from the sums
        page = owner.get("/dashboard/usage/?by=run&range=24h")
        names = [line.name for line in page.context["lines"]]
        assert sorted(names) == ["Without run", "nightly-42"]
        tasks.sum_up_usage()
    assert [link["title"] for link in page.context["groupings"]] == ["Model", "Key", "User", "Run", "Tag run"]
    assert "/dashboard/requests/?run=nightly-42&amp;" in page.content.decode()
    file = b"".join(owner.post("/dashboard/usage/usage.csv?by=run&range=24h").streaming_content).decode()
    rows = [(row["groupedBy"], row["group"], row["value"], row["requests"]) for row in csv.DictReader(file.splitlines())]
    assert ("Run", "value", "nightly-42", "1") in rows
    assert set(files.COLUMNS) == set(file.splitlines()[0].split(","))
    assert_ledger_is_consistent()
