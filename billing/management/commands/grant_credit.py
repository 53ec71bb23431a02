from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DataError, transaction

from billing import money
from billing.ledger import writer
from billing.management import arguments
from gateway_project import identifiers
from gateway_project.activity import log
from gateway_project.operator_command import OperatorCommand
from gateway_project.text import dollars


class Command(OperatorCommand):
    help = (
        "Credit the account of EMAIL with CENTS, as a SUPPORT_CREDIT. The caps of staff do not apply, nor is approval needed."
        " The activity log says that an operator's command did it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        arguments.add_account_arguments(parser)
        parser.add_argument("cents", metavar="CENTS", help="The amount, in whole cents.")
        parser.add_argument("--reason", required=True, help="Why the credit is due. The account's owner can read it.")
        parser.add_argument(
            "--reference", metavar="REF", help="For example a ticket number. The same REF credits once. Default: a new one."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        cents = arguments.whole_number("CENTS", options["cents"], minimum=1, maximum=money.CENTS_MAX)
        reason = arguments.text("--reason", options["reason"], characters_max=1_000)
        typed = identifiers.short_uuid7() if options["reference"] is None else options["reference"]
        reference = arguments.text("--reference", typed, characters_max=200)
        account = arguments.account(options)
        try:
            with transaction.atomic():
                booked = writer.grant_support_credit(account.pk, amount_cents=cents, reason=reason, reference=reference)
                if booked.is_new:
                    text = f"Credited {dollars.format_usd(booked.entry.amount_nanos)}, entry {booked.entry.pk}."
                    after = {"entry": str(booked.entry.pk), "amountInCents": cents}
                    log.record(None, log.Act.CREDITED, account, text, after=after, reason=reason)
        except writer.ReferenceReused as error:
            raise CommandError(f"--reference: {error}.") from None
        except DataError:
            raise CommandError("CENTS: the balance would be larger than the ledger can store.") from None
        account.refresh_from_db()
        balance_cents = money.floor_cents(account.balance_nanos)
        what = (
            f"Credited {cents} cents as entry {booked.entry.pk}, reference {reference}."
            if booked.is_new
            else f"Reference {reference} was credited already, as entry {booked.entry.pk}; nothing was added."
        )
        facts = {"entry": str(booked.entry.pk), "balanceInCents": balance_cents}
        self.write_result(options, facts, f"{what} The balance is {balance_cents} cents.")
