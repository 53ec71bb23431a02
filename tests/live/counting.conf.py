"""gunicorn as in production, with workers that count the calls of each request. See ``calls``.

SPEEDUP_OFF is the name of a speedup that is not installed, which tells what it saves.
"""

import os
import runpy
from typing import Any

_production = runpy.run_path("deploy/gunicorn.conf.py")
globals().update({name: value for name, value in _production.items() if not name.startswith("_")})


def post_worker_init(worker: Any) -> None:
    from gateway_project.speedups import django, gunicorn
    from tests.live import calls

    for speedups in (django.SPEEDUPS, gunicorn.SPEEDUPS):
        speedups[:] = [each for each in speedups if each.name != os.environ.get("SPEEDUP_OFF")]
    calls.start()
    _production["post_worker_init"](worker)
