"""What a process remembers for a moment: it forgets in time, and never holds more than it may."""

import pytest

from gateway_project.cache import Memory


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def memory(clock):
    return Memory(seconds=10, things_max=3, clock=clock)


def test_a_thing_is_known_until_its_time_is_over(memory, clock):
    memory.put("a", 1)
    clock.now += 9.9
    assert memory.get("a") == 1
    clock.now += 0.1
    assert memory.get("a") is None


def test_a_thing_put_again_is_replaced_and_begins_anew(memory, clock):
    memory.put("a", 1)
    clock.now += 9
    memory.put("a", 2)
    clock.now += 9
    assert memory.get("a") == 2
    assert len(memory) == 1


def test_of_too_many_the_oldest_is_forgotten(memory):
    for number, name in enumerate("abcd"):
        memory.put(name, number)
    assert [memory.get(name) for name in "abcd"] == [None, 1, 2, 3]
    assert len(memory) == 3


def test_what_is_over_takes_no_room(memory, clock):
    memory.put("a", 1)
    memory.put("b", 2)
    clock.now += 10
    memory.put("c", 3)
    assert len(memory) == 1


def test_what_is_forgotten_is_gone_and_forgetting_it_again_is_fine(memory):
    memory.put("a", 1)
    memory.forget("a")
    memory.forget("a")
    assert memory.get("a") is None
