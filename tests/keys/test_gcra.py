"""GCRA allows exactly the limit in a burst, then requests at even intervals."""

from collections import deque
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keys import gcra
from keys.gcra import MINUTE

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
    back = gcra.correct_full_at(limit=100, full_at=taken, now=NOW, difference=-50)
    assert gcra.decide(limit=100, full_at=back, now=NOW, cost=90).allowed
    assert not gcra.decide(limit=100, full_at=back, now=NOW, cost=91).allowed
    more = gcra.correct_full_at(limit=100, full_at=taken, now=NOW, difference=30)
    assert gcra.decide(limit=100, full_at=more, now=NOW, cost=10).allowed
    assert not gcra.decide(limit=100, full_at=more, now=NOW, cost=11).allowed


def test_a_correction_never_adds_allowance_above_the_limit():
    assert gcra.correct_full_at(limit=100, full_at=None, now=NOW, difference=-1_000) == NOW
    assert gcra.correct_full_at(limit=100, full_at=NOW - MINUTE, now=NOW, difference=0) == NOW


@pytest.mark.parametrize("difference", [10**12, -(10**12), 10**30])
def test_a_correction_is_at_most_an_hours_allowance(difference):
    corrected = gcra.correct_full_at(limit=1, full_at=NOW, now=NOW, difference=difference)
    assert NOW <= corrected <= NOW + 60 * MINUTE


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


@given(
    limit=st.integers(1, 5_000),
    cost=st.integers(1, 5_000),
    differences=st.lists(st.integers(-(10**9), 10**9), max_size=5),
    back=st.integers(0, 10**13),
)
def test_however_far_the_clock_is_set_back_a_minutes_allowance_returns_within_the_longest_wait(limit, cost, differences, back):
    full_at = gcra.decide(limit=limit, full_at=None, now=NOW, cost=min(cost, limit)).full_at
    for difference in differences:
        full_at = gcra.correct_full_at(limit=limit, full_at=full_at, now=NOW, difference=difference)
    bursts_max = gcra.CORRECTED_BURSTS_MAX if differences else 1
    now = NOW - timedelta(microseconds=back)
    burst_length = limit * gcra.decide(limit=limit, full_at=None, now=NOW).resets_in
    assert full_at - NOW <= bursts_max * burst_length  # so no state is forgotten unless the clock is set back
    decision = gcra.decide(limit=limit, full_at=full_at, now=now, cost=limit, bursts_max=bursts_max)
    assert decision.allowed or decision.retry_in <= (bursts_max + 1) * burst_length


def test_a_clock_behind_by_less_than_an_allowance_keeps_what_is_used():
    _, refused = burst(10)
    assert not gcra.decide(limit=10, full_at=refused.full_at, now=NOW - MINUTE).allowed


def test_a_correction_never_writes_a_state_that_counts_as_no_use():
    full_at = NOW
    for _ in range(200):
        full_at = gcra.correct_full_at(limit=100, full_at=full_at, now=NOW, difference=10**9)
    refused = gcra.decide(limit=100, full_at=full_at, now=NOW - MINUTE, bursts_max=gcra.CORRECTED_BURSTS_MAX)
    assert not refused.allowed
