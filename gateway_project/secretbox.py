"""LEAF. Secrets at rest: what we must be able to read again, such as a provider's key, encrypted with ENCRYPTION_KEYS."""

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class Unreadable(Exception):
    """The text was not encrypted with any of our keys, or for another purpose."""


def encrypt(plain: str, *, purpose: str) -> str:
    """Encrypt for one purpose (say ``provider:openai``): the text opens nothing when it is copied to another row."""
    return _box().encrypt(f"{purpose}\x00{plain}".encode()).decode()


def decrypt(sealed: str, *, purpose: str) -> str:
    """The plain text. Raises Unreadable."""
    try:
        named, _, plain = _box().decrypt(sealed.encode()).decode().partition("\x00")
    except InvalidToken:
        raise Unreadable("encrypted with a key we no longer have") from None
    if named != purpose:
        raise Unreadable("encrypted for another purpose")
    return plain


def _box() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])
