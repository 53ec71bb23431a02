"""New code or settings that do not start, or need migrations, stop no worker that serves: not on HUP, nor when one died."""

import os
import shutil
import signal

import pytest

from tests.faults import fault
from tests.live import conftest
from tests.live.gateway import Gateway, eventually

pytestmark = pytest.mark.system

COPIED = ("billing", "completions", "deploy", "gateway_project", "keys", "rankings", "templates")
BROKEN = "this is no Python\n"
MIGRATION = """
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("keys", "{last}")]
    operations = [migrations.RunSQL("SELECT 1")]
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A copy of the code, with its bytecode, which gateways are started from. They soon try again what does not start."""
    root = tmp_path / "code"
    for name in COPIED:
        shutil.copytree(conftest.ROOT / name, root / name)
    master = root / "gateway_project" / "web" / "gunicorn" / "master.py"
    as_deployed = master.read_text()
    master.write_text(as_deployed.replace("_PAUSE_SECONDS = 5", "_PAUSE_SECONDS = 1"))
    assert master.read_text() != as_deployed
    monkeypatch.setattr(conftest, "ROOT", root)
    return root


def serving(gateway: Gateway) -> set[int]:
    """Return the process ids of the living workers that have loaded the gateway."""
    return {pid for pid in gateway.loaded() if _is_running(pid)}


def checked(gateway: Gateway) -> int:
    """Return how many processes have loaded all code and checked the settings, in which this finding is right."""
    return gateway.log().count('"check": "gateway.W001"')


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@fault(
    "Deployment",
    "HUP, or a worker's death, starts broken code or settings, or code without its migrations",
    "The log has the reason. Serving workers continue, also those that HUP replaces, until new ones serve",
)
def test_workers_go_on_while_new_code_or_settings_do_not_start(transactional_db, code, tmp_path):
    outbox = tmp_path / "outbox"
    settings = {"GATEWAY_OUTBOX_DIR": str(outbox), "GATEWAY_DEVELOPMENT": "0", "GATEWAY_ALLOWED_HOSTS": "127.0.0.1"}
    gateway = conftest.start(tmp_path / "log", {**settings, "WEB_CONCURRENCY": "2"}, conftest.AS_DEPLOYED)
    try:
        eventually(lambda: checked(gateway) == 2)
        first = serving(gateway)
        assert len(first) == 2

        broken = code / "gateway_project" / "settings.py"  # among the first that is read, so that it fails soon
        good = broken.read_text()
        broken.write_text(BROKEN)
        gateway._process.send_signal(signal.SIGHUP)
        eventually(lambda: gateway.log().count("the workers stay as they are") == 1)
        assert "SyntaxError" in gateway.log()
        assert gateway.request("GET", "/readyz").status == 200
        assert serving(gateway) == first

        os.kill(killed := min(first), signal.SIGKILL)
        eventually(lambda: "The others continue" in gateway.log())
        assert gateway.request("GET", "/readyz").status == 200
        assert serving(gateway) == first - {killed}
        broken.write_text(good)
        eventually(lambda: checked(gateway) == 3)
        assert len(serving(gateway)) == 2

        migration = code / "keys" / "migrations" / "9999_missing.py"
        migration.write_text(MIGRATION.format(last=max(path.stem for path in migration.parent.glob("0*.py"))))
        gateway._process.send_signal(signal.SIGHUP)
        eventually(lambda: "migrations are missing: run model-gateway migrate" in gateway.log())
        assert gateway.request("GET", "/readyz").status == 200
        for pid in serving(gateway) - first:  # none, if it began to load when the migration was there
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: gateway.log().count("NotMigrated") >= 2)
        assert gateway.request("GET", "/readyz").status == 200
        migration.unlink()
        eventually(lambda: len(serving(gateway)) == 2)

        shutil.rmtree(outbox)
        outbox.touch()
        gateway._process.send_signal(signal.SIGHUP)
        eventually(lambda: gateway.log().count("the workers stay as they are") == 3)
        assert "gateway.E009" in gateway.log()
        assert serving(gateway)
        assert gateway.request("GET", "/healthz").status == 200  # not ready: no settlement could be kept on disk

        outbox.unlink()
        configuration = code / conftest.AS_DEPLOYED
        configuration.write_text(configuration.read_text() + "\nworkers = 1\n")
        before, looks = serving(gateway), []
        gateway._process.send_signal(signal.SIGHUP)
        eventually(lambda: looks.append(serving(gateway)) or (len(looks[-1] - before) == 1 and not looks[-1] & before))
        assert all(looks), "nobody served while the new worker was loading"
        assert gateway.request("GET", "/readyz").status == 200
    finally:
        gateway.stop()
    assert gateway._process.returncode == 0
