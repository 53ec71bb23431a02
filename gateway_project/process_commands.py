"""The processes of the gateway, as arguments of Python."""

from pathlib import Path

from gateway_project import installation

# A container's only user is often root, and this worker reads only messages of the gateway.
_QUIET = ["-W", "ignore:You're running the worker with superuser privileges"]
_CELERY = [*_QUIET, "-m", "celery", "--quiet", "--app", "gateway_project"]


def arguments(directory: Path) -> dict[str, list[str]]:
    return {
        "web": ["-m", "gunicorn", "--config", str(installation.DEPLOY / "gunicorn.conf.py")],
        "worker": [*_CELERY, "worker", "--pool", "threads", "--concurrency", "8", "--without-gossip", "--without-mingle"],
        "beat": [*_CELERY, "beat", *_schedule(directory), "--pidfile="],
    }


def worker_with_beat(directory: Path) -> list[str]:
    """Return the arguments of a worker with beat as a thread: a process of its own takes as much memory again."""
    return [*arguments(directory)["worker"], "--beat-thread", *_schedule(directory)]


def _schedule(directory: Path) -> list[str]:
    return ["--schedule", str(directory / "celerybeat-schedule")]
