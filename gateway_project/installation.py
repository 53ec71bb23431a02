"""Where the files of the gateway are, and how its processes start.

The files are in a checkout, or in the wheel, which has templates and deploy within this package.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

VERSION = "0.3.0"  # pyproject.toml reads it here

_PACKAGE = Path(__file__).resolve().parent
CODE = _PACKAGE.parent  # the directory of all packages
IS_CHECKOUT = (CODE / "manage.py").is_file()
COMMAND = "manage.py" if IS_CHECKOUT else "model-gateway"  # as messages name it

_FILES = CODE if IS_CHECKOUT else _PACKAGE
TEMPLATES = _FILES / "templates"
DEPLOY = _FILES / "deploy"

# An installed package must not write beside its code, which an upgrade replaces.
_VAR = CODE / "var" if IS_CHECKOUT else Path("/var/lib/model-gateway")


def has_module(name: str) -> bool:
    """Return whether a library is installed, without importing it."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a parent of it is missing
        return False


def var(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("GATEWAY_VAR", "").strip() or _VAR).resolve()


# A container's only user is often root, and this worker reads only messages of the gateway.
_QUIET = ["-W", "ignore:You're running the worker with superuser privileges"]
_CELERY = [*_QUIET, "-m", "celery", "--quiet", "--app", "gateway_project"]


def processes(directory: Path) -> dict[str, list[str]]:
    return {
        "web": ["-m", "gunicorn", "--config", str(DEPLOY / "gunicorn.conf.py")],
        "worker": [*_CELERY, "worker", "--pool", "threads", "--concurrency", "8", "--without-gossip", "--without-mingle"],
        "beat": [*_CELERY, "beat", *_schedule(directory), "--pidfile="],
    }


def worker_with_beat(directory: Path) -> list[str]:
    """Return the arguments of a worker with beat as a thread: a process of its own takes as much memory again."""
    return [*processes(directory)["worker"], "--beat-thread", *_schedule(directory)]


def _schedule(directory: Path) -> list[str]:
    return ["--schedule", str(directory / "celerybeat-schedule")]
