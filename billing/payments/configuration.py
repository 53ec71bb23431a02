"""Which processor the settings name, and system checks of what they say about payments."""

from functools import lru_cache

from django.conf import settings
from django.core.checks import Error, Warning

from billing.payments.demo_processor import DemoProcessor
from billing.payments.processor import Processor, is_live_key
from gateway_project.environment import Findings, check

NAMES = ("stripe", "demo")


def processor() -> Processor | None:
    """Return the processor, or None where payments are not set up."""
    if settings.PAYMENT_PROCESSOR == "stripe" and settings.STRIPE_SECRET_KEY:
        return _stripe(settings.STRIPE_SECRET_KEY, settings.STRIPE_WEBHOOK_SECRET, settings.STRIPE_API_BASE)
    if settings.PAYMENT_PROCESSOR == "demo" and settings.GATEWAY_DEVELOPMENT:
        return DemoProcessor()
    return None


@lru_cache(maxsize=1)
def _stripe(secret_key: str, webhook_secret: str, api_base: str) -> Processor:
    from billing.payments.stripe_processor import StripeProcessor  # here, because its client is large, and most have none

    return StripeProcessor(secret_key=secret_key, webhook_secret=webhook_secret, api_base=api_base)


@check
def check_payments() -> Findings:
    """E020-E023: payments are impossible, or free. W020: payments of a deployment are not real."""
    name = settings.PAYMENT_PROCESSOR
    if name and name not in NAMES:
        hint = f"It is one of: {', '.join(NAMES)}; or empty, for no payments."
        yield Error(f"GATEWAY_PAYMENT_PROCESSOR is {name!r}.", hint=hint, id="gateway.E020")
    if name == "stripe":
        yield from _check_stripe()
    if name == "demo" and not settings.GATEWAY_DEVELOPMENT:
        hint = "Set GATEWAY_PAYMENT_PROCESSOR to stripe, or leave it empty."
        yield Error("The demo processor would give credit for nothing.", hint=hint, id="gateway.E022")
    bounds = range(settings.PAYMENT_CENTS_MIN, settings.PAYMENT_CENTS_MAX + 1)
    if not bounds or any(cents not in bounds for cents in settings.PAYMENT_PRESETS_CENTS):
        hint = "They lie between GATEWAY_PAYMENT_CENTS_MIN and GATEWAY_PAYMENT_CENTS_MAX, the first of which is the smaller."
        yield Error("GATEWAY_PAYMENT_PRESETS_CENTS has amounts that nobody can pay.", hint=hint, id="gateway.E023")


_KEY_HINT = "It is the secret or restricted key in Stripe's dashboard: sk_live_... or rk_live_..."


def _check_stripe() -> Findings:
    if not settings.STRIPE_SECRET_KEY:
        yield Error("GATEWAY_STRIPE_SECRET_KEY is not set.", hint=_KEY_HINT, id="gateway.E020")
    if not settings.STRIPE_WEBHOOK_SECRET:
        hint = "It is the signing secret of the webhook endpoint in Stripe's dashboard: whsec_..."
        message = "GATEWAY_STRIPE_WEBHOOK_SECRET is not set, so the webhook refuses every event."
        yield Error(message, hint=hint, id="gateway.E021")
    if settings.STRIPE_SECRET_KEY and not is_live_key(settings.STRIPE_SECRET_KEY) and not settings.GATEWAY_DEVELOPMENT:
        message = "GATEWAY_STRIPE_SECRET_KEY is of Stripe's test mode: credit costs nothing."
        yield Warning(message, hint=_KEY_HINT, id="gateway.W020")
