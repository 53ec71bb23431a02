"""Many accounts: completions a second with one account and with a hundred, and with the row of one of them locked.

    .venv/bin/python -m bench.accounts [SECONDS [COMMIT_MS]]

The rates with a locked row are those of the other accounts: eight more clients send requests of one account, whose row a
forgotten session locks. COMMIT_MS delays each commit that waits for the disk, as a slower disk or a synchronous standby does.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench import run

ACCOUNTS = 100
CLIENTS = 64
_FILL = """
import json
from billing.ledger import writer
from billing.models import Account
from keys import lifecycle
secrets = []
for number in range(%d):
    account = Account.objects.create()
    writer.grant_support_credit(account.pk, amount_cents=10_000_000, reason="bench", reference=f"bench {number}")
    secrets.append(lifecycle.issue_key(account, name="bench")[1])
print(json.dumps([str(account.pk), secrets]))
"""


def fill(number: int) -> str:
    """Return the code that makes so many accounts, and prints the id of the last one and the secrets of all keys."""
    return _FILL % number


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    commit_ms = float(sys.argv[2]) if len(sys.argv) > 2 else 0
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    environ = run.prepared(directory)
    upstream_port = run.free_port()
    run.fill(environ, directory, upstream_port)
    last_account, secrets = json.loads(run.manage(environ, "shell", "--verbosity=0", "-c", fill(ACCOUNTS + 1)))
    _delay_commits(environ["DATABASE_URL"], commit_ms)
    upstream = run.start([run.PYTHON, "bench/upstream.py", str(upstream_port)], environ, core=1)
    requests = [run.completion(secret, stream=False) for secret in secrets]
    sys.stdout.write(f"{CLIENTS} clients; each commit of a settlement takes {commit_ms:g} ms longer\n")
    try:
        for workers in (1, 2):
            with _gateway(environ, workers) as port:
                _report(port, seconds, requests, workers, environ["DATABASE_URL"], last_account)
        sys.stdout.write(run.manage(environ, "verify_ledger"))
    finally:
        upstream.terminate()
        upstream.wait(60)


def _delay_commits(url: str, milliseconds: float) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET commit_delay = {int(milliseconds * 1_000)}")
        connection.execute("ALTER SYSTEM SET commit_siblings = 0")
        connection.execute("SELECT pg_reload_conf()")


@contextmanager
def _gateway(environ: dict[str, str], workers: int) -> Iterator[int]:
    """Run a gateway with so many web processes, all on one core. Yields its port."""
    port = run.free_port()
    settings = {**environ, "PORT": str(port), "WEB_CONCURRENCY": str(workers)}
    process = run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], settings, core=0)
    try:
        run.wait(port)
        yield port
    finally:
        process.terminate()
        process.wait(60)


def _report(port: int, seconds: float, requests: list[bytes], workers: int, url: str, last_account: str) -> None:
    *others, last = requests
    _rate(port, 2, CLIENTS, others)  # warm-up
    one = _rate(port, seconds, CLIENTS, others[:1])
    hundred = _rate(port, seconds, CLIENTS, others)
    unlocked = _rate_beside(port, seconds, others, last)
    with psycopg.connect(url) as forgotten:
        forgotten.execute("SELECT FROM billing_account WHERE id = %s FOR UPDATE", [last_account])
        locked = _rate_beside(port, seconds, others, last)
    sys.stdout.write(
        f"{workers} web processes\n"
        f"  one account        {one:8.0f}/s\n"
        f"  {ACCOUNTS} accounts       {hundred:8.0f}/s  {hundred / one:.2f} of one account\n"
        f"  beside another     {unlocked:8.0f}/s\n"
        f"  its row is locked  {locked:8.0f}/s  {locked / unlocked:.2f} of not locked\n"
    )
    sys.stdout.flush()


def _rate_beside(port: int, seconds: float, others: list[bytes], last: bytes) -> float:
    """Return the rate of the others while eight clients send requests of the last account."""
    with ThreadPoolExecutor(1) as thread:
        beside = thread.submit(_rate, port, seconds, 8, [last])
        rate = _rate(port, seconds, CLIENTS, others)
        beside.result()
    return rate


def _rate(port: int, seconds: float, clients: int, requests: list[bytes]) -> float:
    """Return how many of the requests, sent in turn, are answered a second. It cannot be wrk, which sends one request only."""
    command = run.pinned([run.PYTHON, "bench/load.py", str(port), str(clients), str(seconds)], core=1)
    output = subprocess.run(command, cwd=run.ROOT, input=b"\0".join(requests), stdout=subprocess.PIPE, check=True).stdout
    return float(json.loads(output)["per_second"])


if __name__ == "__main__":
    main()
