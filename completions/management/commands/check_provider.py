from typing import Any

from django.core.management.base import CommandError, CommandParser

from completions.catalog import provider_check
from completions.catalog.provider_check import WRONG
from completions.management import arguments
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Ask the provider NAME for its models and for a few words, and say what is wrong. Exits with 1 if something is."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="The provider, by its name in the catalog.")
        parser.add_argument("--model", metavar="MODEL", default="", help="Ask it for this model. Default: any of its models.")

    def handle(self, *args: Any, **options: Any) -> None:
        provider = arguments.provider("NAME", options["name"])
        if options["model"] and not provider.routes.filter(model=options["model"], is_enabled=True).exists():
            raise CommandError(f"--model: {provider.pk} has no enabled route to {options['model']!r}.")
        self.write_progress(f"Asking {provider.pk} at {provider.base_url or 'this process'} ...")
        findings = provider_check.check(provider, options["model"])
        wrong = sum(each.state == WRONG for each in findings)
        lines = [f"{each.state:<5}  {each.what}" + (f"\n       {each.advice}" if each.advice else "") for each in findings]
        facts = {"provider": provider.pk, "ok": not wrong, "findings": [each._asdict() for each in findings]}
        self.write_result(options, facts, "\n".join(lines))
        if wrong:
            raise CommandError(f"{provider.pk}: {wrong} of {len(findings)} findings are wrong.")
