"""``model-gateway init``: writes the settings, secrets, units and proxy of this server, or the files of a Compose project.

The files are those of ``deploy``, with this server's names, passwords and paths. A file that exists is kept, with its secrets.
"""

import argparse
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from cryptography.fernet import Fernet

from gateway_project import installation

USER = "model-gateway"
_DEPLOYED, _EXAMPLE_HOST = "/opt/model-gateway/bin/model-gateway", "gateway.example.com"
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")

# The hosts of the database and of Redis, and the address at which the processes listen.
_ON_SERVER = {"database": "127.0.0.1", "redis": "127.0.0.1", "own": "127.0.0.1"}
_IN_COMPOSE = {"database": "postgresql", "redis": "redis", "own": "0.0.0.0"}  # noqa: S104  of its container


@dataclass(frozen=True)
class File:
    path: Path
    text: str
    mode: int = 0o644


def main(arguments: Sequence[str]) -> None:
    options = _parser().parse_args(arguments)
    compose: Path | None = options.compose
    files = list(_compose_files(options.host, compose) if compose else _server_files(options.host, options.root))
    try:
        has_settings = _write(files)
    except OSError as error:
        advice = "Run this as root, or give --root or --compose DIRECTORY."
        sys.exit(f"{error.filename} cannot be written: {error.strerror}. {advice}")
    if not compose:
        (options.root / "etc/model-gateway/gateway.env").chmod(0o640)  # a copy from another server may be open to everybody
    if not compose and options.root == Path("/") and os.geteuid() == 0:
        _make_user(options.root / "etc/model-gateway/gateway.env")
    sys.stdout.write(_next_steps(options.host, compose, options.root, is_first=not has_settings))


def _parser() -> argparse.ArgumentParser:
    about = "Write the files of this server. Files that exist are kept."
    parser = argparse.ArgumentParser(prog="model-gateway init", description=about)
    parser.add_argument("host", metavar="HOST", type=_host, help="The host name of the gateway, such as gateway.example.com.")
    where = parser.add_mutually_exclusive_group()
    about_root = "Write below DIRECTORY, and make no user. Default: /"
    where.add_argument("--root", metavar="DIRECTORY", type=Path, default=Path("/"), help=about_root)
    where.add_argument("--compose", metavar="DIRECTORY", type=Path, help="Write the files of a Compose project there instead.")
    return parser


def _host(value: str) -> str:
    if not _HOST.fullmatch(value.lower()):
        raise argparse.ArgumentTypeError(f"{value!r} is no host name such as {_EXAMPLE_HOST}")
    return value.lower()


def _server_files(host: str, root: Path) -> Iterator[File]:
    settings = root / "etc/model-gateway"
    yield from _secret_files(host, settings, _ON_SERVER, mode=0o640)
    for unit in sorted((installation.DEPLOY / "systemd").iterdir()):
        yield File(root / "etc/systemd/system" / unit.name, _adapted(f"systemd/{unit.name}", host))
    yield File(root / "etc/nginx/model-gateway-hosts.conf", _shipped("nginx/model-gateway-hosts.conf"))
    yield File(root / "etc/nginx/sites-available/model-gateway", _adapted("nginx/model-gateway.conf", host))


def _compose_files(host: str, directory: Path) -> Iterator[File]:
    # Of the containers' users, who are unknown here, only those inside the directory may read them: it is closed to others.
    yield from _secret_files(host, directory, _IN_COMPOSE, mode=0o644)
    if not (directory / "gateway.env").exists():
        yield File(directory / "postgres.password", f"{secrets.token_urlsafe(24)}\n")
    for name in ("compose.yaml", "Containerfile"):
        yield File(directory / name, _adapted(f"container/{name}", host))
    proxy = _adapted("nginx/model-gateway.conf", host)
    yield File(directory / "model-gateway.conf", proxy.replace("/var/log/nginx/model-gateway.log", "/dev/stdout"))
    yield File(directory / "model-gateway-hosts.conf", "server web:8000 max_fails=1 fail_timeout=5s;\n")


def _secret_files(host: str, directory: Path, places: dict[str, str], mode: int) -> Iterator[File]:
    passwords = {role: secrets.token_urlsafe(24) for role in ("gateway", "gateway_owner")}
    urls = {role: f"postgresql://{role}:{password}@{places['database']}:5432/gateway" for role, password in passwords.items()}
    yield File(directory / "gateway.env", _settings(host, urls["gateway"], places), mode)
    if not (directory / "gateway.env").exists():  # else these passwords would not be those that it has
        private = 0o600 if mode == 0o640 else mode
        read_by = "`model-gateway migrate`, `add_cell` and `move_account` read it first"
        owner = f"# For root alone: {read_by}.\nDATABASE_URL={urls['gateway_owner']}\n"
        yield File(directory / "owner.env", owner, private)
        roles = _shipped("postgresql/roles.sql").replace("OWNER_PASSWORD", passwords["gateway_owner"])
        yield File(directory / "roles.sql", roles.replace("GATEWAY_PASSWORD", passwords["gateway"]), private)


def _settings(host: str, database_url: str, places: dict[str, str]) -> str:
    made = {
        "secret_key": secrets.token_urlsafe(64),
        "pepper": secrets.token_urlsafe(48),
        "encryption_key": Fernet.generate_key().decode(),
        "metrics_secret": secrets.token_urlsafe(32),
    }
    return _filled("server/gateway.env", host=host, database_url=database_url, **made, **places)


def _filled(name: str, **values: object) -> str:
    """Return a shipped text with values for its ``$names``."""
    return Template(_shipped(name)).substitute(values)


def _shipped(name: str) -> str:
    return (installation.DEPLOY / name).read_text()


def _adapted(name: str, host: str) -> str:
    return _shipped(name).replace(_DEPLOYED, str(_command())).replace(_EXAMPLE_HOST, host)


def _command() -> Path:
    return Path(sys.argv[0]).absolute() if Path(sys.argv[0]).name == "model-gateway" else Path(_DEPLOYED)


def _write(files: Sequence[File]) -> bool:
    """Write the files that do not exist, and say of each what was done. Return whether there were settings before."""
    has_settings = any(file.path.name == "gateway.env" and file.path.exists() for file in files)
    for file in files:
        kept = file.path.exists()
        if not kept:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            if file.path.name == "gateway.env":
                file.path.parent.chmod(0o700 if file.mode == 0o644 else 0o755)
            descriptor = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as opened:
                opened.write(file.text)
            file.path.chmod(file.mode)
        sys.stdout.write(f"{'kept ' if kept else 'wrote'}  {file.path}\n")
    return has_settings


def _make_user(settings: Path) -> None:
    """Make the user of the processes, who may read the settings, and put the command where a shell finds it."""
    home = Path("/var/lib/model-gateway")
    made = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", str(home)]
    if subprocess.run(["id", USER], capture_output=True, check=False).returncode:  # noqa: S603, S607
        subprocess.run([*made, "--shell", "/usr/sbin/nologin", USER], check=True)  # noqa: S603
    if not home.exists():
        home.mkdir(mode=0o700, parents=True)
        shutil.chown(home, USER, USER)
    shutil.chown(settings, "root", USER)
    link = Path("/usr/local/bin/model-gateway")
    if not link.exists() and _command() != link:
        link.symlink_to(_command())


def _next_steps(host: str, compose: Path | None, root: Path, *, is_first: bool) -> str:
    if compose:
        return "\n" + _filled("server/next-in-compose.txt", host=host, compose=compose, tls=compose / "tls")
    server = "first" if is_first else "another"
    return "\n" + _filled(f"server/next-on-{server}-server.txt", host=host, settings=root / "etc/model-gateway")
