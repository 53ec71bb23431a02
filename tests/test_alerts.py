"""Alert rules and dashboard, asked of Prometheus itself: when each rule fires, and that a healthy gateway is left alone."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from tests.declared_metrics import declared_metrics
from tests.environment import ROOT
from tests.faults import fault

pytestmark = pytest.mark.system

RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "gateway.json"
RUNBOOK = (ROOT / "docs" / "operating" / "runbook.md").read_text()
PROMTOOL = shutil.which("promtool", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

# A sample each 15 seconds, for half an hour. What fails does so from the 20th minute on.
HEALTHY = {
    "gateway_ledger_violations": "0x120",
    "gateway_ledger_verified_timestamp_seconds": "0x120",
    "gateway_ledger_signed_timestamp_seconds": "1x120",
    "gateway_archive_lag_days": "1x120",
    "gateway_beat_timestamp_seconds": "0+15x120",
    'gateway_task_timestamp_seconds{task="completions.tasks.release_expired_holds"}': "0+15x120",
    'gateway_task_timestamp_seconds{task="billing.tasks.sign_ledger"}': "0+15x120",
    "gateway_database_up": "1x120",
    "gateway_broker_up": "1x120",
    "gateway_queue_waiting": "0x120",
    "gateway_holds_overdue": "0x120",
    "gateway_payment_differences": "0x120",
    'gateway_dead_letters{host="a"}': "0x120",
    'gateway_outbox_waiting{host="a"}': "0x120",
    'gateway_secrets_missing{secret="pepper"}': "0x120",
    'gateway_provider_key_refused{provider="acme"}': "0x120",
    'gateway_circuits_open{provider="acme", instance="a"}': "0x120",
    'gateway_requests_total{route="v1/chat/completions", status="200", instance="a"}': "0+100x120",
    'gateway_requests_total{route="v1/chat/completions", status="503", instance="a"}': "0+1x120",
    'gateway_requests_total{route="v1/chat/completions", status="500", instance="a"}': "0x120",
    'gateway_requests_total{route="readyz", status="200", instance="a"}': "0+1x120",
    'gateway_requests_total{route="readyz", status="503", instance="a"}': "0x120",
    # One account alone fails, over and over.
    'gateway_requests_total{route="v1/messages", status="503", instance="a"}': "0+90x120",
    'gateway_own_circuit_refusals_total{instance="a"}': "0+90x120",
    "gateway_operator_loss_nanos_total": "0+10000000x120",  # a cent each
    'gateway_provider_loss_nanos_total{provider="acme"}': "0+1000000x120",
    'gateway_database_circuit_opened_total{instance="a"}': "0x120",
    'gateway_margin_loss_nanos{model="acme/large", provider="acme"}': "_x120",  # only there if it loses
    'gateway_bill_reconciled_ratio{provider="acme"}': "1x120",
}
# By the alert: what is otherwise, and after how many minutes of it the alert must fire.
FAULTS = {
    "LedgerViolated": ({"gateway_ledger_violations": "0x80 1x40"}, 2),
    "LedgerNotAudited": ({"gateway_ledger_verified_timestamp_seconds": "-100000x120"}, 0),
    "DeadLetters": ({'gateway_dead_letters{host="a"}': "0x80 1x40"}, 2),
    "FactsMissing": ({"gateway_database_up": "1x80 0x40"}, 7),
    "LedgerNotSigned": ({"gateway_ledger_signed_timestamp_seconds": "-300000x120"}, 5),
    "RootsNotSigned": ({'gateway_task_timestamp_seconds{task="billing.tasks.sign_ledger"}': "-100000x120"}, 5),
    "DetailsNotArchived": ({"gateway_archive_lag_days": "3x120"}, 5),
    "OutboxWaits": ({'gateway_outbox_waiting{host="a"}': "0x80 1x40"}, 2),
    "NotReady": ({'gateway_requests_total{route="readyz", status="503", instance="a"}': "0x80 0+1x40"}, 2),
    "CompletionsRefused": (
        {'gateway_requests_total{route="v1/chat/completions", status="503", instance="a"}': "0x80 0+50x40"},
        2,
    ),
    "ProviderKeyRefused": ({'gateway_provider_key_refused{provider="acme"}': "0x80 1x40"}, 2),
    "HoldsOverdue": ({"gateway_holds_overdue": "3x120"}, 0),
    "SweeperStopped": (
        {'gateway_task_timestamp_seconds{task="completions.tasks.release_expired_holds"}': "0+15x40 600x80"},
        2,
    ),
    "BeatStopped": ({"gateway_beat_timestamp_seconds": "0+15x40 600x80"}, 2),
    "QueueGrows": ({"gateway_queue_waiting": "60x120"}, 0),
    "SecretsMissing": ({'gateway_secrets_missing{secret="pepper"}': "0x80 1x40"}, 2),
    "ServerErrors": ({'gateway_requests_total{route="v1/chat/completions", status="500", instance="a"}': "0x80 1x40"}, 2),
    "GatewayLosesMoney": ({"gateway_operator_loss_nanos_total": "0+1000000000x120"}, 0),
    "ProviderFails": ({'gateway_circuits_open{provider="acme", instance="a"}': "0x80 1x40"}, 7),
    "ProviderLoses": ({'gateway_provider_loss_nanos_total{provider="acme"}': "0+100000000x120"}, 0),
    "SellsBelowCost": ({'gateway_margin_loss_nanos{model="acme/large", provider="acme"}': "_x80 5x40"}, 11),
    "BillsDiffer": ({'gateway_bill_reconciled_ratio{provider="acme"}': "0.97x120"}, 5),
    "DatabaseUnreliable": ({'gateway_database_circuit_opened_total{instance="a"}': "0x80 0+1x40"}, 3),
    "PaymentsDiffer": ({"gateway_payment_differences": "1x120"}, 10),
}


def promtool(*arguments: str) -> str:
    """Run Prometheus's own tool, from Debian's package prometheus. Return what it says."""
    assert PROMTOOL, "install promtool: apt-get install prometheus"
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> dict[str, dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def queries() -> list[str]:
    """Return the queries of the dashboard, with a range for Grafana's own."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel.get("targets", [])]


def firing(series: dict[str, str], minutes: int, alerts: set[str]) -> dict[str, Any]:
    """Return a case of promtool: of these series, after so many minutes, exactly these alerts fire."""
    return {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minutes}m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)],
            }
        ],
    }


@fault(
    "Deployment",
    "The cause of each alert rule: a locked ledger, a database without writes, settlements on disk, and others",
    "Its alert fires, and no other: within two minutes if completions are refused",
)
def test_each_alert_fires_for_its_fault_and_no_other_does(tmp_path):
    cases = [firing(HEALTHY | fault, 20 + minutes, {alert}) for alert, (fault, minutes) in FAULTS.items()]
    document = {"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [firing(HEALTHY, 30, set()), *cases]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(tmp_path / "test.yml"))
    assert set(FAULTS) == set(rules())


@pytest.mark.parametrize(
    ("audited", "began", "alerts"),
    [
        pytest.param(0, 90_000, set(), id="the first day, before its audit"),
        pytest.param(0, 4_000, {"LedgerNotAudited"}, id="never audited for more than a day"),
        pytest.param(90_000, 4_000, set(), id="audited, perhaps by hand"),
        pytest.param(4_000, 90_000, {"LedgerNotAudited"}, id="audited too long ago"),
    ],
)
def test_an_audit_is_missed_a_day_after_the_last_or_after_the_ledger_began(tmp_path, audited, began, alerts):
    """At the 28th hour: seconds since the beginning."""
    series = {
        "gateway_database_up": "1x400",
        "gateway_ledger_verified_timestamp_seconds": f"{audited}x400",
        "gateway_ledger_signed_timestamp_seconds": f"{began}x400",
    }
    case = {**firing(series, 28 * 60, alerts), "interval": "5m"}
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "5m", "tests": [case]})
    )
    promtool("test", "rules", str(tmp_path / "test.yml"))


@pytest.mark.parametrize("gone", [name for name in HEALTHY if "verified" in name])
def test_facts_that_are_not_there_are_missed(tmp_path, gone):
    series = {name: values for name, values in HEALTHY.items() if name != gone}
    document = {"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [firing(series, 10, {"FactsMissing"})]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(tmp_path / "test.yml"))


def test_rules_and_dashboard_ask_for_metrics_and_tasks_that_exist():
    asked = "\n".join([*(rule["expr"] for rule in rules().values()), *queries()])
    known = declared_metrics()
    asked_for = {re.sub(r"_(bucket|count)$", "", name) for name in re.findall(r"gateway_\w+", asked)}
    assert asked_for <= set(known)
    tasks = {entry["task"] for entry in settings.PERIODIC_TASKS.values()}
    assert set(re.findall(r'task="([^"]+)"', asked)) <= tasks


def test_prometheus_understands_each_query_of_the_dashboard(tmp_path):
    records = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(queries())]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
    assert f"{len(records)} rules found" in promtool("check", "rules", str(tmp_path / "queries.yml"))


def test_each_alert_has_a_page_that_says_what_to_do():
    sections = re.split(r"^## ", RUNBOOK, flags=re.MULTILINE)[1:]
    assert [part.partition("\n")[0] for part in sections] == list(rules())
    for name, rule in rules().items():
        assert rule["annotations"]["runbook"] == f"docs/operating/runbook.md#{name.lower()}"
        assert rule["annotations"]["summary"]
    for path in re.findall(r"\]\(([\w./-]+\.md)", RUNBOOK):
        assert (Path(ROOT / "docs" / "operating") / path).exists(), path
