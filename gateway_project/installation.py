"""Where the files of the gateway are: in a checkout, or in the wheel, which has templates and deploy within this package."""

from collections.abc import Mapping
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


def var(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("GATEWAY_VAR", "").strip() or _VAR).resolve()
