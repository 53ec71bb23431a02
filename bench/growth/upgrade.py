"""What an upgrade does under load to an installation that has many completions.

    python -m bench.growth.upgrade REVISION [COMPLETIONS [DAYS [SECONDS]]]

Fills a temporary database of that revision, as ``bench.growth.retention`` (1,000,000 completions take 2 GB), and serves it with
the code of that revision to 8 clients. Meanwhile it migrates with the code of the working tree, then starts a gateway of this
code beside the old one, and runs the tasks that find all rows for the first time. It prints what the clients got in each step.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench import against, run

CLIENTS, WINDOW_SECONDS = 8, 2
# Runs with the models of the revision, and the statements of this one, which suit all schemas since.
FILL = """
import sys
sys.path[:0] = sys.argv[1:3]
from bench.growth import filling  # before the revision's own can be found
import django
django.setup()
filling.fill(int(sys.argv[3]), int(sys.argv[4]))
"""
TASKS = ["completions.tasks.sum_up_hours", "completions.tasks.sum_up_usage"]
TASKS += ["billing.tasks.verify_ledger"] * 2  # the second audits a night


def main() -> None:
    completions, days, seconds = run.numbers(sys.argv[2:], 1_000_000, 30, 6)
    with run.Servers() as servers, against.tree(servers.directory, sys.argv[1]) as root:
        environ = run.prepared(servers.directory) | {"DJANGO_SETTINGS_MODULE": "gateway_project.settings"}
        _fill(root, servers.directory, environ, int(completions), int(days))
        run.load_catalog(environ, servers.directory, servers.upstream(), root)
        secret = run.account(environ, "load@example.org", root)
        old = servers.gateway(environ, root)
        wait, migrate = partial(time.sleep, seconds), partial(run.manage, environ, "migrate", "--verbosity=0")
        for step, act in (("before", wait), ("migrate", migrate), ("old code on the new tables", wait)):
            run.write_line(f"{step:34} {_measured(old, secret, act)}")
        new = servers.gateway(environ)
        for step in TASKS:
            run.write_line(f"{step:34} {_measured(new, secret, partial(run.manage, environ, 'run_task', step))}")
        run.write_line(f"{'after':34} {_measured(new, secret, wait)}")


def _fill(root: Path, scratch: Path, environ: dict[str, str], completions: int, days: int) -> None:
    (scratch / "bench").symlink_to(run.ROOT / "bench")
    arguments = [str(scratch), str(root), str(completions), str(days)]
    subprocess.run([run.PYTHON, "-c", FILL, *arguments], env=environ, cwd=scratch, check=True)


def _measured(port: int, secret: str, act: Callable[[], Any]) -> str:
    """Return what the clients got while ``act`` ran."""
    began, windows, request = time.perf_counter(), list[dict[str, Any]](), run.completion(secret, stream=False)
    with ThreadPoolExecutor(1) as background:
        running = background.submit(act)
        while not windows or not running.done():
            windows.append(run.load(port, CLIENTS, WINDOW_SECONDS, request))
        seconds = time.perf_counter() - began
        running.result()
    rates, slowest_ms = [window["per_second"] for window in windows], max(window["slowest_ms"] for window in windows)
    statuses = sum((Counter(window["statuses"]) for window in windows), Counter[str]())
    figures = f"{min(rates):6.0f} to {max(rates):6.0f} a second, slowest {slowest_ms:8.0f} ms"
    return f"{seconds:7.1f} s  {figures}  {json.dumps(statuses)}"


if __name__ == "__main__":
    main()
