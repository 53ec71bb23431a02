"""The pauses between what processes of the gateway do regularly: a test would wait for each of them.

The product has no part in this. Gateways with ``hurried.conf.py`` and Celery with ``hurried_celery`` call it when they start.
"""

from types import SimpleNamespace
from typing import Any


def shorten() -> None:
    """Let this process do often what it otherwise does every few seconds."""
    from completions.charging.recovery import checkpoints, drains
    from gateway_project.monitoring import collector, processes
    from keys.refusal_history import collector as refusals

    _set(checkpoints, "INTERVAL_SECONDS", 0.5)
    _set(drains, "INTERVAL_SECONDS", 0.5)
    _set(refusals, "WRITE_SECONDS", 0.5)
    _set(processes, "INTERVAL_SECONDS", 1)
    _set(collector, "KEPT_SECONDS", 0.2)


def end_soon() -> None:
    """Let this worker look ten times a second whether it shall end and its last request has ended. gunicorn looks once."""
    import gevent
    from gunicorn.workers import ggevent

    sleeping = {**vars(gevent), "sleep": lambda seconds: gevent.sleep(seconds / 10)}
    vars(ggevent)["gevent"] = SimpleNamespace(**sleeping)


def settle_within(seconds: float) -> None:
    """Keep so much of the grace period of a shutdown to settle, so that a slow machine has time for it."""
    from gateway_project.net import draining

    _set(draining, "_SETTLING_SECONDS", seconds)


def _set(module: Any, name: str, seconds: float) -> None:
    assert hasattr(module, name), f"{module.__name__} has no {name}"
    setattr(module, name, seconds)
