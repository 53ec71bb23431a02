"""What an upgrade does under load to an installation that has many completions.

    python -m bench.growth.upgrade REVISION [COMPLETIONS] [DAYS]

Fills a temporary database of that revision, as ``bench.growth.retention`` (1,000,000 completions take 2 GB), and serves it with
the code of that revision to 8 clients. Meanwhile it migrates with the code of the working tree, then starts a gateway of this
code beside the old one, and runs the tasks that find all rows for the first time. It prints what the clients got in each step.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import against, run

CLIENTS, WINDOW_SECONDS = 8, 2
# Runs with the models of the revision, and the statements of this one, which suit all schemas since.
FILL = """
import sys
sys.path[:0] = sys.argv[1:3]
from bench import ledger  # before the revision's own can be found
import django
django.setup()
from datetime import UTC, datetime, timedelta
completions, days = int(sys.argv[3]), int(sys.argv[4])
began = datetime.now(UTC) - timedelta(days=days)
step = timedelta(days=days) / completions
made = ledger.Ledger(entries=completions, accounts=ledger.ACCOUNTS_AUDITED, began=began, step=step)
ledger.execute_unguarded("UPDATE completions_price SET effective_from = %(began)s", {"began": began - timedelta(days=1)})
ledger.execute_unguarded("UPDATE billing_account SET created_at = %(began)s", {"began": began - timedelta(days=1)})
made.fill(ledger.MANUAL_ENTRIES, ledger.HOLDS, ledger.COMPLETIONS)
"""
AUDIT = "billing.tasks.verify_ledger"
TASKS = ("completions.tasks.sum_up_hours", "completions.tasks.sum_up_usage", AUDIT)


def main() -> None:
    revision = sys.argv[1]
    completions = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    days = int(sys.argv[3]) if len(sys.argv) > 3 else 30
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    processes: list[subprocess.Popen[bytes]] = []
    with against.tree(scratch, revision) as root:
        try:
            _upgrade(root, scratch, processes, completions, days)
        finally:
            against.end(processes)
            shutil.rmtree(scratch, ignore_errors=True)


def _upgrade(root: Path, scratch: Path, processes: "list[subprocess.Popen[bytes]]", completions: int, days: int) -> None:
    environ = run.prepared(scratch) | {"DJANGO_SETTINGS_MODULE": "gateway_project.settings", "REDIS_URL": ""}
    upstream_port = run.free_port()
    processes.append(run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1))
    run.load_catalog(environ, scratch, upstream_port, root)
    _fill(root, scratch, environ, completions, days)
    secret = run.account(environ, "load@example.org", root)
    old = _serve(root, environ, processes)
    _report("before", old, secret, lambda: time.sleep(6))
    _report("migrate", old, secret, lambda: run.manage(environ, "migrate", "--verbosity=0"))
    _report("old code on the new tables", old, secret, lambda: time.sleep(6))
    new = _serve(run.ROOT, environ, processes)
    for name in TASKS:
        _report(name, new, secret, lambda name=name: run.manage(environ, "run_task", name))  # type: ignore[misc]
    _report("once more the audit", new, secret, lambda: run.manage(environ, "run_task", AUDIT))
    _report("after", new, secret, lambda: time.sleep(6))


def _fill(root: Path, scratch: Path, environ: dict[str, str], completions: int, days: int) -> None:
    (scratch / "bench").symlink_to(run.ROOT / "bench")
    arguments = [str(scratch), str(root), str(completions), str(days)]
    subprocess.run([run.PYTHON, "-c", FILL, *arguments], env=environ, cwd=scratch, check=True)


def _serve(root: Path, environ: dict[str, str], processes: "list[subprocess.Popen[bytes]]") -> int:
    port = run.free_port()
    command = [run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"]
    processes.append(run.start(command, environ | {"PORT": str(port)}, core=0, root=root))
    run.wait(port)
    return port


def _report(step: str, port: int, secret: str, act: Callable[[], Any]) -> None:
    """Print what the clients got while the step ran."""
    began, statuses, slowest_ms, rates = time.perf_counter(), dict[str, int](), 0.0, list[float]()
    with ThreadPoolExecutor(1) as background:
        running = background.submit(act)
        while True:
            window = run.load(port, CLIENTS, WINDOW_SECONDS, run.completion(secret, stream=False))
            rates.append(window["per_second"])
            slowest_ms = max(slowest_ms, window["slowest_ms"])
            for status, number in window["statuses"].items():
                statuses[status] = statuses.get(status, 0) + number
            if running.done():
                break
        seconds = time.perf_counter() - began
        running.result()
    figures = f"{min(rates):6.0f} to {max(rates):6.0f} a second, slowest {slowest_ms:8.0f} ms"
    sys.stdout.write(f"{step:34} {seconds:7.1f} s  {figures}  {json.dumps(statuses)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
