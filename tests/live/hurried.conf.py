"""gunicorn as in production, with short pauses between what its workers do regularly. See ``pauses`` and ``preloading``."""

import runpy
from typing import Any

_production = runpy.run_path("deploy/gunicorn.conf.py")
globals().update({name: value for name, value in _production.items() if not name.startswith("_")})


def on_starting(server: Any) -> None:
    if server.cfg.workers > 1:
        from tests.live import preloading

        preloading.load()
    _production["on_starting"](server)


def post_worker_init(worker: Any) -> None:
    from tests.live import pauses, preloading

    preloading.tell()
    pauses.shorten()
    pauses.end_soon()
    pauses.settle_within(_production["graceful_timeout"] - 1)
    _production["post_worker_init"](worker)
