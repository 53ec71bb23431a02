"""Each misconfiguration has a check id, and a web process does not start with one."""

import subprocess
import sys

import pytest
from cryptography.fernet import Fernet
from django.core.checks import run_checks
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.module_loading import import_string

from gateway_project.local import development
from tests.gateway_project.local.launch import bare_environment, free_port


def found() -> set[str]:
    return {message.id for message in run_checks() if message.id.startswith("gateway.")}


@pytest.mark.parametrize(
    ("number", "setting", "value"),
    [
        ("E001", "SECRET_KEY", "too short"),
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


def test_a_deployment_without_redis_and_without_metrics_is_warned(settings):
    settings.REDIS_URL, settings.GATEWAY_DEVELOPMENT = "", False
    assert found() == {"gateway.W001", "gateway.W004"}


@pytest.mark.parametrize(
    ("address", "secret"), [(("127.0.0.1", 9464), ""), (("::1", 9464), ""), (None, "m" * 32), (("0.0.0.0", 9464), "m" * 32)]
)
def test_metrics_with_an_address_or_a_secret_of_their_own_pass_the_checks(settings, address, secret):
    settings.REDIS_URL, settings.GATEWAY_DEVELOPMENT = "redis://localhost", False
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


@pytest.mark.parametrize("middleware", [SecurityMiddleware, XFrameOptionsMiddleware, CsrfViewMiddleware])
def test_page_middleware_subclasses_what_djangos_silenced_checks_look_for(settings, middleware):
    missed = [message for message in run_checks(include_deployment_checks=True) if f"{middleware.__name__}'" in message.msg]
    assert [message.is_silenced() for message in missed] == [True]
    assert [path for path in settings.MIDDLEWARE if issubclass(import_string(path), middleware)]


def test_the_web_process_does_not_start_without_secrets():
    # Wait for gunicorn itself to end: a worker that is restarted for ever would look like a slow start. Use one worker: when
    # two fail at the same moment, gunicorn's master ends with its own traceback.
    database_url = "postgresql://nobody@localhost/nothing"
    environ = bare_environment(DATABASE_URL=database_url, PORT=str(free_port()), WEB_CONCURRENCY="1")
    command = [sys.executable, "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py"]
    done = subprocess.run(command, cwd=development.ROOT, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    for number in ("E001", "E002", "E003", "E005"):
        assert f"gateway.{number}" in done.stderr
