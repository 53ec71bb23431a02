"""Each misconfiguration has a check id, and a web process does not start with one."""

import ast
import json
import runpy
import subprocess
import sys

import pytest
from cryptography.fernet import Fernet
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.module_loading import import_string

from gateway_project.local import development
from tests.gateway_project.local.launch import bare_environment, free_port

NOWHERE = "postgresql://nobody@localhost/nothing"


def found() -> set[str]:
    return {message.id for message in run_checks() if message.id.startswith("gateway.")}


@pytest.mark.parametrize(
    ("number", "setting", "value"),
    [
        ("E001", "SECRET_KEY", "too short"),
        ("E001", "SECRET_KEY_FALLBACKS", ["s" * 50, "too short"]),
        ("E002", "KEY_PEPPERS", []),
        ("E002", "KEY_PEPPERS", ["p" * 40, "too short"]),
        ("E003", "ENCRYPTION_KEYS", []),
        ("E003", "ENCRYPTION_KEYS", [Fernet.generate_key().decode(), "no Fernet key"]),
        ("E005", "ALLOWED_HOSTS", []),
        ("E006", "GATEWAY_API_HOST", "api.example.com"),
        ("E006", "GATEWAY_BASE_HOST", "www.example.com"),
        ("E011", "METRICS_SECRET", "too short"),
        ("E012", "METRICS_ADDRESS", ("127.0.0.1", 8000)),
        ("W005", "METRICS_ADDRESS", ("0.0.0.0", 9464)),
        ("W005", "METRICS_ADDRESS", ("metrics.example.com", 9464)),
        ("W005", "WORKER_METRICS_ADDRESS", ("0.0.0.0", 9465)),
        ("E013", "GATEWAY_BEHIND_PROXY", True),
        ("E013", "TRUSTED_PROXIES", 1),
        ("E014", "BYTES_IN_FLIGHT_MAX", 4_999_999),
        ("E014", "ACCOUNT_BYTES_IN_FLIGHT_MAX", 4_999_999),
    ],
)
def test_a_misconfiguration_reports_its_check_id(settings, number, setting, value):
    settings.WEB_PORT = 8000
    assert found() == set()
    setattr(settings, setting, value)
    assert found() == {f"gateway.{number}"}


def test_a_deployment_that_accepts_every_host_fails_the_check_for_deployment(settings):
    settings.ALLOWED_HOSTS = ["*"]
    assert found() == set()
    deployed = run_checks(include_deployment_checks=True)
    [error] = [message for message in deployed if message.id == "gateway.E016"]
    assert error.is_serious()


def test_a_misspelt_setting_is_named_with_what_to_write(monkeypatch):
    monkeypatch.setenv("GATEWAY_SMPT_HOST", "smtp.example.com")
    monkeypatch.setenv("GATEWAY_OF_ANOTHER_VERSION", "1")
    deployed = [each for each in run_checks(include_deployment_checks=True) if each.id == "gateway.W014"]
    assert [(each.msg, each.hint) for each in deployed] == [
        ("No setting has the name GATEWAY_OF_ANOTHER_VERSION.", "Remove it, unless the catalog names it for a provider's key."),
        ("No setting has the name GATEWAY_SMPT_HOST.", "Write GATEWAY_SMTP_HOST."),
    ]


def test_every_finding_of_a_check_says_what_to_write():
    silent = [
        f"{path.relative_to(development.ROOT)}:{node.lineno}"
        for path in development.ROOT.glob("[bgkcr]*/**/checks.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Error", "Warning")
        if "hint" not in [keyword.arg for keyword in node.keywords]
    ]
    assert silent == []


def test_a_deployment_without_redis_and_without_metrics_is_warned(settings):
    settings.GATEWAY_API_HOST = settings.GATEWAY_BASE_HOST = "example.com"
    settings.REDIS_URL, settings.GATEWAY_DEVELOPMENT, settings.PAYMENT_PROCESSOR = "", False, ""
    assert found() == {"gateway.W001", "gateway.W004"}


@pytest.mark.parametrize(
    ("address", "secret"), [(("127.0.0.1", 9464), ""), (("::1", 9464), ""), (None, "m" * 32), (("0.0.0.0", 9464), "m" * 32)]
)
def test_metrics_with_an_address_or_a_secret_of_their_own_pass_the_checks(settings, address, secret):
    settings.GATEWAY_API_HOST = settings.GATEWAY_BASE_HOST = "example.com"
    settings.REDIS_URL, settings.GATEWAY_DEVELOPMENT, settings.PAYMENT_PROCESSOR = "redis://localhost", False, ""
    settings.METRICS_ADDRESS, settings.METRICS_SECRET, settings.WEB_PORT = address, secret, 8000
    assert found() == set()


@pytest.mark.parametrize(
    ("number", "key", "value"), [("E004", "ENGINE", "django.db.backends.dummy"), ("E007", "ATOMIC_REQUESTS", True)]
)
def test_a_missing_or_misconfigured_database_reports_its_check_id(settings, monkeypatch, number, key, value):
    monkeypatch.setitem(settings.DATABASES["default"], key, value)
    assert found() == {f"gateway.{number}"}


def test_both_addresses_together_pass_the_checks(settings):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = "api.example.com", "www.example.com"
    assert found() == set()


def test_page_middleware_subclasses_what_djangos_silenced_check_looks_for(settings):
    missed = [message for message in run_checks(include_deployment_checks=True) if "CsrfViewMiddleware'" in message.msg]
    assert [message.is_silenced() for message in missed] == [True]
    ours = [import_string(path) for path in settings.MIDDLEWARE if ".Page" in path]
    assert [one for one in ours if issubclass(one, CsrfViewMiddleware)]


GUNICORN = ("-m", "gunicorn", "--config", "deploy/gunicorn.conf.py")
WORKER = ("-m", "celery", "-A", "gateway_project", "worker")
BEAT = ("-m", "celery", "-A", "gateway_project", "beat")
MAKE_RUN = ("-m", "gateway_project.local.supervisor")
MIGRATE = ("manage.py", "migrate")


def run(command: tuple[str, ...], **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a process that must end by itself: one that is restarted for ever would look like a slow start."""
    environ = bare_environment(**variables)
    return subprocess.run(
        [sys.executable, *command], cwd=development.ROOT, env=environ, capture_output=True, text=True, timeout=300
    )


@pytest.mark.system
@pytest.mark.parametrize("command", [GUNICORN, BEAT])
def test_no_process_starts_without_secrets_and_each_says_why_in_lines_of_json(command, tmp_path):
    done = run(command, GATEWAY_VAR=str(tmp_path), PORT=str(free_port()), WEB_CONCURRENCY="1")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout) == (3, "")
    assert {line["check"] for line in lines if line["level"] == "ERROR" and "check" in line} == {
        f"gateway.{number}" for number in ("E001", "E002", "E003", "E004", "E005")
    }


@pytest.mark.system
@pytest.mark.parametrize("command", [GUNICORN, WORKER, MIGRATE, MAKE_RUN])
def test_a_bad_number_is_one_line_of_every_process(command, tmp_path):
    done = run(command, DATABASE_URL=NOWHERE, GATEWAY_VAR=str(tmp_path), GATEWAY_KEEPALIVE_SECONDS="")
    assert (done.returncode != 0, done.stdout, done.stderr.count("\n")) == (True, "", 1)
    assert "GATEWAY_KEEPALIVE_SECONDS must be a whole number; it is ''." in done.stderr


@pytest.mark.system
def test_without_a_database_no_command_of_a_deployment_runs_or_makes_one(tmp_path):
    done = run(MIGRATE, GATEWAY_VAR=str(tmp_path / "var"), GATEWAY_SECRET_KEY="s" * 50)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("gateway.E004: DATABASE_URL is not set.")
    assert not (tmp_path / "var").exists()


@pytest.mark.system
def test_a_database_that_cannot_be_reached_is_named_by_migrate_without_a_traceback(tmp_path):
    nobody = f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"
    done = run(MIGRATE, GATEWAY_VAR=str(tmp_path), DATABASE_URL=nobody, GATEWAY_DEVELOPMENT="1", REDIS_URL="")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("CommandError: The database was not migrated: connection failed"), done.stderr
    assert "Connection refused" in done.stderr
    assert "Traceback" not in done.stderr


BAD_NUMBERS = [
    ("PORT", "eighty", "PORT must be a whole number; it is 'eighty'."),
    ("PORT", "", "PORT must be a whole number; it is ''."),
    ("WEB_CONCURRENCY", "0", "WEB_CONCURRENCY must be between 1 and 1000; it is 0."),
    ("GATEWAY_WORKER_CONNECTIONS", "1", "GATEWAY_WORKER_CONNECTIONS must be between 2 and 100000; it is 1."),
    ("GATEWAY_KEEPALIVE_SECONDS", "-1", "GATEWAY_KEEPALIVE_SECONDS must be between 1 and 3600; it is -1."),
    ("GATEWAY_GRACEFUL_TIMEOUT_SECONDS", "", "GATEWAY_GRACEFUL_TIMEOUT_SECONDS must be a whole number; it is ''."),
    (
        "GATEWAY_METRICS_BIND",
        "nine",
        "GATEWAY_METRICS_BIND must be a port, or a host and a port such as 127.0.0.1:9464; it is 'nine'.",
    ),
]


@pytest.mark.parametrize(("name", "value", "refusal"), BAD_NUMBERS)
def test_gunicorn_and_the_settings_refuse_a_number_in_the_same_words(monkeypatch, name, value, refusal):
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as refused:
        runpy.run_path(str(development.ROOT / "deploy" / "gunicorn.conf.py"))
    with pytest.raises(ImproperlyConfigured) as raised:
        runpy.run_path(str(development.ROOT / "gateway_project" / "settings.py"))
    assert (str(refused.value), str(raised.value)) == (refusal, refusal)
