"""A host that uses a secret first which another host does not have is found, before and after its restart."""

import logging
from datetime import timedelta

import pytest
from django.core.checks import run_checks
from django.db.models.functions import Now

from gateway_project.monitoring import collector, facts, processes
from gateway_project.monitoring.models import Process

OLD, NEW = "o" * 44, "n" * 44
LISTS = {"OLD": [OLD], "OLD,NEW": [OLD, NEW], "NEW,OLD": [NEW, OLD], "NEW": [NEW]}
SETTINGS = {"ENCRYPTION_KEYS": ("GATEWAY_ENCRYPTION_KEYS", "encryption_key"), "KEY_PEPPERS": ("GATEWAY_KEY_PEPPERS", "pepper")}


@pytest.fixture(params=sorted(SETTINGS))
def setting(request):
    return request.param


def run_host(settings, setting, host, secrets):
    """Report a process of another host that has these secrets."""
    ours = getattr(settings, setting)
    setattr(settings, setting, LISTS[secrets])
    process = processes.this_process("web")
    setattr(settings, setting, ours)
    process.host = host
    processes.report(process)
    return process


def found():
    checked = run_checks(tags=["database"], databases=["default"])
    return [message.msg for message in checked if message.id == "gateway.W009"]


def shown():
    [fact] = [fact for fact in facts.FACTS if fact.name == "gateway_secrets_missing"]
    return {sample.labels["secret"]: sample.value for sample in collector.read(fact).samples}


@pytest.mark.parametrize(
    ("a", "b"), [("OLD", "OLD"), ("OLD,NEW", "OLD"), ("OLD,NEW", "OLD,NEW"), ("NEW,OLD", "OLD,NEW"), ("NEW", "NEW,OLD")]
)
def test_each_documented_step_on_one_host_after_the_other_is_fine(db, settings, setting, a, b):
    for here, there in ((a, b), (b, a)):
        Process.objects.all().delete()
        setattr(settings, setting, LISTS[here])
        run_host(settings, setting, "a", here)
        run_host(settings, setting, "b", there)
        assert found() == []
        assert set(shown().values()) == {0}


@pytest.mark.parametrize(("a", "b"), [("NEW,OLD", "OLD"), ("NEW", "OLD,NEW")])
def test_a_secret_that_is_used_where_another_host_lacks_it_is_found(db, settings, setting, a, b):
    setattr(settings, setting, LISTS["OLD,NEW"])
    run_host(settings, setting, "a", a)
    run_host(settings, setting, "b", b)
    user, other = ("a", "b") if b == "OLD" else ("b", "a")
    [message] = found()
    variable, label = SETTINGS[setting]
    assert message.startswith(f"The first of {variable} at ")
    users, without = message.split(" is missing at ")
    assert f"{user} (web)" in users
    assert without == f"{other} (web)."
    assert shown() == {"encryption_key": 0, "pepper": 0} | {label: 1}


def test_a_command_with_the_new_setting_warns_before_the_restart(db, settings, setting):
    setattr(settings, setting, LISTS["NEW,OLD"])
    run_host(settings, setting, "b", "OLD")
    [message] = found()
    assert message.endswith(f"at {processes.host()} (this command) is missing at b (web).")


def test_a_process_that_does_not_run_any_more_lacks_nothing(db, settings, setting):
    setattr(settings, setting, LISTS["NEW,OLD"])
    process = run_host(settings, setting, "b", "OLD")
    Process.objects.filter(pk=process.pk).update(seen_at=Now() - timedelta(seconds=31))
    assert found() == []
    assert set(shown().values()) == {0}


def test_a_process_logs_once_what_others_lack_and_once_that_they_have_it(db, settings, setting, caplog):
    a = run_host(settings, setting, "a", "NEW,OLD")
    logged = []
    for lacking in ("OLD", "OLD", "OLD,NEW", "OLD,NEW"):
        Process.objects.filter(host="b").delete()
        run_host(settings, setting, "b", lacking)
        logged = processes.warn(a, Process.objects.alive(), logged)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            f"gateway.W009: The first of {SETTINGS[setting][0]} at a (web) is missing at b (web).",
        ),
        (logging.WARNING, "gateway.W009: Every running process has the secrets that this one uses."),
    ]


def test_fingerprints_tell_secrets_apart_and_do_not_contain_them():
    prints = processes.fingerprints([OLD, NEW, OLD])
    assert prints[0] == prints[2] != prints[1]
    assert [len(each) for each in prints] == [16, 16, 16]
    assert not any(OLD[:4] in each or NEW[:4] in each for each in prints)
