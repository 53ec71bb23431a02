"""Says of a failed attempt with an account's own key that it was this key, and not the gateway's."""

from completions.providers import base
from completions.providers.base import ProviderFailed
from gateway_project import errors


def explain(failure: ProviderFailed, provider: str) -> None:
    """Replace the error for the caller where the provider refused the key, its account, or its quota."""
    said = f" ({failure.status})" if failure.status else ""
    if failure.key_refusal and failure.key_refusal[0] == base.NO_CREDENTIAL:
        failure.error = errors.OwnKeyRefused(f"Your own key of {provider} could not be used: {failure.key_refusal[1]}.")
    elif failure.key_refusal or failure.status in (401, 403):
        failure.error = errors.OwnKeyRefused(f"Your own key of {provider} was refused by the provider{said}.")
    elif failure.status in (402, 429):
        message = f"Your own key of {provider} has no quota left, or sends too much at a time: the provider answered{said}."
        failure.error = errors.OwnKeyExhausted(message, headers=failure.error.headers)
