"""Settles admitted requests without a relay, as if the first offer had answered at the first attempt."""

from completions.charging import settlement
from completions.charging.admission import Admitted
from completions.charging.records import Answering
from completions.chat import Usage
from completions.models import Completion


def answering(admitted: Admitted) -> Answering:
    offer = admitted.terms[0].offer
    return Answering(offer.model_id, offer.price_id, offer.routes[0].provider_slug, 1)


def settle(admitted: Admitted, usage: Usage, settled_by: Completion.Settlement, *, reply: bytes | None = None) -> int | None:
    return settlement.settle(
        admitted.completion,
        answering(admitted),
        usage,
        admitted.terms[0].offer.price,
        settled_by,
        has_idempotency_key=admitted.attempt is not None,
        reply=reply,
    )


def release(admitted: Admitted) -> bool:
    return settlement.release(admitted.completion, answering(admitted))
