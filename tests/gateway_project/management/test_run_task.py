"""`run_task` runs a periodic task in its own process, and records it as a worker does."""

import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from gateway_project.monitoring.models import TaskRun

NAME = "billing.tasks.verify_ledger"


@pytest.mark.django_db
def test_a_task_runs_now_and_its_end_is_recorded(capsys):
    call_command("run_task", NAME, "--json")
    assert json.loads(capsys.readouterr().out) == {"task": NAME, "result": 0}
    assert list(TaskRun.objects.values_list("name", "result")) == [(NAME, 0)]


@pytest.mark.django_db
def test_what_is_not_periodic_is_refused_by_name():
    with pytest.raises(CommandError, match=r"TASK: 'os.remove' is not one of billing.tasks.\w+, "):
        call_command("run_task", "os.remove")
    assert not TaskRun.objects.exists()
