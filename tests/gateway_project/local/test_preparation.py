"""A machine on which `make run` cannot start: one sentence says why, and what to do."""

import errno
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from completions.catalog import file as catalog_file
from completions.catalog.tables import InvalidCatalog
from gateway_project.local import development, embedded, preparation
from gateway_project.local.embedded import CannotStart
from gateway_project.local.preparation import Address

NOBODY = 65_534


@contextmanager
def somebody_else() -> Iterator[None]:
    """Run the block as a user who is not root, for whom permissions count."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def directory_of_another_user(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o755 if os.geteuid() == 0 else 0o555)
    return path


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_var_of_another_user_is_named_with_its_owner(tmp_path_factory, below):
    base = tmp_path_factory.mktemp("shared")
    for each in [base, *base.parents][:-2]:
        each.chmod(0o755)
    path = directory_of_another_user(base / "var") / below
    with somebody_else(), pytest.raises(CannotStart) as refused:
        development.var({"GATEWAY_VAR": str(path)})
    line = str(refused.value)
    assert line.startswith(f"{path} belongs to ")
    assert line.endswith(" may not write there: set GATEWAY_VAR to a directory of yours.")
    assert "\n" not in line


# By what the system says of a path: the words that say what to do.
REFUSED = {
    errno.ENOSPC: "because its disk is full: free some, or set GATEWAY_VAR to a directory on another disk.",
    errno.EDQUOT: "because your share of its disk is used up: free some, or set GATEWAY_VAR to a directory on another disk.",
    errno.EROFS: "is on a disk that is only read: set GATEWAY_VAR to a directory on another disk.",
    errno.EACCES: "may not write there: set GATEWAY_VAR to a directory of yours.",
    errno.EPERM: "may not write there: set GATEWAY_VAR to a directory of yours.",
    errno.ENOTDIR: "cannot be made: Not a directory. Set GATEWAY_VAR to a directory of yours.",
    errno.EEXIST: "cannot be made: File exists. Set GATEWAY_VAR to a directory of yours.",
    errno.EIO: "cannot be made: Input/output error. Set GATEWAY_VAR to a directory of yours.",
}


@pytest.mark.parametrize("number", REFUSED, ids=errno.errorcode.get)
def test_what_a_directory_refuses_says_what_to_do(tmp_path, number):
    line = str(embedded.cannot_write(tmp_path / "run.lock", OSError(number, os.strerror(number))))
    assert line.startswith(f"{tmp_path / 'run.lock'} ")
    assert line.endswith(REFUSED[number])


def test_a_disk_without_room_for_a_database_is_refused_before_anything_starts(tmp_path, monkeypatch):
    preparation.require_room(tmp_path)
    monkeypatch.setattr(preparation, "_FREE_BYTES_MIN", shutil.disk_usage(tmp_path).free + 2**30)
    with pytest.raises(CannotStart, match=r"^The disk of .* has \d+ MB left, and the gateway needs \d+: free some, or set "):
        preparation.require_room(tmp_path)


# By where the web process is to listen: the words that say what to do.
ADDRESSES = {
    "192.0.2.1": "Set GATEWAY_BIND to an address of this machine, such as 127.0.0.1 or [::1].",  # as 127.0.0.1 with IPv6 alone
    "[2001:db8::1]": "Set GATEWAY_BIND to an address of this machine, such as 127.0.0.1 or [::1].",
    "no-such-host.invalid": "Set GATEWAY_BIND to an address of this machine, such as 127.0.0.1 or [::1].",
}


@pytest.mark.parametrize("host", ADDRESSES)
def test_an_address_that_the_machine_does_not_have_says_what_to_set(host):
    with pytest.raises(CannotStart) as refused:
        preparation.require_free_port(Address(host, 8_000))
    assert str(refused.value).startswith(f"Cannot listen on {host}:8000: ")
    assert str(refused.value).endswith(ADDRESSES[host])


def test_a_port_that_is_taken_is_another_matter():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotStart, match="Try another PORT.$"):
        preparation.require_free_port(Address("127.0.0.1", taken.getsockname()[1]))


def test_a_catalog_that_the_user_may_not_read_says_who_reads_it(tmp_path_factory):
    base = tmp_path_factory.mktemp("catalog")
    path = base / "mine.toml"
    path.write_text("")
    path.chmod(0o600 if os.geteuid() == 0 else 0o000)
    for each in [base, *base.parents][:-2]:
        each.chmod(0o755)
    with somebody_else(), pytest.raises(InvalidCatalog) as refused:
        catalog_file.read([path])
    [line] = refused.value.errors
    assert line.startswith(f"{path}: Permission denied. This runs as ")
    assert "copy the file to where that user may read it" in line
