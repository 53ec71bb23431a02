"""Which processor the settings name."""

from functools import lru_cache

from django.conf import settings

from billing.payments.demo_processor import DemoProcessor
from billing.payments.processor import Processor

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
