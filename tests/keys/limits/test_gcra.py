"""GCRA allows exactly the limit in a burst, then requests at even intervals."""

from collections import deque
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys.limits import gcra
from keys.limits.gcra import MINUTE

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LIMITS = [1, 2, 3, 7, 11, 59, 60, 61, 999, 1000, 7_001]


def burst(limit, *, cost=1, full_at=None, now=NOW):
    """Return how many requests pass at one instant, and the refusing decision."""
    passed = 0
    while (decision := gcra.decide(limit=limit, full_at=full_at, now=now, cost=cost)).allowed:
        passed, full_at = passed + 1, decision.full_at
    return passed, decision


@pytest.mark.parametrize("limit", LIMITS)
def test_exactly_the_limit_passes_in_a_burst(limit):
    passed, refused = burst(limit)
    assert passed == limit
    assert (refused.remaining, refused.limit) == (0, limit)


@pytest.mark.parametrize("limit", LIMITS)
def test_after_a_burst_the_next_request_passes_exactly_when_announced(limit):
    _, refused = burst(limit)
    assert timedelta(0) < refused.retry_in <= MINUTE / limit + timedelta(microseconds=1)
    for _ in range(3):
        soon = NOW + refused.retry_in
        too_soon = gcra.decide(limit=limit, full_at=refused.full_at, now=soon - timedelta(microseconds=1))
        assert not too_soon.allowed
        passed, refused = burst(limit, full_at=refused.full_at, now=soon)
        assert passed == 1
        refused = gcra.Decision(limit, False, refused.full_at, 0, refused.resets_in, soon + refused.retry_in - NOW)


@pytest.mark.parametrize("limit", LIMITS)
def test_the_whole_allowance_is_available_at_the_announced_time(limit):
    _, refused = burst(limit)
    assert refused.resets_in == refused.full_at - NOW
    assert burst(limit, full_at=refused.full_at, now=refused.full_at)[0] == limit
    assert burst(limit, full_at=refused.full_at, now=refused.full_at + timedelta(days=1))[0] == limit


def test_remaining_counts_down():
    full_at, remaining = None, []
    for _ in range(7):
        decision = gcra.decide(limit=7, full_at=full_at, now=NOW)
        full_at, remaining = decision.full_at, [*remaining, decision.remaining]
    assert remaining == [6, 5, 4, 3, 2, 1, 0]


def test_a_refused_request_does_not_change_the_state():
    _, refused = burst(10, cost=3)
    again = gcra.decide(limit=10, full_at=refused.full_at, now=NOW, cost=3)
    assert again == refused
    assert gcra.decide(limit=10, full_at=refused.full_at, now=NOW, cost=1).allowed


def test_a_cost_above_the_limit_never_passes():
    decision = gcra.decide(limit=100, full_at=None, now=NOW, cost=101)
    assert (decision.allowed, decision.retry_in, decision.full_at, decision.remaining) == (False, None, NOW, 100)
    assert gcra.decide(limit=100, full_at=None, now=NOW, cost=100).allowed


def test_a_correction_gives_back_or_takes_more():
    taken = gcra.decide(limit=100, full_at=None, now=NOW, cost=60).full_at
    back, _ = gcra.correct(limit=100, full_at=taken, now=NOW, difference=-50)
    assert gcra.decide(limit=100, full_at=back, now=NOW, cost=90).allowed
    assert not gcra.decide(limit=100, full_at=back, now=NOW, cost=91).allowed
    more, _ = gcra.correct(limit=100, full_at=taken, now=NOW, difference=30)
    assert gcra.decide(limit=100, full_at=more, now=NOW, cost=10).allowed
    assert not gcra.decide(limit=100, full_at=more, now=NOW, cost=11).allowed


def test_a_correction_never_adds_allowance_above_the_limit():
    assert gcra.correct(limit=100, full_at=None, now=NOW, difference=-1_000) == (NOW, 0)
    assert gcra.correct(limit=100, full_at=NOW - MINUTE, now=NOW, difference=0) == (NOW, 0)


@pytest.mark.parametrize("difference", [10**12, -(10**12), 10**30])
def test_a_correction_is_at_most_an_hours_allowance(difference):
    full_at, owed = gcra.correct(limit=1, full_at=NOW, now=NOW, difference=difference)
    assert NOW <= full_at <= NOW + MINUTE
    assert 0 <= owed <= 59


def test_what_exceeds_an_allowance_is_paid_back_before_anything_is_available():
    full_at, owed = gcra.correct(limit=60, full_at=None, now=NOW, difference=60 + 90)
    assert owed == 90
    for seconds, is_allowed in ((0, False), (90, False), (91, True)):
        decision = gcra.decide(limit=60, full_at=full_at, owed=owed, now=NOW + timedelta(seconds=seconds))
        assert decision.allowed is is_allowed
    assert (decision.full_at, decision.remaining) == (NOW + timedelta(seconds=151), 0)


@given(
    limit=st.integers(1, 5_000),
    steps=st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 10**9)), min_size=1, max_size=20),
)
def test_what_is_used_and_owed_returns_with_time_and_nothing_of_it_is_lost(limit, steps):
    """Compare with a number of microseconds that is used, which time and corrections change."""
    unit = -(-60_000_000 // limit)
    used, now, full_at, owed = 0, NOW, None, 0
    for difference, wait in steps:
        difference = max(min(difference, 60 * limit), -60 * limit)
        full_at, owed = gcra.correct(limit=limit, full_at=full_at, owed=owed, now=now, difference=difference)
        used = min(max(used + difference * unit, 0), 61 * limit * unit)
        assert NOW <= full_at <= now + timedelta(microseconds=limit * unit)
        now, used = now + timedelta(microseconds=wait), max(used - wait, 0)
        seen = gcra.decide(limit=limit, full_at=full_at, owed=owed, now=now, cost=0)
        assert seen.resets_in == timedelta(microseconds=used)


@given(
    limit=st.integers(1, 50),
    requests=st.lists(st.tuples(st.integers(0, 40_000_000), st.integers(1, 60)), max_size=60),
)
def test_decisions_equal_those_of_a_token_bucket(limit, requests):
    """Compare with a naive model: a full bucket of microseconds, from which each unit takes its share of a minute."""
    unit = -(-60_000_000 // limit)
    level, full_at, now = limit * unit, None, NOW
    for wait, cost in requests:
        now += timedelta(microseconds=wait)
        level = min(level + wait, limit * unit)
        decision = gcra.decide(limit=limit, full_at=full_at, now=now, cost=cost)
        assert decision.allowed == (level >= cost * unit)
        level -= cost * unit if decision.allowed else 0
        assert decision.remaining == level // unit
        if decision.retry_in is not None:
            assert decision.retry_in == timedelta(microseconds=cost * unit - level)
        full_at = decision.full_at if decision.allowed else full_at


@given(limit=st.integers(1, 20), waits=st.lists(st.integers(0, 20_000_000), min_size=1, max_size=80))
def test_no_minute_passes_more_than_twice_the_limit(limit, waits):
    full_at, now, passed = None, NOW, deque()
    for wait in waits:
        now += timedelta(microseconds=wait)
        decision = gcra.decide(limit=limit, full_at=full_at, now=now)
        if decision.allowed:
            full_at = decision.full_at
            passed.append(now)
        while passed and passed[0] <= now - MINUTE:
            passed.popleft()
        assert len(passed) <= 2 * limit


# --- The clock is set back -----------------------------------------------------------------------------------------------

STEPS = [1, 30, 59, 60, 61, 119, 120, 1_800, 3_540, 3_720, 10**6]  # seconds


@pytest.mark.parametrize("seconds", STEPS)
@pytest.mark.parametrize("cost", [1, 30, 60])
def test_a_used_up_limit_is_available_within_a_minute_however_far_the_clock_is_set_back(seconds, cost):
    _, refused = burst(60)
    now = NOW - timedelta(seconds=seconds)
    first = gcra.decide(limit=60, full_at=refused.full_at, now=now, cost=cost)
    wait = timedelta(0) if first.allowed else first.retry_in
    assert wait <= MINUTE + timedelta(seconds=1)
    assert gcra.decide(limit=60, full_at=refused.full_at, now=now + wait, cost=cost).allowed  # as it was told


def test_a_limit_still_holds_after_the_clock_is_set_back():
    _, refused = burst(60)
    assert burst(60, full_at=refused.full_at, now=NOW - timedelta(minutes=30))[0] == 60


@given(
    limit=st.integers(1, 5_000),
    cost=st.integers(1, 5_000),
    differences=st.lists(st.integers(-(10**9), 10**9), max_size=5),
    idle=st.integers(0, 10**9),
    back=st.integers(0, 10**13),
)
def test_a_clock_set_back_delays_a_limit_by_one_allowance_at_most(limit, cost, differences, idle, back):
    full_at, owed = gcra.decide(limit=limit, full_at=None, now=NOW, cost=min(cost, limit)).full_at, 0
    for difference in differences:
        full_at, owed = gcra.correct(limit=limit, full_at=full_at, owed=owed, now=NOW, difference=difference)
    now = NOW + timedelta(microseconds=idle - back)
    unit = timedelta(microseconds=-(-60_000_000 // limit))
    decision = gcra.decide(limit=limit, full_at=full_at, owed=owed, now=now, cost=limit)
    assert decision.allowed or decision.retry_in <= (limit + owed) * unit + timedelta(seconds=1)
    assert owed == 0 or back < idle or not decision.allowed  # what is owed is not forgotten


def test_a_time_taken_a_moment_before_the_state_was_written_keeps_what_is_used():
    _, refused = burst(10)
    assert not gcra.decide(limit=10, full_at=refused.full_at, now=NOW - timedelta(milliseconds=900)).allowed
