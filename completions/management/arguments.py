"""Reads command-line arguments of operators. Raises CommandError with the name of the wrong argument."""

from django.core.management.base import CommandError

from completions.models import Provider


def provider(argument: str, slug: str) -> Provider:
    found = Provider.objects.filter(pk=slug).first() if "\x00" not in slug else None
    if found is None:
        raise CommandError(f"{argument}: there is no provider {slug!r}.")
    return found
