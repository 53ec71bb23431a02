"""The headers of a reply that say how it was served: by whom, after how many attempts, at what cost."""

from completions.charging import idempotency
from completions.providers import ignored_fields
from completions.relay.dispatch import Dispatch
from gateway_project.text import dollars


def headers(dispatch: Dispatch) -> dict[str, str]:
    """Return the reply headers about the dispatch, as far as they are known when the reply begins, of the latest attempt."""
    headers = {
        "x-gateway-provider": dispatch.call.route.provider_slug,
        "x-gateway-attempts": str(dispatch.attempts),
        "x-gateway-max-cost": dollars.format_plain(dispatch.admitted.held_nanos),
    }
    if dispatch.failed_attempts:
        headers["x-gateway-failed-providers"] = ", ".join([attempt["provider"] for attempt in dispatch.failed_attempts])
    if dispatch.call.offer.ranking:
        headers["x-gateway-ranking"] = dispatch.call.offer.ranking
    if dispatch.charged_nanos is not None:
        headers["x-gateway-cost"] = dollars.format_plain(dispatch.charged_nanos)
    if dispatch.admitted.idempotency_key and not dispatch.stores_reply:
        headers[idempotency.NOT_STORED_HEADER] = "false"
    if dispatch.is_max_tokens_reduced:
        headers["x-gateway-max-tokens"] = str(dispatch.call.max_tokens)
    if dispatch.ignored_fields:
        headers["x-gateway-ignored-fields"] = ignored_fields.header_value(dispatch.ignored_fields)
    if dispatch.unknown_finish_reason:
        headers["x-gateway-finish-reason"] = ignored_fields.header_value([dispatch.unknown_finish_reason])
    return headers
