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
        ("W001", "GATEWAY_DEVELOPMENT", False),
    ],
)
def test_a_misconfiguration_reports_its_check_id(settings, number, setting, value):
    settings.REDIS_URL = ""
    assert found() == set()
    setattr(settings, setting, value)
    assert found() == {f"gateway.{number}"}


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
