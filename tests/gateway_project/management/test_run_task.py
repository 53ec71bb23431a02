"""`run_task` runs a periodic task in its own process, and records it as a worker does."""

import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from gateway_project.monitoring.models import TaskRun

NAME = "billing.tasks.verify_ledger"


@pytest.mark.django_db
def test_a_task_runs_now_and_its_end_is_recorded(capsys):
    call_command("run_task", NAME, "--json")
    assert json.loads(capsys.readouterr().out) == {"task": NAME, "result": 0}
    assert list(TaskRun.objects.values_list("name", "result")) == [(NAME, 0)]


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["os.remove", "rankings.tasks.refresh_due_sources"])
def test_what_is_not_periodic_or_only_starts_tasks_in_a_worker_is_refused_by_name(name):
    with pytest.raises(CommandError, match=rf"TASK: '{name}' is not one of billing.tasks.\w+, "):
        call_command("run_task", name)
    assert not TaskRun.objects.exists()


@pytest.mark.django_db
def test_a_task_that_a_worker_would_try_again_says_what_failed(monkeypatch):
    def fail(now: object) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr("billing.tasks.signed_days.verify", fail)
    with pytest.raises(CommandError, match=f"{NAME} did not end: the database is away. Run it again."):
        call_command("run_task", NAME)
