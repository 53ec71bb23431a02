"""The bytes of large bodies count as they arrive; what is only announced takes nothing from others."""

from contextlib import ExitStack

import pytest

from gateway_project import errors
from gateway_project.web.bodies_in_flight import AHEAD_BYTES, BodiesInFlight

LENGTH = 5_000_000


@pytest.fixture
def bodies() -> BodiesInFlight:
    return BodiesInFlight()


@pytest.fixture(autouse=True)
def small_bounds(settings):
    settings.ACCOUNT_BYTES_IN_FLIGHT_MAX = 10_000_000
    settings.BYTES_IN_FLIGHT_MAX = 15_000_000


def test_announced_bodies_that_do_not_arrive_leave_room_for_others(bodies):
    with ExitStack() as announced:
        for _ in range(30):
            announced.enter_context(bodies.counted("alice", LENGTH))
        assert bodies.total_bytes == 30 * AHEAD_BYTES
        with bodies.counted("bob", LENGTH) as arrived:
            arrived(LENGTH)
    assert bodies.total_bytes == 0


def test_a_body_counts_with_what_has_arrived_and_never_more_than_its_length(bodies):
    with bodies.counted("alice", LENGTH) as arrived:
        arrived(1_000_000)
        assert bodies.total_bytes == 1_000_000 + AHEAD_BYTES
        arrived(LENGTH - 1)
        assert bodies.total_bytes == LENGTH
        arrived(LENGTH)
        assert bodies.total_bytes == LENGTH
    with bodies.counted("alice", 70_000):
        assert bodies.total_bytes == 70_000
    assert bodies.total_bytes == 0


@pytest.mark.parametrize(
    ("owners", "refusal"),
    [(["alice"] * 3, errors.RateLimitExceeded), (["alice", "bob", "carol", "dan"], errors.ServiceUnavailable)],
    ids=["of its account", "of all"],
)
def test_a_body_that_arrives_beyond_the_bound_is_refused_and_gives_its_bytes_back(bodies, owners, refusal):
    *others, last = owners
    with ExitStack() as arriving:
        for owner in others:
            arriving.enter_context(bodies.counted(owner, LENGTH))(4_000_000)
        before = bodies.total_bytes
        with pytest.raises(refusal), bodies.counted(last, LENGTH) as arrived:  # noqa: PT012  it is refused while it arrives
            for arrived_bytes in range(0, LENGTH, 100_000):
                arrived(arrived_bytes)
        assert bodies.total_bytes == before
