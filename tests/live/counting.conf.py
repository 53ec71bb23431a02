"""gunicorn as in production, with workers that count the calls of each request. See ``calls``."""

import runpy
from typing import Any

_production = runpy.run_path("deploy/gunicorn.conf.py")
globals().update({name: value for name, value in _production.items() if not name.startswith("_")})


def post_worker_init(worker: Any) -> None:
    from tests.live import calls

    calls.start()
    _production["post_worker_init"](worker)
