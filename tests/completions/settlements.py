"""Settles admitted requests without a relay, as if the first offer had answered at the first attempt; and as a sweeper does."""

from completions.charging import idempotency
from completions.charging.admission import Admitted
from completions.charging.records import ServedBy
from completions.charging.recovery import sweeper
from completions.charging.resolution import ReplyRetention, Resolution
from completions.models import Completion
from completions.pricing.usage import Usage
from completions.relay import charge


def served_by(admitted: Admitted) -> ServedBy:
    offer = admitted.admitted_offers[0].offer
    return ServedBy(offer.model_id, offer.price_id, offer.routes[0].provider_slug, 1)


def settle(admitted: Admitted, usage: Usage, settled_by: Completion.Settlement, *, reply: bytes | None = None) -> int | None:
    cost_nanos = admitted.admitted_offers[0].offer.price.cost_nanos(usage, admitted.completion.images)
    retention = None
    if key := admitted.idempotency_key:
        retention = ReplyRetention(None if reply is None else idempotency.seal(reply), reply is not None, key)
    return charge.commit_or_store(
        Resolution(admitted.completion, served_by(admitted), settled_by, usage, cost_nanos, retention)
    )


def release(admitted: Admitted) -> bool:
    released = Resolution(admitted.completion, served_by(admitted), Completion.Settlement.RELEASED)
    return charge.commit_or_store(released) is not None


def expire(completion: Completion) -> bool:
    return recover(completion, 0)


def recover(completion: Completion, relayed_bytes: int) -> bool:
    completion.relayed_bytes = relayed_bytes
    return sweeper.resolve(completion)
