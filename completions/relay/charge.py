"""What a reply is charged, however it ends:

    the provider reported its usage                  that, exactly
    complete, but no usage                           an estimate of the prompt and of what was relayed
    broken off in the middle of its text             an estimate of the prompt and of that text, no less than
                                                     the provider had reported
    broken off before any text                       nothing, unless the client left a provider that ``cancels``
    closed because the client left (``cancels``)     an estimate of the prompt and of what was relayed
    given up for the reply of another route          nothing
    given up because the stream did not begin in     with an Idempotency-Key, under which the reply is repeated, what the
    time, and no other provider answered             provider reports of it in the end; else nothing
    failed before that, or unreadable                nothing

A client that leaves changes nothing: the provider charges anyway, so the reply is read to its end. Files, sounds and images
cannot be measured: the estimate of a prompt takes them as the hold did.

The service tier is the one that served, by the provider's word; without a word, the one that was asked for. A tier that serves
and has no rates is charged at the standard ones.

If the provider charges more, that is the operator's loss. If a deadline or a bound of the gateway ended the reply, or the
report is above the hold, the request may be the reason: the loss then also counts against what the account may leave unpaid.
Not so what no request can cause: more tokens than the model can read or write.

Every exit of ``whole`` and ``stream`` calls ``settle`` or ``release``, once. The sweeper resolves the holds of a dead process.
"""

import logging
import time
from functools import partial

import gevent
from django.db.models.functions import Now
from msgspec import structs

from billing import money
from completions import estimates, models
from completions.charging import batch, idempotency, stored_responses
from completions.charging.batch import AdmissionLost
from completions.charging.recovery import outbox, owed
from completions.charging.resolution import ReplyRetention, Resolution
from completions.chat import Route
from completions.models import Completion
from completions.pricing import meters
from completions.pricing.usage import Usage
from completions.providers import served_tiers
from completions.providers.base import FailureKind, ProviderFailed
from completions.relay import new_accounts
from completions.relay.running import Running
from gateway_project import errors, metrics
from gateway_project.db import repetition
from gateway_project.db.group_commit import Skipped, WaitTimedOut
from gateway_project.monitoring.steps import step

logger = logging.getLogger("gateway.settlement")
_tiers_logger = logging.getLogger("gateway.unrated_tiers")

Settlement = Completion.Settlement

# After the last text of a reply, its client waits so long for [DONE]; each try may wait for a connection or a lock besides. A
# restart of the database takes about as long. In a longer outage the outbox takes over.
_RETRY_SECONDS = 3
_TIER_PAUSE_SECONDS = 60
_tier_next_at: dict[int, float] = {}  # by route, by the monotonic clock: when an unrated tier is noted again


def expected_nanos(running: Running, usage: Usage) -> int:
    """Return what ``settle`` will charge for a usage, if nothing goes wrong. The stored reply names this charge."""
    admitted = running.admitted
    return admitted.charge_nanos(running.call.offer.price.cost_nanos(usage, admitted.completion.images))


@step("settlement")
def settle(running: Running, usage: Usage, settled_by: Completion.Settlement, *, reply: bytes | None = None) -> None:
    """Charge ``usage`` at the admitted price of the offer that answered, and note the charge for the headers.

    ``reply`` is stored for retries under the Idempotency-Key. Without one a retry runs again; after one that is too large it is
    refused.
    """
    admitted, call, response = running.admitted, running.call, running.response
    completion = admitted.completion
    if response is not None:
        response = stored_responses.write_ahead(response, completion.id, completion.account_id)
    if reply is not None and not idempotency.is_storable(reply):
        running.stores_reply = False
    retention = None
    if admitted.idempotency_key and not (running.has_replied and reply is not None):
        sealed_reply = idempotency.seal(reply) if reply is not None and running.stores_reply else None
        retention = ReplyRetention(sealed_reply, reply is not None, admitted.idempotency_key)
    unpaid_nanos = running.unseen_nanos
    if running.late_nanos and not expected_nanos(running, usage):  # if another provider is paid, late streams do not count
        unpaid_nanos += running.late_nanos
    cost_nanos = call.offer.price.cost_nanos(usage, completion.images)
    if usage.prompt_tokens > call.offer.context_window or usage.completion_tokens > call.offer.max_output_tokens:
        cost_nanos -= _disowned_nanos(running, usage)
    if call.route.own_key_id:
        running.provider_nanos = call.offer.price.share(money.WHOLE).cost_nanos(usage, completion.images)
    served_by, provider_nanos = running.served_by, running.provider_nanos
    running.charged_nanos = commit_or_store(
        Resolution(completion, served_by, settled_by, usage, cost_nanos, retention, unpaid_nanos, response, provider_nanos)
    )
    if admitted.is_new_account and running.charged_nanos:
        new_accounts.record_paid(completion.account_id)
    if call.head.unrated_tier:
        _note_unrated_tier(call.route, call.head.unrated_tier)


@step("release")
def release(running: Running) -> None:
    """Release the hold: nothing is charged, whatever providers charge for it."""
    running.drop_late()
    completion, unpaid_nanos = running.admitted.completion, running.late_nanos + running.unseen_nanos
    commit_or_store(Resolution(completion, running.served_by, Settlement.RELEASED, unpaid_nanos=unpaid_nanos))


def commit_or_store(resolution: Resolution) -> int | None:
    """Return the nanodollars charged. Retry while the database is unavailable, then store the resolution in the outbox.

    Return None when it is stored, or the hold was resolved before: by our own commit whose answer was lost, or by the sweeper,
    which is corrected. Raises the database's error when the disk refuses, too.
    """
    deadline, pause_seconds = time.monotonic() + _RETRY_SECONDS, 0.1
    while True:
        try:
            charged_nanos: int | None = batch.commit(resolution)
            if charged_nanos is not None:
                owed.report(resolution, charged_nanos)
            elif isinstance(owed.correct(resolution), Skipped):
                raise WaitTimedOut("what the sweeper charged cannot be corrected yet")
            return charged_nanos
        except AdmissionLost as error:
            outbox.store_forgotten(resolution, error)
            return None
        except outbox.UNAVAILABLE as error:
            if time.monotonic() + pause_seconds > deadline or outbox.has_waiting():  # others have waited too long
                outbox.store(resolution, error)
                return None
            facts = {"completion": resolution.completion.id}
            logger.warning("cannot settle yet, trying again in %.1f s: %s", pause_seconds, errors.reason(error), extra=facts)
        gevent.sleep(pause_seconds)
        pause_seconds *= 3


def _note_unrated_tier(route: Route, tier: str) -> None:
    """Count a reply at a tier without rates: one of ours, or the provider's word for one that the gateway does not know.

    The row of the route has the last one, for the desk, written at most once per minute by a process.
    """
    metrics.unrated_tiers_total.labels(
        route.metrics_label or route.provider_slug, tier if tier in meters.TIERS else served_tiers.UNKNOWN
    ).inc()
    if route.own_key_id or time.monotonic() < _tier_next_at.get(route.id, 0):
        return
    _tier_next_at[route.id] = time.monotonic() + _TIER_PAUSE_SECONDS
    failure = f"cannot note that {route.provider_slug} served {route.upstream_model} at a tier without rates"
    shown = tier[: models.Route.UNRATED_TIER_CHARACTERS_MAX]
    update = partial(models.Route.objects.filter(pk=route.id).update, unrated_tier=shown, unrated_tier_at=Now())
    repetition.spawn_write(update, logger=_tiers_logger, failure=failure)


def _disowned_nanos(running: Running, usage: Usage) -> int:
    """Return what a report costs above the hold if no request can cause it, and count both; 0 for a possible report."""
    admitted, call = running.admitted, running.call
    request, offer, provider_slug = admitted.request, call.offer, call.route.provider_slug
    tokens_max = request.choices * offer.max_output_tokens  # a provider may ignore max_tokens
    if usage.completion_tokens <= tokens_max and not estimates.is_above_what_is_read(usage.prompt_tokens, request, offer):
        return 0
    metrics.usage_contradictions_total.labels(call.route.metrics_label or provider_slug).inc()
    cost_nanos = offer.price.cost_nanos(usage, admitted.completion.images)
    excess_nanos = admitted.completion.due_nanos(cost_nanos) - admitted.charge_nanos(cost_nanos)
    if not call.route.own_key_id:
        metrics.record_provider_loss(provider_slug, excess_nanos)
    return excess_nanos


def settle_broken_off(running: Running, failure: ProviderFailed, reported: Usage | None = None, relayed_bytes: int = 0) -> None:
    """Charge what had arrived of a reply that ``failure`` ended. Count the rest as a loss, if its provider had begun."""
    if not failure.provider_worked and not reported:
        release(running)
        return
    text_bytes = relayed_bytes + failure.unread_bytes
    arrived = at_least_reported(estimate(running, text_bytes), reported)
    is_paid = text_bytes > 0 or failure.kind is FailureKind.CLIENT_DISCONNECTED
    _record_unseen(running, failure, arrived, is_paid=is_paid)
    if is_paid:
        running.drop_late()
        settle(running, arrived, Settlement.PARTIAL)
    else:
        release(running)


def _record_unseen(running: Running, failure: ProviderFailed, arrived: Usage, *, is_paid: bool) -> None:
    """Count what the provider may charge beyond what is paid: all tokens of the hold, if their number is unknown."""
    usage, price, images = arrived, running.call.offer.price, running.admitted.completion.images
    is_unseen = running.reasons or not running.admitted.request.stream
    if failure.is_cut_off and is_unseen and not arrived.reasoning_tokens:
        usage = structs.replace(arrived, completion_tokens=max(arrived.completion_tokens, running.completion_tokens_max))
    paid_nanos = price.cost_nanos(arrived, images) if is_paid else 0
    lost_nanos = 0 if running.call.route.own_key_id else price.cost_nanos(usage, images) - paid_nanos
    metrics.record_provider_loss(running.call.route.provider_slug, lost_nanos)
    if failure.is_cut_off:
        running.unseen_nanos += running.accountable_nanos(lost_nanos)


def estimate(running: Running, relayed_bytes: int) -> Usage:
    """Return the usage of a reply with so many bytes of text, never more completion tokens than the hold pays for."""
    completion_tokens = min(estimates.estimate_tokens(relayed_bytes), running.completion_tokens_max)
    return Usage(running.admitted.completion.prompt_estimate, completion_tokens, tier=running.tier)


def at_least_reported(estimated: Usage, reported: Usage | None) -> Usage:
    """Return the usage of a reply that broke off: the prompt as reported, and the larger count of generated tokens.

    The last report may be older than the last text. The prompt does not grow; some providers report it as 0 until the end.
    """
    if reported is None:
        return estimated
    return structs.replace(
        reported,
        prompt_tokens=reported.prompt_tokens or estimated.prompt_tokens,
        completion_tokens=max(reported.completion_tokens, estimated.completion_tokens),
    )
