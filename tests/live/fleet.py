"""Hosts of a gateway that share a PostgreSQL server of their own, an account and a key. A test may break any of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench import run
from tests import waiting
from tests.gateway_project.local.launch import free_port
from tests.live import history_programs
from tests.live.conftest import AS_DEPLOYED, ROOT, start
from tests.live.database_server import DatabaseServer
from tests.live.gateway import QUESTION, Gateway
from tests.live.history import Call
from tests.live.history_programs import Ask
from tests.live.load import ECHO, Books, HasPort, Load

SETTINGS = {"WEB_CONCURRENCY": "2", "GATEWAY_KEY_REQUESTS_IN_FLIGHT": "1000", "GATEWAY_ACCOUNT_REQUESTS_IN_FLIGHT": "1000"}


# Of each completion that is charged: its tokens as they were charged last, what that was in all, and what these tokens cost. A
# correction is a completion of its own, which repeats the one that it corrects; what it gives back is a credit.
_CHARGES = """
    WITH RECURSIVE run AS (
        SELECT id, id AS first_id FROM completions_completion WHERE repeats IS NULL
        UNION ALL SELECT next.id, first_id FROM completions_completion AS next JOIN run ON next.repeats = run.id
    )
    SELECT first_id, last.prompt_tokens, last.completion_tokens, charged.nanos,
        ceil((last.prompt_tokens::numeric * input_nanos + last.completion_tokens::numeric * output_nanos) / 1000000)
    FROM (
        SELECT first_id, max(run.id) AS last_id, sum(-amount_nanos) AS nanos
        FROM run JOIN billing_ledgerentry ON reference IN (run.id, 'overcharge:' || run.id) GROUP BY first_id
    ) AS charged
    JOIN completions_completion AS last ON last.id = last_id JOIN completions_price AS price ON price.id = last.price_id
    """


class Fleet:
    def __init__(self, directory: Path, server: DatabaseServer, secret: str) -> None:
        self.server, self.secret = server, secret
        self.hosts: list[Gateway] = []
        self._directory = directory

    def begin(self, **settings: str) -> Gateway:
        """Start a host: a gunicorn with two workers, and a directory and an outbox of its own."""
        own = self.directory(len(self.hosts))
        own.mkdir()
        given = {**SETTINGS, "DATABASE_URL": self.server.url, "GATEWAY_VAR": str(own), **settings}
        self.hosts.append(start(own / "log", given, AS_DEPLOYED))
        return self.hosts[-1]

    def directory(self, host: int) -> Path:
        return self._directory / f"host-{host}"

    def end(self) -> None:
        for host in self.hosts:
            host.terminate()
        for host in self.hosts:
            host.stop()
        self.server.stop()

    def workers(self, host: Gateway) -> list[psutil.Process]:
        return psutil.Process(host._process.pid).children()

    def processes(self, host: Gateway) -> list[psutil.Process]:
        """Return the master and its workers."""
        return [psutil.Process(host._process.pid), *self.workers(host)]

    @contextmanager
    def load(self, hosts: Sequence[HasPort] = (), secret: str = "", **used: Any) -> Iterator[Load]:
        """Use these hosts, or all, while the block runs: with another secret than the fleet's, of some models, or at a pace."""
        with Load(list(hosts or self.hosts), secret or self.secret, **used).running() as load:
            yield load

    def ask(self, host: Gateway, secret: str = "") -> Call:
        """Send one request for a whole reply."""
        fields = {"model": ECHO, "messages": QUESTION, "max_tokens": 10}
        return history_programs.call(host.port, secret or self.secret, Ask("first", fields), "alone")

    def key(self, name: str) -> str:
        """Make another key of the account. Return its secret."""
        return str(self.manage("create_key", "bench@example.org", "--name", name)["secret"])

    def account(self, email: str) -> str:
        """Make another account. Return the secret of its key."""
        return run.account(environment(self.server, self._directory), email)

    # --- Afterwards -----------------------------------------------------------------------------------------------

    def files(self, kind: str) -> list[Path]:
        """Return the files of all outboxes: "json" waits to be settled, "dead" never will be."""
        return sorted(self._directory.glob(f"host-*/outbox/*.{kind}"))

    def open_holds(self) -> int:
        return int(self.server.rows("SELECT count(*) FROM billing_hold WHERE state = 'HELD'")[0][0])

    def has_old_signs(self) -> bool:
        """Return whether the sweeper would take the process of a completion for dead, if it ran now."""
        old = "settlement IS NULL AND coalesce(checkpointed_at, created_at) < statement_timestamp() - interval '1 minute'"
        return bool(self.server.rows(f"SELECT id FROM completions_completion WHERE {old} LIMIT 1"))

    def settle(self) -> None:
        """Wait until all is settled by itself."""
        waiting.until(lambda: not self.files("json") and not self.open_holds())
        assert (self.files("json"), self.open_holds()) == ([], 0)

    def recover(self) -> None:
        """Drain the outboxes and let the sweeper resolve the holds that no process does, as if an hour had passed."""
        waiting.until(lambda: not self.files("json"))
        self.server.rows("UPDATE billing_hold SET expires_at = expires_at - interval '1 hour' WHERE state = 'HELD'")
        self.server.rows(
            "UPDATE completions_completion SET checkpointed_at = checkpointed_at - interval '1 hour' WHERE settlement IS NULL"
        )
        self.manage("sweep_holds")
        self.settle()

    def assert_consistent(self, calls: Sequence[Call], *, deaths: bool = False) -> Books:
        """Assert that the ledger is, and agrees with what the callers were told."""
        references = [
            row[0] for row in self.server.rows("SELECT reference FROM billing_ledgerentry WHERE type = 'USAGE_DEBIT'")
        ]
        assert len(set(references)) == len(references), "a completion is charged twice"
        charges = self.server.rows(_CHARGES)
        overcharged = {completion for completion, _, _, charged_nanos, cost_nanos in charges if charged_nanos > cost_nanos}
        lost = {path.stem for path in self.files("dead")}
        books = Books(calls, {completion: tokens for completion, *tokens, _, _ in charges}, overcharged, lost, deaths)
        found = list(books.violations())
        assert not found, "\n".join(found[:20])
        assert self.manage("verify_ledger")["ok"]
        return books

    def manage(self, *arguments: str, **environ: str) -> Any:
        """Run an operator's command on a host of its own."""
        return json.loads(run.manage({**environment(self.server, self._directory), **environ}, *arguments, "--json"))

    def metric(self, name: str) -> float:
        """Return the sum of the metric over all hosts."""
        pages = [host.request("GET", "/metrics").body.decode().splitlines() for host in self.hosts]
        return sum(float(line.split()[1]) for page in pages for line in page if line.split()[0] == name)


def environment(server: DatabaseServer, directory: Path) -> dict[str, str]:
    """Return the environment of an operator's commands."""
    environ = {**os.environ, "DATABASE_URL": server.url, "GATEWAY_VAR": str(directory)}
    environ.pop("PROMETHEUS_MULTIPROC_DIR", None)
    return environ


class Template:
    """A migrated database with models, an account and a key, and a provider of models. Each fleet begins with a copy."""

    def __init__(self, directory: Path, **server: Any) -> None:
        self.directory = directory
        self._server = DatabaseServer(directory / "template", **server)
        self._port = free_port()
        self._upstream = subprocess.Popen([sys.executable, "bench/upstream.py", str(self._port)], cwd=ROOT)

    def fill(self) -> None:
        self._server.make()
        self._server.start()
        try:
            environ = environment(self._server, self.directory)
            self._secret = run.fill(environ, self.directory, self._port)
            run.manage(environ, "load_catalog")
        finally:
            self._server.stop()

    @contextmanager
    def fleet(self, **placed: Any) -> Iterator[Fleet]:
        directory = Path(tempfile.mkdtemp(dir=self.directory))
        directory.chmod(0o755)
        server = self._server.copy(directory / "postgresql", **placed)
        server.start()
        fleet = Fleet(directory, server, self._secret)
        try:
            yield fleet
        finally:
            fleet.end()

    @contextmanager
    def hung_provider(self) -> Iterator[None]:
        """Let the provider take connections and answer nothing, while the block runs."""
        self._upstream.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._upstream.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._upstream.kill()
        self._upstream.wait()


@contextmanager
def template(**server: Any) -> Iterator[Template]:
    """Make a template, and delete it with all its fleets at the end. ``server`` are options of its DatabaseServer."""
    directory = Path(tempfile.mkdtemp(prefix="gateway-faults-"))  # not pytest's: PostgreSQL's user must be able to enter it
    directory.chmod(0o755)
    made = Template(directory, **server)
    try:
        made.fill()
        yield made
    finally:
        made.end()
        shutil.rmtree(directory, ignore_errors=True)


def wait_seconds(load: Load, seconds: float) -> None:
    """Wait so long, and until enough was answered to mean something."""
    time.sleep(seconds)
    enough = load.answered() + 10
    waiting.until(lambda: load.answered() >= enough)
    assert load.answered() >= enough, load.statuses()


BEHIND_PROXY = {"GATEWAY_BEHIND_PROXY": "1", "GATEWAY_GRACEFUL_TIMEOUT_SECONDS": "30"}
