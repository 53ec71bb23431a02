"""The environment of the tests, set before Django loads: an embedded PostgreSQL and secrets, unless the variables are set."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

os.environ.setdefault("GATEWAY_VAR", str(ROOT / "var" / "tests"))
os.environ["GATEWAY_DEVELOPMENT"] = "1"
os.environ["GATEWAY_DATABASE_POOL_SIZE"] = "0"  # no pool in the test process; gateways under test have their own
os.environ["GATEWAY_CATALOG_CACHE_SECONDS"] = "0"  # every test has its own catalog
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright runs an event loop in the test's thread
for name in ("GATEWAY_API_HOST", "GATEWAY_BASE_HOST"):
    os.environ.pop(name, None)

from gateway_project.local import development  # noqa: E402

development.prepare(os.environ)
