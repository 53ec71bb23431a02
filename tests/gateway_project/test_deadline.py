"""Deadlines: each fires once, in its own block only, whatever others do at the same moment."""

import threading

import gevent
import pytest

from gateway_project import deadline
from gateway_project.deadline import Alarm, Deadline, SilentDeadline

LONG = 600.0


class Expired(BaseException):
    pass


def test_a_deadline_raises_its_exception_in_the_block_that_waits():
    expired = Expired()
    with pytest.raises(Expired) as raised, Deadline(0.01, expired):
        gevent.sleep(LONG)
    assert raised.value is expired


def test_a_silent_deadline_ends_the_block():
    reached = []
    with SilentDeadline(0.01):
        gevent.sleep(LONG)
        reached.append("the end")
    assert not reached


def test_a_silent_deadline_passes_other_errors_on():
    with pytest.raises(Expired), SilentDeadline(LONG):
        raise Expired


def test_an_alarm_calls_its_function_once_and_the_block_goes_on():
    calls = []
    with Alarm(0.01, lambda: calls.append("called")):
        gevent.sleep(5 * deadline.TICK_SECONDS)
    assert calls == ["called"]


def test_a_block_that_ends_in_time_is_left_alone():
    with Deadline(0.01, Expired()):
        pass
    gevent.sleep(3 * deadline.TICK_SECONDS)


def test_the_first_of_nested_deadlines_fires_and_the_other_goes_on():
    outer = Expired()
    ended = []

    def wait() -> None:
        with Deadline(3 * deadline.TICK_SECONDS, outer):
            with SilentDeadline(0.01):
                gevent.sleep(LONG)
            ended.append("the inner block")
            gevent.sleep(LONG)

    with pytest.raises(Expired) as raised:
        wait()
    assert raised.value is outer
    assert ended == ["the inner block"]


def test_deadlines_of_one_moment_all_fire():
    def wait() -> str:
        try:
            with Deadline(0.01, Expired()):
                gevent.sleep(LONG)
        except Expired:
            return "expired"
        return "not expired"

    waits = [gevent.spawn(wait) for _ in range(50)]
    gevent.joinall(waits)
    assert [each.value for each in waits] == ["expired"] * 50


def test_a_block_that_ended_while_another_alarm_rang_is_left_alone():
    def wait() -> None:
        with Deadline(0.01, Expired()):
            gevent.sleep(LONG)

    waiting = gevent.spawn(wait)
    with Alarm(0.01, lambda: waiting.throw(gevent.GreenletExit)):  # of the same tick, and the first that rings
        waiting.join()
    assert isinstance(waiting.value, gevent.GreenletExit)


def test_each_thread_has_deadlines_of_its_own():
    outcomes = []

    def wait() -> None:
        with SilentDeadline(0.01):
            gevent.sleep(LONG)
        outcomes.append("ended")

    with Deadline(LONG, Expired()):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert outcomes == ["ended"]


def test_the_timer_runs_only_while_something_waits():
    with Deadline(0.01, Expired()), pytest.raises(Expired):
        gevent.sleep(LONG)
    ticker = gevent.get_hub().ticker
    gevent.sleep(3 * deadline.TICK_SECONDS)
    assert not ticker.alarms
    assert not ticker._timer.active
