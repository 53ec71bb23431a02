"""Settles admitted requests without a relay, as if the first offer had answered at the first attempt."""

from completions.charging import settlement
from completions.charging.admission import Admitted
from completions.charging.records import ServedBy
from completions.models import Completion
from completions.pricing.usage import Usage


def served_by(admitted: Admitted) -> ServedBy:
    offer = admitted.admitted_offers[0].offer
    return ServedBy(offer.model_id, offer.price_id, offer.routes[0].provider_slug, 1)


def settle(admitted: Admitted, usage: Usage, settled_by: Completion.Settlement, *, reply: bytes | None = None) -> int | None:
    return settlement.settle(
        admitted.completion,
        served_by(admitted),
        usage,
        admitted.admitted_offers[0].offer.price,
        settled_by,
        idempotency_key=admitted.idempotency_key,
        reply=reply,
    )


def release(admitted: Admitted) -> bool:
    return settlement.release(admitted.completion, served_by(admitted))
