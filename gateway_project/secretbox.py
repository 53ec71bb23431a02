"""Encryption of stored secrets that must be readable again, such as a provider's API key, with ENCRYPTION_KEYS."""

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class Unreadable(Exception):
    """The text was encrypted with none of ENCRYPTION_KEYS, or for another purpose."""


def encrypt(plain: str, *, purpose: str) -> str:
    """Encrypt for one purpose, say ``provider:openai``: copied to another row, the text is useless."""
    return encrypt_bytes(plain.encode(), purpose=purpose)


def encrypt_bytes(plain: bytes, *, purpose: str) -> str:
    return _fernet().encrypt(b"%b\x00%b" % (purpose.encode(), plain)).decode()


def decrypt(sealed: str, *, purpose: str) -> str:
    return decrypt_bytes(sealed, purpose=purpose).decode()


def decrypt_bytes(sealed: str, *, purpose: str) -> bytes:
    try:
        named, _, plain = _fernet().decrypt(sealed.encode()).partition(b"\x00")
    except InvalidToken:
        raise Unreadable("encrypted with a key that is not in ENCRYPTION_KEYS") from None
    if named != purpose.encode():
        raise Unreadable("encrypted for another purpose")
    return plain


def reencrypt(sealed: str) -> str | None:
    """Return the text encrypted with the first key, in the same length; None if it is so already. Raises Unreadable."""
    try:
        Fernet(settings.ENCRYPTION_KEYS[0]).decrypt(sealed.encode())
    except InvalidToken:
        try:
            return _fernet().rotate(sealed.encode()).decode()
        except InvalidToken:
            raise Unreadable("encrypted with a key that is not in ENCRYPTION_KEYS") from None
    return None


def _fernet() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.ENCRYPTION_KEYS])
