"""Loaded before Django is: gives the tests their own PostgreSQL and secrets, or uses yours if the variables are set."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

os.environ.setdefault("GATEWAY_VAR", str(ROOT / "var" / "tests"))
os.environ["GATEWAY_DEVELOPMENT"] = "1"
os.environ["GATEWAY_DATABASE_POOL_SIZE"] = "0"  # one process, few threads; the gateways under test have their pools
os.environ["GATEWAY_CATALOG_CACHE_SECONDS"] = "0"  # each test has a catalog of its own
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright runs an event loop in the thread of the test
for name in ("GATEWAY_API_HOST", "GATEWAY_BASE_HOST"):
    os.environ.pop(name, None)

from gateway_project.local import development  # noqa: E402

development.prepare(os.environ)
