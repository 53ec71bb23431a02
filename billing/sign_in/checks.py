"""System checks of what a deployment says about signing in."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register


@register()
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
