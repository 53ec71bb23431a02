"""gunicorn as in production, with workers that die at the point that a file names. See ``crashes`` and ``preloading``."""

import runpy
from typing import Any

_production = runpy.run_path("deploy/gunicorn.conf.py")
globals().update({name: value for name, value in _production.items() if not name.startswith("_")})


def on_starting(server: Any) -> None:
    from tests.live import preloading

    preloading.load()
    _production["on_starting"](server)


def post_worker_init(worker: Any) -> None:
    from completions.charging.recovery import checkpoints
    from tests.live import crashes, pauses, preloading

    preloading.tell()
    pauses.end_soon()
    checkpoints.INTERVAL_SECONDS = 0.1  # type: ignore[assignment]  # so that tests need not wait for one
    crashes.watch()
    _production["post_worker_init"](worker)
