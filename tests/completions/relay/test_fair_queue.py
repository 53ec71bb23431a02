"""A busy key starts a few requests at a time while another key starts any; alone, it starts all."""

import gevent
import pytest

from completions.relay.fair_queue import FairQueue, process_queue
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
