from typing import Any

from django.core.management.base import CommandError, CommandParser

from billing.management import arguments
from billing.models import User
from billing.sign_in import second_factor
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Remove the passkeys, app and recovery codes of EMAIL, who then signs in with the password alone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", metavar="EMAIL", help="Whose second factors are lost.")

    def handle(self, *args: Any, **options: Any) -> None:
        email = arguments.email("EMAIL", options["email"])
        user = User.objects.filter(email=email).first()
        if user is None:
            raise CommandError(f"EMAIL: there is no user {email}.")
        removed = second_factor.remove_all(user)
        self.write_result(options, {"removed": removed}, f"Removed {removed} second factors of {email}.")
