"""Make an API key. Its secret is printed once and not stored."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from billing import money
from billing.management import arguments
from billing.models import User
from gateway_project.operator_command import OperatorCommand
from gateway_project.text import timestamps
from keys import lifecycle
from keys.models import RATE_MAX, ApiKey
from keys.spending_limit import InvalidLimit, SpendingLimit, SpendingPeriod, SpendingType


class Command(OperatorCommand):
    help = "Make an API key for the account of EMAIL and print its secret, which cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_account_arguments(parser)
        parser.add_argument("--name", default="made by an operator", help="What to call it. Default: %(default)r.")
        parser.add_argument("--limit", metavar="CENTS", help="What it may spend, in whole cents. Needs --type.")
        parser.add_argument("--type", metavar="|".join(SpendingType.values), help="FIXED: once. RECURRING: again each period.")
        parser.add_argument("--period", metavar="|".join(SpendingPeriod.values), help="Of a RECURRING limit.")
        parser.add_argument("--rpm", metavar="N", help="Requests per minute. Default: the account's limit.")
        parser.add_argument("--tpm", metavar="N", help="Tokens per minute. Default: the account's limit.")
        parser.add_argument("--in-flight", metavar="N", help="Requests that may run at a time. Default: the deployment's.")

    def handle(self, *args: Any, **options: Any) -> None:
        name = arguments.text("--name", options["name"], characters_max=100)
        cents = _optional("--limit", options["limit"], minimum=0, maximum=money.CENTS_MAX)
        rates = {
            "requests_per_minute": _optional("--rpm", options["rpm"], minimum=1, maximum=RATE_MAX),
            "tokens_per_minute": _optional("--tpm", options["tpm"], minimum=1, maximum=RATE_MAX),
            "requests_in_flight_max": _optional("--in-flight", options["in_flight"], minimum=1, maximum=RATE_MAX),
        }
        account = arguments.account(options)
        owner = User.objects.get(email=arguments.email("EMAIL", options["email"]))
        try:
            limit = SpendingLimit(
                cents, options["type"] and options["type"].upper(), options["period"] and options["period"].upper()
            )
        except InvalidLimit as error:
            raise CommandError(f"--limit, --type, --period: {error}.") from None
        key, secret = lifecycle.issue_key(account, name=name, created_by=owner, limit=limit, **rates)
        self.write_result(
            options, {"key": key.pk, "secret": secret}, f"{_sentence(key)} Keep its secret, it is shown once:\n{secret}"
        )


def _optional(argument: str, typed: str | None, *, minimum: int, maximum: int) -> int | None:
    return None if typed is None else arguments.whole_number(argument, typed, minimum=minimum, maximum=maximum)


def _sentence(key: ApiKey) -> str:
    end = f" It works until {timestamps.in_words(key.expires_at)}." if key.expires_at else ""
    if key.spending_limit_cents is None:
        return f"Made key {key.pk} without a spending limit.{end}"
    each = f" {key.spending_period}" if key.spending_period else ""
    return f"Made key {key.pk} with a {key.spending_type}{each} limit of {key.spending_limit_cents} cents.{end}"
