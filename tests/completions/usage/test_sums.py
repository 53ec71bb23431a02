"""What accounts used, summed up by hour from what is booked: each request once, also one that ends late."""

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection, connections
from django.db.models import F, Sum

from billing.ledger import audit
from billing.models import LedgerEntry
from completions import tasks
from completions.models import Completion, LabelDay, LabelHour, ProviderDay, UsageHour, UsageMark
from completions.usage import sums
from tests import chat, factories
from tests.completions.rows import ask, ask_streamed, begin, disconnect
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent
from tests.plans import plan_of, repeat_completion
from tests.upstream import refusal, streamed, whole


def summed(model=UsageHour, *by):
    """Return the sums by these columns, with spending as text of nanodollars."""
    rows = model.objects.order_by(*by).values_list(*by).annotate(*(Sum(name, default=0) for name in sums.COLUMNS))
    return {row[: len(by)]: dict(zip(sums.COLUMNS, map(int, row[len(by) :]), strict=True)) for row in rows}


def total(model=UsageHour, **only):
    return model.objects.filter(**only).aggregate(requests=Sum("requests"), errors=Sum("errors"), cost=Sum("cost_nanos"))


def spent_nanos(account):
    return -LedgerEntry.objects.filter(account=account, type="USAGE_DEBIT").aggregate(sum=Sum("amount_nanos"))["sum"]


def test_requests_are_summed_up_by_hour_key_and_model(alice, api, echo_model, large, upstream):
    second, secret = factories.make_key(alice, "second")
    chat.ask(api)
    chat.ask(api)
    chat.ask(client_for(secret))
    upstream.will(whole(), refusal(500))
    ask(api)
    ask(api)
    assert tasks.sum_up_usage() == 5
    first = alice.keys.exclude(pk=second.pk).get()
    by_key_and_model = summed(UsageHour, "key_id", "model_id")
    assert {by: (row["requests"], row["errors"]) for by, row in by_key_and_model.items()} == {
        (first.pk, "demo/echo"): (2, 0),
        (second.pk, "demo/echo"): (1, 0),
        (first.pk, "acme/large"): (2, 1),
    }
    done = Completion.objects.filter(model="acme/large").exclude(settlement="released").get()
    used = by_key_and_model[first.pk, "acme/large"]
    assert (used["prompt_tokens"], used["completion_tokens"], used["cost_nanos"]) == (9, 2, done.cost_nanos)
    assert total()["cost"] == spent_nanos(alice)
    assert_ledger_is_consistent()


def test_nothing_is_summed_up_twice(alice, api, echo_model):
    chat.ask(api, user="u")
    assert tasks.sum_up_usage() == 1
    before = summed(UsageHour, "key_id"), summed(LabelHour, "name", "value")
    assert tasks.sum_up_usage() == 0
    assert (summed(UsageHour, "key_id"), summed(LabelHour, "name", "value")) == before
    chat.ask(api)
    assert tasks.sum_up_usage() == 1
    assert total()["requests"] == 2
    assert_ledger_is_consistent()


def test_a_request_that_ends_late_counts_once_when_it_is_booked(alice, api, large, upstream):
    upstream.will(streamed())
    reply = ask_streamed(api)
    _, rest = begin(reply, "Hello you")
    chat.ask(api, model="acme/large")
    tasks.sum_up_usage()
    before = total()["requests"] or 0
    assert b"".join(rest)
    assert tasks.sum_up_usage() == 1
    assert total()["requests"] == before + 1
    assert total()["cost"] == spent_nanos(alice)
    assert_ledger_is_consistent()


def test_the_hour_is_that_of_the_ledger_entry(alice, api, echo_model):
    chat.ask(api)
    tasks.sum_up_usage()
    entry = LedgerEntry.objects.get(type="USAGE_DEBIT")
    assert UsageHour.objects.get().hour == entry.created_at.replace(minute=0, second=0, microsecond=0)


def test_times_to_the_first_token_are_those_of_streams(api, large, upstream):
    upstream.will(streamed(), whole())
    assert ask_streamed(api).getvalue()
    ask(api)
    tasks.sum_up_usage()
    timed = Completion.objects.exclude(first_token_ms=None).get()
    row = UsageHour.objects.get()
    assert (row.requests, row.first_tokens, row.first_token_ms) == (2, 1, timed.first_token_ms)


def test_users_and_tags_are_summed_up_each_by_itself(alice, api, echo_model):
    chat.ask(api, user="u", metadata={"team": "a", "app": "x"})
    chat.ask(api, metadata={"team": "a"})
    chat.ask(api)
    tasks.sum_up_usage()
    requests = {by: row["requests"] for by, row in summed(LabelHour, "name", "value").items()}
    assert requests == {("", "u"): 1, ("team", "a"): 2, ("app", "x"): 1}
    assert_ledger_is_consistent()


def test_each_of_many_users_and_tags_has_sums_of_its_own(alice, api, echo_model):
    factories.credit(alice, 100)
    for number in range(53):
        chat.ask(api, user=f"u-{number}", metadata={f"name-{number % 15}": f"v-{number}"})
    tasks.sum_up_usage()
    for _ in range(2):
        chat.ask(api, user="another", metadata={"another": "x"})
    tasks.sum_up_usage()
    requests = {by: row["requests"] for by, row in summed(LabelHour, "name", "value").items()}
    users = {("", f"u-{number}"): 1 for number in range(53)} | {("", "another"): 2}
    tags = {(f"name-{number % 15}", f"v-{number}"): 1 for number in range(53)} | {("another", "x"): 2}
    assert requests == users | tags
    assert total(LabelHour, name="")["cost"] == total(LabelHour, name__gt="")["cost"] == spent_nanos(alice)
    assert_ledger_is_consistent()


def test_labels_of_old_hours_are_added_to_their_day_once(alice, api, echo_model, monkeypatch):
    chat.ask(api, user="u", metadata={"team": "a"})
    chat.ask(api, user="v")
    tasks.sum_up_usage()
    sums_by_hour = summed(LabelHour, "name", "value")
    assert not LabelDay.objects.exists()
    monkeypatch.setattr(sums, "HOURS_KEPT", -sums.HOURS_KEPT)
    monkeypatch.setattr(sums, "_ROWS_MAX", 2)
    for _ in range(2):
        tasks.sum_up_usage()
        assert summed(LabelDay, "name", "value") == sums_by_hour
        assert not LabelHour.objects.exists()
    chat.ask(api, user="u")
    tasks.sum_up_usage()
    assert summed(LabelDay, "name", "value")["", "u"]["requests"] == 2
    assert set(LabelDay.objects.values_list("day", flat=True)) == {
        at.date() for at in LedgerEntry.objects.filter(type="USAGE_DEBIT").values_list("created_at", flat=True)
    }
    assert_ledger_is_consistent()


def test_sums_that_did_not_tell_all_labels_apart_are_made_anew(alice, api, echo_model):
    for name in ("u", "v"):
        chat.ask(api, user=name)
    tasks.sum_up_usage()
    exact = summed(UsageHour, "hour", "key_id"), summed(LabelHour, "name", "value")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; ALTER TABLE completions_labelhour ALTER value DROP NOT NULL")
        cursor.execute("UPDATE completions_labelhour SET value = NULL WHERE value = 'v'")
    import_module("completions.migrations.0007_labels_by_day").delete_sums(apps, None)
    ProviderDay.objects.all().delete()  # there were none then
    assert (UsageHour.objects.count(), LabelHour.objects.count()) == (0, 0)
    assert tasks.sum_up_usage() == 2
    assert (summed(UsageHour, "hour", "key_id"), summed(LabelHour, "name", "value")) == exact
    assert_ledger_is_consistent()


def test_many_entries_are_summed_up_in_parts(alice, api, echo_model, monkeypatch):
    monkeypatch.setattr(sums, "ENTRIES_MAX", 2)
    for _ in range(5):
        chat.ask(api)
    assert tasks.sum_up_usage() == 5
    assert (total()["requests"], UsageMark.objects.get(account=alice).last_seq) == (5, 6)
    assert_ledger_is_consistent()


@pytest.mark.django_db(transaction=True)
def test_runs_at_the_same_time_sum_up_each_request_once(api, echo_model, monkeypatch):
    monkeypatch.setattr(sums, "ENTRIES_MAX", 2)
    for number in range(20):
        chat.ask(api, user=f"u-{number % 3}")

    def run(_):
        try:
            return sums.sum_up()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(run, range(4))) == 20
    assert total()["requests"] == 20
    assert_ledger_is_consistent()


BREAKS = [
    (UsageHour, "cost_nanos", "usage_sums_to_the_ledger"),
    (UsageHour, "prompt_tokens", "usage_sums_to_the_ledger"),
    (UsageHour, "requests", "usage_sums_to_the_ledger"),
    (LabelHour, "cost_nanos", "labels_sum_to_the_ledger"),
    (LabelHour, "requests", "labels_sum_to_the_ledger"),
]


@pytest.mark.parametrize(("model", "column", "name"), BREAKS)
def test_a_planted_difference_to_the_ledger_is_found(api, echo_model, model, column, name):
    chat.ask(api, user="u")
    tasks.sum_up_usage()
    assert_ledger_is_consistent()
    model.objects.update(**{column: F(column) + 1})
    assert [each.invariant.name for each in audit.verify()] == [name]


def test_a_charge_under_the_label_of_another_request_is_found(api, echo_model):
    chat.ask(api, user="u")
    chat.ask(api, user="v")
    tasks.sum_up_usage()
    LabelHour.objects.filter(value="u").update(cost_nanos=F("cost_nanos") - 1)
    LabelHour.objects.filter(value="v").update(cost_nanos=F("cost_nanos") + 1)
    [violation] = audit.verify()
    assert (violation.invariant.name, {row["value"] for row in violation.rows}) == ("labels_sum_to_the_ledger", {"u", "v"})


def test_a_planted_failure_is_found(api, echo_model):
    chat.ask(api)
    tasks.sum_up_usage()
    UsageHour.objects.update(errors=F("errors") + 1, requests=F("requests") + 1)
    assert [each.invariant.name for each in audit.verify()] == ["usage_counts_what_failed"]


def test_an_hour_that_is_missing_is_found(alice, api, echo_model):
    chat.ask(api)
    tasks.sum_up_usage()
    UsageHour.objects.all().delete()
    [violation] = audit.verify(alice.pk)
    assert (violation.invariant.name, violation.rows[0]["says"]) == ("usage_sums_to_the_ledger", None)


def test_what_is_not_summed_up_yet_is_no_violation(api, echo_model, large, upstream):
    chat.ask(api)
    upstream.will(refusal(500))
    ask(api)
    upstream.will(streamed())
    disconnect(ask_streamed(api))
    assert_ledger_is_consistent()


def test_entries_and_completions_are_found_by_their_indexes(alice, api, echo_model):
    chat.ask(api)
    repeat_completion(Completion.objects.get().pk)
    plan = plan_of(sums._SUM_UP, {"accounts": [alice.pk], "entries_max": 2})
    assert "completions_completion_pkey" in plan
    assert "Seq Scan on completions_completion" not in plan
