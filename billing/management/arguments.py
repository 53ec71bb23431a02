"""Reads command-line arguments of operators. Raises CommandError with the name of the wrong argument."""

from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from billing import email_addresses
from billing.accounts import lifecycle
from billing.models import Account
from gateway_project import installation
from gateway_project.text import ascii_numbers


def whole_number(argument: str, typed: str, *, minimum: int, maximum: int) -> int:
    """Read a whole number from ``minimum`` to ``maximum``."""
    try:
        number = ascii_numbers.whole(typed.strip())
    except ValueError:
        raise CommandError(f"{argument}: {typed!r} is not a whole number.") from None
    if not minimum <= number <= maximum:
        raise CommandError(f"{argument}: {number} is not between {minimum} and {maximum}.")
    return number


def text(argument: str, typed: str, *, characters_max: int) -> str:
    """Read printable text of at most ``characters_max`` characters."""
    value = typed.strip()
    if not value or not value.isprintable():
        raise CommandError(f"{argument}: give some printable text.")
    if len(value) > characters_max:
        raise CommandError(f"{argument}: {len(value)} characters are more than {characters_max}.")
    return value


def email(argument: str, typed: str) -> str:
    """Read an email address, as it is stored."""
    try:
        return email_addresses.read(typed.strip())
    except ValidationError:
        raise CommandError(f"{argument}: {typed!r} is not an email address.") from None


def account_id(argument: str, typed: str) -> UUID:
    """Read the id of an account, which need not exist."""
    try:
        return UUID(typed)
    except ValueError:
        raise CommandError(f"{argument}: {typed!r} is not an account's id.") from None


def add_account_arguments(parser: CommandParser) -> None:
    parser.add_argument("email", metavar="EMAIL", help="A member of the account.")
    parser.add_argument("--account", metavar="ID", help="Which account, if EMAIL is a member of several.")


def account(options: dict[str, Any]) -> Account:
    chosen = None if options["account"] is None else account_id("--account", options["account"])
    try:
        return lifecycle.find_account(email("EMAIL", options["email"]), chosen)
    except lifecycle.NoAccount as error:
        raise CommandError(f"EMAIL: {error}. {installation.COMMAND} create_account makes one.") from None
    except lifecycle.SeveralAccounts as error:
        raise CommandError(f"EMAIL: {error}. Choose one with --account.") from None
