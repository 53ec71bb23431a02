"""Room on the disk of the outbox: used when the disk is full, filled up again, and requests are refused when there is none."""

import errno
import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from completions.charging.recovery import drains, outbox, reserve
from completions.charging.recovery.drains import Outcome
from completions.charging.resolution import ReplyRetention, Resolution
from completions.models import Completion
from completions.pricing.usage import Usage
from tests import factories
from tests.chat import everything_written
from tests.completions import settlements
from tests.completions.admitted import admit
from tests.completions.charging.recovery.checkpoint_rows import FIELDS
from tests.completions.charging.recovery.outbox_files import UNAVAILABLE
from tests.conftest import client_for

_ROOM_BYTES = 2**18


@pytest.fixture(autouse=True)
def _restored(monkeypatch, echo_model):
    monkeypatch.setattr(reserve, "refusal", None)
    monkeypatch.setattr(reserve, "_had_bytes", 0)
    monkeypatch.setattr(reserve, "_BYTES", _ROOM_BYTES)


@pytest.fixture
def probe():
    return client_for(None)


@pytest.fixture
def disk(tmp_path, settings):
    """A disk with little room, which the outbox is on."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    settings.OUTBOX_DIR = tmp_path / "outbox"
    yield tmp_path
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "full").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4_096))


def store(admitted, retention: ReplyRetention | None = None) -> str:
    ending = (Completion.Settlement.REPORTED, Usage(10, 10), 20_000, retention)
    outbox.store(Resolution(admitted.completion, settlements.served_by(admitted), *ending), UNAVAILABLE)
    return admitted.completion.id


def reserved_bytes(settings) -> int:
    return (settings.OUTBOX_DIR / ".reserve").stat().st_size


def test_a_settlement_on_a_full_disk_takes_from_the_reserve_which_is_filled_up_afterwards(alice, disk, settings):
    key = factories.make_key(alice)[0]
    reserve.keep()
    fill(disk)
    assert (reserved_bytes(settings), reserve.refusal) == (_ROOM_BYTES, None)
    ids = [store(admit(key), ReplyRetention("sealed" * 1_000, is_kept=True)) for _ in range(20)]
    assert reserved_bytes(settings) < _ROOM_BYTES
    assert json.loads((settings.OUTBOX_DIR / f"{ids[0]}.json").read_text())["reply_retention"]["sealed_reply"] is None
    reserve.keep()
    assert (reserved_bytes(settings) < _ROOM_BYTES, reserve.refusal) == (True, None)
    assert drains.drain() == {Outcome.RESOLVED: 20}
    reserve.keep()
    assert (reserved_bytes(settings), reserve.refusal) == (_ROOM_BYTES, None)
    alice.refresh_from_db()
    assert alice.balance_nanos == 10_000_000_000 - 20 * 20_000


def test_without_room_for_settlements_requests_are_refused_until_there_is_some(api, alice, probe, disk, settings, caplog):
    admitted = admit(factories.make_key(alice)[0])
    settings.OUTBOX_DIR.mkdir()
    fill(disk)
    reserve.keep()
    reserve.keep()
    assert caplog.text.count("requests are refused, as no settlement can be kept") == 1
    with pytest.raises(type(UNAVAILABLE)):
        store(admitted)
    before = everything_written()
    refused = api.post("/v1/chat/completions", FIELDS)
    assert (refused.status_code, refused["Retry-After"]) == (503, "2")
    assert refused.json()["error"]["code"] == "service_unavailable"
    ready = probe.get("/readyz")
    assert (ready.status_code, ready.json()["error"]["message"]) == (503, "Not ready: no settlement can be kept on disk.")
    assert everything_written() == before
    os.unlink(disk / "full")
    reserve.keep()
    assert probe.get("/readyz").status_code == 200
    assert b"[DONE]" in b"".join(api.post("/v1/chat/completions", FIELDS).streaming_content)


def test_a_settlement_that_waits_for_long_refuses_nothing_where_there_is_room(alice, disk, settings):
    store(admit(factories.make_key(alice)[0]))
    reserve.keep()
    assert (reserved_bytes(settings), reserve.refusal) == (_ROOM_BYTES, None)


def test_a_disk_that_takes_no_writes_keeps_nothing(disk, settings, probe):
    reserve.keep()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    reserve.keep()
    assert (reserve.refusal.errno, probe.get("/readyz").status_code) == (errno.EROFS, 503)


def test_of_a_small_disk_half_is_reserved(disk, settings, monkeypatch):
    monkeypatch.setattr(reserve, "_BYTES", 2**24)
    reserve.keep()
    assert reserve.refusal is None
    assert 2**18 < reserved_bytes(settings) <= 2**19
