"""A release with a migration, as docs/operating/upgrading.md describes it: two hosts of one database, under load."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import waiting
from tests.faults import fault
from tests.live import conftest
from tests.live.fleet import Fleet, environment, wait_seconds
from tests.live.gateway import Gateway

pytestmark = pytest.mark.long

COPIED = ("billing", "completions", "deploy", "gateway_project", "keys", "rankings", "templates", "manage.py")
# The next release: its table has a column more, its code reads it, and its migration needs a lock on a busy table.
MIGRATION = """
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("completions", "{last}")]
    operations = [migrations.AddField("completion", "is_of_next", models.BooleanField(db_default=False))]
"""
MODEL = '\n\nmodels.BooleanField(db_default=False).contribute_to_class(Completion, "is_of_next")\n'


def copy_code(to: Path) -> Path:
    to.mkdir()
    for name in COPIED:
        source = conftest.ROOT / name
        shutil.copytree(source, to / name) if source.is_dir() else shutil.copy(source, to)
    return to


def make_next_release(code: Path) -> None:
    migrations = code / "completions" / "migrations"
    last = max(path.stem for path in migrations.glob("0*.py"))
    (migrations / "9999_next.py").write_text(MIGRATION.format(last=last))
    with (code / "completions" / "models.py").open("a") as models:
        models.write(MODEL)


def replace_code(fleet: Fleet, host: Gateway, code: Path, by: Path) -> None:
    """Put other code in place, and send HUP. Return when all workers are new."""
    shutil.rmtree(code / "completions")
    shutil.copytree(by / "completions", code / "completions")
    old = {worker.pid for worker in fleet.workers(host)}
    os.kill(host._process.pid, signal.SIGHUP)
    waiting.until(lambda: not old & {worker.pid for worker in fleet.workers(host)}, waiting.PROCESS_SECONDS_MAX)
    assert not old & {worker.pid for worker in fleet.workers(host)}


@fault(
    "Deployment",
    "A release with a migration under load: hosts get its code in turn, then one goes back",
    "No request fails; each reply is charged once",
)
def test_two_releases_serve_side_by_side(fleet, tmp_path, monkeypatch, measured):
    former, following = copy_code(tmp_path / "former"), copy_code(tmp_path / "following")
    make_next_release(following)
    codes = [copy_code(tmp_path / f"host-{number}") for number in range(2)]
    hosts = []
    for code in codes:
        monkeypatch.setattr(conftest, "ROOT", code)
        hosts.append(fleet.begin(GATEWAY_GRACEFUL_TIMEOUT_SECONDS="60"))
    with fleet.load() as load:
        wait_seconds(load, 1)
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(migrate, cwd=following, env=environment(fleet.server, tmp_path), check=True)
        for host, code in zip(hosts, codes, strict=True):
            wait_seconds(load, 1)
            replace_code(fleet, host, code, following)
        wait_seconds(load, 1)
        replace_code(fleet, hosts[1], codes[1], former)
        wait_seconds(load, 1)
    errors = [line for host in hosts for line in host.log().splitlines() if '"level": "ERROR"' in line]
    assert (set(load.statuses()) - {200, None}, load.cut_off, errors) == (set(), [], [])  # None: the client left before it
    fleet.settle()
    assert fleet.server.rows("SELECT DISTINCT is_of_next FROM completions_completion") == [(False,)]
    measured(fleet.assert_consistent(load.calls))
