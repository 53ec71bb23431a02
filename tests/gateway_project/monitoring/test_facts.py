"""Facts are read from rows, at a cost that does not grow with them."""

import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from billing import facts as billing_facts
from billing.models import Hold
from completions import facts as completion_facts
from completions.models import Provider, Route
from gateway_project.monitoring import collector, facts
from gateway_project.monitoring.models import Process, TaskRun
from tests import plans, usage

TASKS = {str(entry["task"]) for entry in settings.PERIODIC_TASKS.values()}


def values(name):
    """Return the samples of a fact: the number by the value of its label."""
    [fact] = [fact for fact in facts.declared(facts.Fact) if fact.name == name]
    return {"".join(sample.labels.values()): sample.value for sample in collector.read(fact).samples}


def test_before_anything_has_run_every_fact_is_there(db):
    shown = {fact.name: values(fact.name) for fact in facts.declared(facts.Fact)}
    now = {"": pytest.approx(time.time(), abs=600)}
    assert shown == {
        "gateway_archive_lag_days": {"": 0},
        "gateway_ledger_reread_timestamp_seconds": now,
        "gateway_ledger_signed_timestamp_seconds": now,
        "gateway_task_timestamp_seconds": dict.fromkeys(TASKS, 0),
        "gateway_beat_timestamp_seconds": {"": 0},
        "gateway_secrets_missing": {"encryption_key": 0, "pepper": 0},
        "gateway_ledger_violations": {"": 0},
        "gateway_ledger_verified_timestamp_seconds": {"": 0},
        "gateway_payment_differences": {"": 0},
        "gateway_holds_open": {"": 0},
        "gateway_holds_overdue": {"": 0},
        "gateway_margin_charged_nanos": {},
        "gateway_margin_cost_nanos": {},
        "gateway_margin_loss_nanos": {},
        "gateway_bill_unmatched_lines": {},
        "gateway_bill_reconciled_ratio": {},
        "gateway_bill_difference_dollars": {},
        "gateway_circuits_hinted": {},
        "gateway_provider_key_refused": {},
        "gateway_ranking_run_held": {},
    }


def test_the_last_run_of_a_task_counts(db):
    TaskRun.record("billing.tasks.verify_ledger", 3)
    assert values("gateway_ledger_violations") == {"": 3}
    TaskRun.record("billing.tasks.verify_ledger", 1)
    assert values("gateway_ledger_violations") == {"": 1}
    finished_at = TaskRun.objects.get().finished_at.timestamp()
    assert values("gateway_ledger_verified_timestamp_seconds") == {"": pytest.approx(finished_at, abs=0.001)}
    assert values("gateway_task_timestamp_seconds")["billing.tasks.verify_ledger"] == pytest.approx(finished_at, abs=0.001)


def test_every_scheduled_task_is_recorded(db, monkeypatch):
    monkeypatch.setattr("rankings.tasks.refresh_if_due.apply_async", lambda *args, **options: None)
    for name in TASKS:
        import_string(name)()
    assert set(TaskRun.objects.values_list("name", flat=True)) == TASKS
    assert 0 not in values("gateway_task_timestamp_seconds").values()


def test_open_and_overdue_holds_are_counted(alice):
    for minutes in (5, -5):
        usage.place(alice, 5)
        Hold.objects.filter(pk=Hold.objects.order_by("-created_at").values("pk")[:1]).update(
            expires_at=Now() + timedelta(minutes=minutes)
        )
    assert (values("gateway_holds_open"), values("gateway_holds_overdue")) == ({"": 2}, {"": 1})


def test_routes_that_other_processes_are_told_to_probe_are_counted_by_provider(echo_model):
    [route] = Route.objects.all()
    assert values("gateway_circuits_hinted") == {route.provider_id: 0}
    Route.objects.update(rests_until=Now() + timedelta(minutes=1))
    assert values("gateway_circuits_hinted") == {route.provider_id: 1}


def test_providers_that_refuse_their_key_are_shown_until_they_are_asked_no_more(echo_model):
    [provider] = Provider.objects.all()
    assert values("gateway_provider_key_refused") == {provider.pk: 0}
    Provider.objects.update(refused_key="of another key", key_refused_at=Now())
    assert values("gateway_provider_key_refused") == {provider.pk: 1}
    Provider.objects.update(key_refused_at=Now() - timedelta(minutes=4))
    assert values("gateway_provider_key_refused") == {provider.pk: 0}


def test_counting_holds_reads_open_ones_only(db):
    counted = [fact for fact in billing_facts.FACTS if fact.name.startswith("gateway_holds_")]
    assert len(counted) == 2
    for fact in counted:
        with plans.without_scans():
            plan = plans.plan_of(fact.sql)
        assert "Scan using open_holds_by_" in plan or "Scan on open_holds_by_" in plan


def test_this_host_shows_its_disk_now_and_other_hosts_as_they_last_reported(db, settings, tmp_path):
    settings.OUTBOX_DIR = tmp_path
    from gateway_project.monitoring import processes

    ours, theirs = processes.this_process("web"), processes.this_process("web")
    theirs.host = "elsewhere"
    for process in (ours, theirs):
        process.seen_at, process.gauges = Now(), {"gateway_outbox_waiting": 7, "gateway_dead_letters": 2}
        process.save()
    (tmp_path / "chatcmpl-1.json").touch()
    waiting, dead = collector._host_gauges(collector._read_facts()[1])
    assert {sample.labels["host"]: sample.value for sample in waiting.samples} == {processes.host(): 1, "elsewhere": 7}
    assert {sample.labels["host"]: sample.value for sample in dead.samples} == {processes.host(): 0, "elsewhere": 2}
    assert [waiting.name, dead.name] == [gauge.name for gauge in completion_facts.HOST_GAUGES]


def test_reports_of_ended_processes_are_forgotten_at_once_on_their_host_and_later_elsewhere(db):
    from gateway_project.monitoring import processes

    def report(host, age):
        process = processes.this_process("web")
        process.host = host
        processes.report(process)
        Process.objects.filter(pk=process.pk).update(seen_at=Now() - age)
        return process.pk

    here = processes.host()
    running = report(here, timedelta())
    report(here, timedelta(minutes=1))
    down = report("down", timedelta(days=6))
    report("gone", timedelta(days=8))
    newest = report(here, timedelta())
    assert set(Process.objects.values_list("pk", flat=True)) == {running, down, newest}
    assert {process.pk for process in Process.objects.alive()} == {running, newest}
