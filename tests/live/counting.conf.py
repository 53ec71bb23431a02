"""gunicorn as in production, with workers that count the calls of each request. See ``calls``."""

import runpy
from typing import Any

_production = runpy.run_path("deploy/gunicorn.conf.py")
globals().update({name: value for name, value in _production.items() if not name.startswith("_")})


def post_fork(server: Any, worker: Any) -> None:
    from tests.live import calls

    calls.start()
