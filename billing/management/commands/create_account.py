from io import StringIO
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser

from billing import money
from billing.accounts import lifecycle
from billing.management import arguments
from gateway_project import installation
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Open an account for EMAIL, and make the user if unknown. If EMAIL already has an account, report that one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", metavar="EMAIL", help="The owner of the account.")
        parser.add_argument("--name", help="The name of the account. Default: EMAIL.")
        parser.add_argument("--credit", metavar="CENTS", help="Credit it with CENTS, once however often this is repeated.")

    def handle(self, *args: Any, **options: Any) -> None:
        email = arguments.email("EMAIL", options["email"])
        name = arguments.text("--name", email if options["name"] is None else options["name"], characters_max=200)
        if options["credit"] is not None:
            arguments.whole_number("--credit", options["credit"], minimum=1, maximum=money.CENTS_MAX)
        try:
            account, is_new = lifecycle.open_account(email, name=name)
        except lifecycle.SeveralAccounts as error:
            raise CommandError(f"EMAIL: {error}.") from None
        sentence = (
            f"Opened account {account.pk} for {email}. A password is set with: {installation.COMMAND} changepassword {email}"
            if is_new
            else f"{email} already has account {account.pk}, {account.name!r}; nothing was changed."
        )
        if options["credit"] is not None:
            terms = {"reason": "Opening credit", "reference": f"opening:{account.pk}", "account": str(account.pk)}
            call_command("grant_credit", email, options["credit"], **terms, stdout=StringIO())
        self.write_result(options, {"account": str(account.pk)}, sentence)
