"""System checks of what a deployment says about signing in."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from gateway_project import environment


@register(environment.CHECK_TAG)
def check_identities(**kwargs: Any) -> list[CheckMessage]:
    """E030: half of what a provider of identities needs is missing, so that nobody could sign in with it."""
    return [
        Error(
            f"Only one of GATEWAY_{provider.upper()}_CLIENT_ID and GATEWAY_{provider.upper()}_CLIENT_SECRET is set.",
            hint="Set both, or neither: people sign in without this provider then.",
            id="gateway.E030",
        )
        for provider, client in settings.IDENTITY_CLIENTS.items()
        if any(client) and not all(client)
    ]


@register(environment.CHECK_TAG)
def check_support_address(**kwargs: Any) -> list[CheckMessage]:
    """E031: what pages and mails tell people to write to is no address."""
    try:
        if settings.SUPPORT_ADDRESS:
            validate_email(settings.SUPPORT_ADDRESS)
    except ValidationError:
        hint = "It is such as help@example.com, or empty."
        return [Error("GATEWAY_SUPPORT_ADDRESS is no email address.", hint=hint, id="gateway.E031")]
    return []
