"""Commands that cannot reach the database say why, and not only how long they have waited."""

import subprocess
import sys

import pytest
from cryptography.fernet import Fernet

from gateway_project import installation
from tests.gateway_project.local.launch import bare_environment, free_port

pytestmark = pytest.mark.system


@pytest.mark.parametrize("words", [("check", "--database", "default"), ("verify_ledger",)])
def test_a_command_without_the_database_says_why(tmp_path, words):
    environ = bare_environment(
        DATABASE_URL=f"postgresql://gateway:secret@127.0.0.1:{free_port()}/gateway",
        REDIS_URL="",
        GATEWAY_VAR=str(tmp_path),
        GATEWAY_SECRET_KEY="k" * 50,
        GATEWAY_KEY_PEPPERS="p" * 32,
        GATEWAY_ENCRYPTION_KEYS=Fernet.generate_key().decode(),
        GATEWAY_ALLOWED_HOSTS="localhost",
    )
    command = [sys.executable, "manage.py", *words]
    done = subprocess.run(command, env=environ, cwd=installation.CODE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "The database is unavailable: " in done.stderr
    assert "Connection refused" in done.stderr
    assert "secret" not in done.stderr
