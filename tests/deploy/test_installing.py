"""docs/operating/installing.md, followed on a server of PostgreSQL, with the passwords and the roles that `init` makes."""

import html
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests

from gateway_project import installation
from gateway_project.management.commands.migrate import APPEND_ONLY
from tests import waiting
from tests.deploy.conftest import Installation
from tests.gateway_project.local.launch import bare_environment, free_port
from tests.live.database_server import _PATH, DatabaseServer

pytestmark = pytest.mark.long  # the page from its beginning takes half a minute

PAGE = (installation.CODE / "docs/operating/installing.md").read_text()
HOST = "gateway.example.com"
MAKE_A_PASSWORD = """
from billing.models import User
user = User.objects.get(email="{0}")
user.set_password("{0}")
user.is_staff = user.is_superuser = {1}
user.save()
"""


def commands() -> list[str]:
    [block] = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return block.splitlines()


@dataclass
class Server:
    """A server that is set up by the page: its files are below ``root``."""

    installed: Installation
    root: Path
    database: DatabaseServer
    port: int
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    secret: str = ""

    @property
    def environ(self) -> dict[str, str]:
        given = {
            "GATEWAY_SETTINGS_FILE": str(self.root / "etc/model-gateway/gateway.env"),
            "GATEWAY_VAR": str(self.root / "var"),
        }
        # Cookies without TLS, and the demo of payments; one worker is enough.
        given |= {"GATEWAY_DEVELOPMENT": "1", "REDIS_URL": "", "PORT": str(self.port), "WEB_CONCURRENCY": "1"}
        # Pages lead to where this process listens, and the demo sends its events there.
        here = f"127.0.0.1:{self.port}"
        given |= {"GATEWAY_API_HOST": here, "GATEWAY_BASE_HOST": here, "GATEWAY_ALLOWED_HOSTS": HOST}
        given |= {"GATEWAY_GRACEFUL_TIMEOUT_SECONDS": "2"}
        return given | {"GATEWAY_METRICS_BIND": "", "GATEWAY_BEHIND_PROXY": "0", "GATEWAY_RANKINGS_FETCH": "0"}

    def run(self, *words: str) -> str:
        done = self.installed.run(*words, cwd=self.root, **self.environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def follow(self, command: str) -> str:
        """Do what a command of the page does, on this machine."""
        self.done.append(command)
        match shlex.split(command):
            case ["python3", *_] | ["/opt/model-gateway/bin/pip", *_]:
                return ""  # the fixture has built and installed the wheel
            case ["/opt/model-gateway/bin/model-gateway", "init", host]:
                said = self.run("init", host, "--root", str(self.root))
                for path in self.root.glob("etc/model-gateway/*.env"):
                    path.write_text(path.read_text().replace("127.0.0.1:5432", f"127.0.0.1:{self.database.port}"))
                return said
            case ["runuser", "-u", "postgres", "--", "psql", "--file=-", "<", script_path]:
                psql = [f"{_PATH}/psql", "--quiet", "--file=-", self.database.url]
                with (self.root / script_path.lstrip("/")).open() as script:
                    return subprocess.run(psql, stdin=script, check=True, capture_output=True, text=True).stdout
            case ["systemctl", *_]:
                return self.serve()
            case ["model-gateway", *words]:
                return self.run(*words)
            case ["curl", url, *_]:
                command = command.replace("KEY", self.secret).replace(url, f"http://127.0.0.1:{self.port}/v1/chat/completions")
                return subprocess.run([*shlex.split(command), "-sS"], check=True, capture_output=True, text=True).stdout
        raise AssertionError(command)

    def serve(self) -> str:
        command = [str(self.installed.site / "bin" / "model-gateway"), "web"]
        environ = bare_environment(PYTHONPATH=str(self.installed.site), **self.environ)
        with (self.root / "log").open("wb") as log:
            self.processes.append(subprocess.Popen(command, env=environ, cwd=self.root, stdout=log, stderr=log))
        waiting.until(self._is_ready)
        assert self._is_ready(), (self.root / "log").read_text()
        return ""

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"http://127.0.0.1:{self.port}/readyz", timeout=10).status_code == 200
        except requests.ConnectionError:
            return False

    def url(self, role: str) -> str:
        """Return the address of the database as one of the two roles."""
        name = {"gateway": "gateway.env", "gateway_owner": "owner.env"}[role]
        return re.search(r"^DATABASE_URL=(.*)$", (self.root / "etc/model-gateway" / name).read_text(), re.MULTILINE)[1]


@pytest.fixture(scope="module")
def server(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp("server")
    for directory in [base, *base.parents][:3]:
        directory.chmod(0o755)  # PostgreSQL runs as another user
    database = DatabaseServer(base / "postgresql")
    database.make()
    rules = base / "postgresql" / "data" / "pg_hba.conf"
    rules.write_text(f"host all gateway,gateway_owner all scram-sha-256\n{rules.read_text()}")
    with (base / "postgresql" / "data" / "postgresql.conf").open("a") as file:
        file.write("fsync = off\n")
    database.start()
    root = base / "root"
    root.mkdir()
    server = Server(installed, root, database, free_port())
    yield server
    for process in server.processes:
        process.terminate()
        process.wait(waiting.PROCESS_SECONDS_MAX)
    database.stop()


@pytest.fixture(scope="module")
def said(server: Server) -> dict[str, str]:
    """Follow the page to its end. Return what each command printed."""
    said = {}
    for command in commands():
        said[command] = server.follow(command)
        if found := re.search(r"^mgw_\S+$", said[command], re.MULTILINE):
            server.secret = found[0]
    return said


def test_ten_commands_lead_to_the_first_charged_completion(server, said):
    assert len(server.done) == 10
    reply = json.loads(said[server.done[-1]])
    assert reply["choices"][0]["message"]["content"]
    [(kind, nanos)] = server_rows(server, "SELECT type, amount_nanos FROM billing_ledgerentry WHERE type = 'USAGE_DEBIT'")
    assert nanos != 0
    assert json.loads(server.run("verify_ledger", "--json"))["ok"]


def test_pages_and_their_static_files_come_from_the_wheel(server, said):
    here = f"http://127.0.0.1:{server.port}"
    for page in ("/", "/docs", "/accounts/login/"):
        reply = requests.get(f"{here}{page}", timeout=60)
        assert reply.status_code == 200
        sheets = re.findall(r'href="(/static/[^"]+\.css)"', reply.text)
        assert sheets
        assert {requests.get(f"{here}{sheet}", timeout=60).status_code for sheet in sheets} == {200}


def server_rows(server: Server, sql: str, role: str = "gateway") -> list[tuple[Any, ...]]:
    with psycopg.connect(server.url(role), autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def test_init_says_the_commands_of_the_page(server, said):
    printed = said["/opt/model-gateway/bin/model-gateway init gateway.example.com"]
    steps = [line.strip() for line in printed.partition("Next, as root:\n")[2].splitlines()]
    [*plain, _] = commands()[3:]
    wanted = [command.replace("/etc/", f"{server.root}/etc/") for command in plain]
    assert steps[: len(wanted)] == wanted


def test_a_deployment_with_the_settings_of_init_has_no_error(server, said):
    environ = {"GATEWAY_SETTINGS_FILE": server.environ["GATEWAY_SETTINGS_FILE"], "GATEWAY_VAR": str(server.root / "var")}
    done = server.installed.run("check", "--deploy", cwd=server.root, **environ)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"\(gateway\.(\w+)\)", done.stderr) == ["W010"]  # there is no mail server yet


# --- The role that serves -----------------------------------------------------------------------------------------


def test_the_serving_role_has_no_right_to_change_an_append_only_table(server, said):
    asked = ", ".join(f"has_table_privilege('{table}', 'UPDATE, DELETE, TRUNCATE, TRIGGER')" for table in APPEND_ONLY)
    assert server_rows(server, f"SELECT {asked}") == [(False,) * len(APPEND_ONLY)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE billing_ledgerentry SET amount_nanos = 1",
        "DELETE FROM billing_ledgerentry",
        "TRUNCATE billing_ledgerentry",
        "ALTER TABLE billing_ledgerentry DISABLE TRIGGER ALL",
        "CREATE TABLE mine (id int)",
        "DROP TABLE keys_apikey",
        "DROP TRIGGER entries_are_never_changed ON billing_ledgerentry",
        "CREATE OR REPLACE FUNCTION billing_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
        "SET session_replication_role = replica",
        "SET ROLE gateway_owner",
        "CREATE ROLE other",
        "COPY billing_ledgerentry TO PROGRAM 'cat'",
    ],
)
def test_the_serving_role_changes_no_table_trigger_function_or_role(server, said, statement):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        server_rows(server, statement)


def test_even_the_owner_changes_no_entry(server, said):
    with pytest.raises(psycopg.errors.CheckViolation):
        server_rows(server, "UPDATE billing_ledgerentry SET amount_nanos = 1", "gateway_owner")


def test_periodic_tasks_need_no_more_than_the_serving_role_may_do(server, said):
    program = """
from django.conf import settings
from gateway_project.celery import app
app.loader.import_default_modules()
for entry in settings.PERIODIC_TASKS.values():
    app.tasks[entry["task"]].apply(throw=True)
print(len(settings.PERIODIC_TASKS))
"""
    assert int(server.run("shell", "--no-imports", "--command", program).split()[-1]) > 10


def test_a_payment_and_an_act_of_staff_need_no_more_than_the_serving_role_may_do(server, said):
    server.run("create_account", "staff@example.com")
    for email, is_staff in (("you@example.com", False), ("staff@example.com", True)):
        server.run("shell", "--no-imports", "--command", MAKE_A_PASSWORD.format(email, is_staff))

    owner = signed_in(server, "you@example.com")
    payment = send(owner, "/dashboard/billing/", amount="20")
    send(owner, payment.url, action="pay")
    [(status,)] = server_rows(server, "SELECT status FROM billing_payment")
    assert status == "PAID"

    staff = signed_in(server, "staff@example.com")
    [(account,)] = server_rows(server, "SELECT id FROM billing_account WHERE name = 'you@example.com'")
    page = f"/admin/billing/account/{account}/credit/"
    send(staff, page, amount="5.00", reason="Sorry for the outage")
    kinds = {kind for (kind,) in server_rows(server, "SELECT type FROM billing_ledgerentry")}
    assert kinds == {"CREDIT_PURCHASE", "SUPPORT_CREDIT", "USAGE_DEBIT"}
    assert json.loads(server.run("verify_ledger", "--json"))["ok"]


class Browser(requests.Session):
    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.headers["Host"] = base.partition("//")[2]

    def request(self, method: str, url: str, **options: Any) -> requests.Response:  # type: ignore[override]
        return super().request(method, url if url.startswith("http") else f"{self.base}{url}", **options)


def signed_in(server: Server, email: str) -> Browser:
    browser = Browser(f"http://127.0.0.1:{server.port}")
    send(browser, "/accounts/login/", login=email, password=email)
    return browser


def send(browser: Browser, page: str, **fields: str) -> requests.Response:
    """Open a page and send its form with these fields."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', browser.get(page).text)
    reply = browser.post(page, {**{name: html.unescape(value) for name, value in found}, **fields})
    assert reply.status_code == 200, reply.text[:500]
    return reply


# --- Cells --------------------------------------------------------------------------------------------------------


def test_a_cell_is_added_and_an_account_moved_with_what_root_finds_on_the_server(server, said):
    """The role that serves may do neither, and works in the new cell."""
    assert json.loads(server.run("add_cell", "--closed", "--json")) == {"cell": 2, "is_open": False}
    moved = json.loads(server.run("move_account", "you@example.com", "2", "--json"))
    assert (moved["cell"], moved["rows"] > 5) == (2, True)
    server.follow(server.done[-1])
    assert server_rows(server, "SELECT count(*) FROM cell_02.billing_ledgerentry WHERE type = 'USAGE_DEBIT'") == [(2,)]
    assert json.loads(server.run("verify_ledger", "--json"))["ok"]


def refuse(server: Server, *words: str, **environ: str) -> str:
    done = server.installed.run(*words, cwd=server.root, **server.environ, **environ)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    return done.stderr.strip().splitlines()[-1]


def test_a_move_without_its_permission_says_the_command_that_gives_it(server, said):
    with psycopg.connect(server.database.url, autocommit=True) as superuser:
        superuser.execute("REVOKE SET ON PARAMETER session_replication_role FROM gateway_owner")
    line = refuse(server, "move_account", "you@example.com", "1")
    assert "GRANT SET ON PARAMETER session_replication_role TO gateway_owner" in line
    statement = re.search(r"--command='(.*)'", line)[1]
    with psycopg.connect(server.database.url, autocommit=True) as superuser:
        superuser.execute(statement)
    assert json.loads(server.run("move_account", "you@example.com", "1", "--json"))["cell"] == 1


def test_whoever_lacks_the_owner_s_file_is_told_where_it_is(server, said):
    line = refuse(server, "add_cell", DATABASE_URL=server.url("gateway"))
    assert line.startswith("CommandError: The role gateway of the database may not do this: ")
    assert line.endswith("Run it as root on the server that has owner.env, or with its DATABASE_URL.")
