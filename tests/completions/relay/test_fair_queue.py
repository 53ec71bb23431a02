"""A busy key starts a few requests at a time while another key starts any; alone, it starts all."""

import gevent
import pytest

from completions.relay.fair_queue import _LOOP_FACTOR, FairQueue, process_queue
from gateway_project.web import strict_json
from tests import chat, factories
from tests.conftest import client_for


class Scene:
    """Greenlets that start a request of a key, and end the start when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.queue = FairQueue(starts_max=2, clock=lambda: self.now)
        self.started: list[str] = []
        self._ends: dict[str, gevent.event.Event] = {}

    def begin(self, *names: str) -> list[gevent.Greenlet]:
        """Begin requests such as "a1", the first one of key "a"."""
        begun = [gevent.spawn(self._request, name) for name in names]
        gevent.sleep(0)
        return begun

    def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        gevent.sleep(0)
        gevent.sleep(0)  # who waited is woken, and starts

    def _request(self, name: str) -> None:
        self._ends[name] = gevent.event.Event()
        with self.queue.start(name[0]):
            self.started.append(name)
            self._ends[name].wait()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_key_that_is_alone_starts_all_its_requests(scene):
    scene.begin("a1", "a2", "a3", "a4")
    assert scene.started == ["a1", "a2", "a3", "a4"]


def test_beside_another_key_it_starts_so_many_at_a_time_and_the_others_in_their_order(scene):
    scene.begin("b1", "a1", "a2", "a3", "a4", "b2")
    assert scene.started == ["b1", "a1", "a2", "b2"]
    scene.end("a2")
    assert scene.started[-1] == "a3"
    scene.end("a1")
    assert scene.started[-1] == "a4"


def test_starts_that_began_alone_are_not_handed_on_beside_another_key(scene):
    scene.begin("a1", "a2", "a3", "a4")
    scene.begin("b1", "a5", "a6")
    scene.end("a1", "a2")
    assert "a5" not in scene.started
    scene.end("a3")
    assert scene.started[-1] == "a5"


def test_a_key_is_alone_again_a_second_after_the_others_last_start(scene):
    scene.begin("b1", "a1", "a2")
    scene.now += 1.5
    scene.begin("a3", "a4")
    assert scene.started == ["b1", "a1", "a2", "a3", "a4"]


def test_who_gives_up_waiting_leaves_its_place_to_the_next(scene):
    scene.begin("b1", "a1", "a2")
    [_, waiting, _] = scene.begin("a3", "a4", "a5")
    waiting.kill()
    scene.end("a1", "a2")
    assert scene.started == ["b1", "a1", "a2", "a3", "a5"]


def test_who_gives_up_just_when_it_may_start_passes_the_start_on(scene):
    scene.begin("b1", "a1", "a2")
    [chosen, _] = scene.begin("a3", "a4")
    scene._ends["a1"].set()
    scene.queue._waiting["a"][0].rawlink(lambda event: chosen.kill(block=False))
    scene.end("a2")
    gevent.sleep(0)
    assert "a4" in scene.started


def test_nothing_is_kept_of_keys_that_start_nothing(scene):
    begun = scene.begin("b1", "a1", "a2", "a3")
    for name in ("a1", "a2", "a3", "b1"):
        scene.end(name)
    gevent.joinall(begun)
    assert (scene.queue._starting, {key: len(queue) for key, queue in scene.queue._waiting.items() if queue}) == ({}, {})


# --- The time that streams take ---------------------------------------------------------------------------------------


class Reads:
    """Keys that read streams: how long each read took, of which half is measured, and how long each key then had to wait."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waited: dict[str, float] = {}
        self.queue = FairQueue(clock=lambda: self.now, sleep=self._sleep)

    def read(self, key: str, seconds: float, times: int = 1) -> None:
        self._reader = key
        for _ in range(times):
            self.now += seconds
            self.queue.spend(key, seconds / _LOOP_FACTOR)

    def _sleep(self, seconds: float) -> None:
        self.waited[self._reader] = self.waited.get(self._reader, 0.0) + seconds
        self.now += seconds


def test_streams_of_a_key_that_is_alone_do_not_wait():
    reads = Reads()
    reads.read("a", 0.001, times=3_000)
    assert reads.waited == {}


def test_beside_another_key_the_streams_of_a_busy_key_get_half_of_the_time():
    reads = Reads()
    for _ in range(300):
        reads.read("b", 0.0001)
        reads.read("a", 0.001, times=10)
    assert set(reads.waited) == {"a"}
    assert reads.waited["a"] == pytest.approx(300 * 10 * 0.001, rel=0.1)  # as long as it read


def test_two_busy_keys_get_a_third_each():
    reads = Reads()
    for _ in range(1_000):
        for key in "ab":
            reads.read(key, 0.005)
    taken = 1_000 * 0.005 / (reads.now - 100)
    assert 0.3 < taken < 0.4  # of either


def test_a_read_that_waited_for_its_client_counts_as_a_short_one():
    reads = Reads()
    reads.read("b", 0.0001)
    reads.read("a", 0.9)
    assert reads.waited["a"] == pytest.approx(0.02)  # not as long as it took


def test_nothing_is_kept_of_keys_that_stopped_reading():
    reads = Reads()
    for _ in range(50):
        reads.read("b", 0.0001)
        reads.read("a", 0.01)
    reads.now += 2
    reads.read("c", 0.0001)
    assert (reads.queue._spent, reads.queue._ahead) == ({}, {})


def test_a_body_is_parsed_within_the_start_of_its_request(alice, echo_model, monkeypatch):
    """Also one that is refused then: parsing it is most of what it costs."""
    key, secret = factories.make_key(alice)
    starting = []
    parse = strict_json.loads

    def note_and_parse(*args, **options):
        starting.append(dict(process_queue._starting))
        return parse(*args, **options)

    monkeypatch.setattr(strict_json, "loads", note_and_parse)
    client = client_for(secret)
    assert [chat.send(client, raw).status_code for raw in (chat.body(), b"{}", b"{")] == [200, 400, 400]
    assert starting == [{key.pk: 1}] * 3
    assert process_queue._starting == {}
