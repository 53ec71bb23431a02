"""Email addresses in the one spelling that is counted, looked up and stored.

A domain has many spellings that reach the same mailbox: upper case, full width, characters that are not shown. Mail software
maps them to one name (Unicode Technical Standard 46, https://www.unicode.org/reports/tr46/), and so does this. A name in quotes
has many spellings, too, as a backslash may stand before each character. Such an address is refused: hardly anyone has one.
"""

import unicodedata
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

CHARACTERS_MAX = 254  # of a possible address; also what limits and log lines tell of others


def canonical(typed: str) -> str:
    """Return the address as the user's row has it. One that is refused is "", so that it has no limit of its own."""
    name, at, domain = unicodedata.normalize("NFKC", typed[:CHARACTERS_MAX]).strip().lower().rpartition("@")
    known = canonical_domain(domain) if at else domain
    return f"{name}{at}{known}" if known and '"' not in name else ""


def canonical_domain(domain: str) -> str:
    """Return the domain in ASCII, or "" if it cannot be one. An ASCII name has no other spelling."""
    if domain.isascii():
        return domain.lower()
    import idna

    try:
        return idna.encode(domain, uts46=True).decode()
    except UnicodeError:
        return ""


def read(typed: str) -> str:
    """Return the canonical address. Raises ValidationError."""
    email = canonical(typed)
    validate_email(email)
    if max(len(typed), len(email)) > CHARACTERS_MAX:
        raise ValidationError(f"Use an address of up to {CHARACTERS_MAX} characters.")
    return email


class EmailAddressField(forms.EmailField):
    def to_python(self, value: Any) -> str:
        typed = super().to_python(value) or ""
        return read(typed) if typed else typed
