from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from completions.catalog import file as catalog_file
from completions.catalog.tables import InvalidCatalog
from completions.models import Provider
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Create and update providers, models, prices and routes from TOML files. Everything is checked before it is written."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "files",
            nargs="*",
            metavar="FILE.toml",
            type=Path,
            help="A table of a later file replaces the same table of an earlier one. Without a file: the built-in catalog.",
        )
        parser.add_argument("--built-in", action="store_true", help="Load the built-in catalog before the files.")
        parser.add_argument("--check", action="store_true", help="Only check the files; write nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        is_built_in = options["built_in"] or not options["files"]
        paths = [*([catalog_file.BUILT_IN] if is_built_in else []), *options["files"]]
        try:
            catalog = catalog_file.read(paths, known_providers=dict(Provider.objects.values_list("pk", "kind")))
            report = None if options["check"] else catalog_file.apply(catalog)
        except InvalidCatalog as invalid:
            raise CommandError(f"{invalid}\nNothing was written.") from None
        if report is not None:
            self._answer_loaded(options, report)
            return
        providers, models = len(catalog.providers), len(catalog.models)
        sentence = f"{_count(providers, 'providers')} and {_count(models, 'models')} are in order. Nothing was written."
        self.write_result(options, {"checked": {"providers": providers, "models": models}}, sentence)

    def _answer_loaded(self, options: dict[str, Any], report: catalog_file.Report) -> None:
        counts = {noun: asdict(getattr(report, noun)) for noun in ("providers", "models", "prices", "routes", "costs")}
        if not options["json"]:
            for warning in report.warnings:
                self.stderr.write(f"warning: {warning}")
        facts = {"asOf": report.as_of, **counts, "later": report.later, "warnings": report.warnings}
        told = "\n".join([_sentence(report, counts), *report.later]) if report.written else "Nothing changed."
        self.write_result(options, facts, told)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun.removesuffix('s') if number == 1 else noun}"


def _sentence(report: catalog_file.Report, counts: dict[str, dict[str, int]]) -> str:
    changes = [f"{_count(number, noun)} {what}" for noun, count in counts.items() for what, number in count.items() if number]
    dated = f" Prices are of {report.as_of}." if report.as_of else ""
    return f"{', '.join(changes)}.{dated}"
