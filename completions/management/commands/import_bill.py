from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from completions.bills import comparison, importing, samples
from completions.bills.comparison import in_dollars, plain
from completions.bills.files import Refused
from completions.management import arguments
from completions.models import Bill, BillComparison
from completions.models.bills import UNEXPLAINED
from gateway_project.activity import log
from gateway_project.operator_command import OperatorCommand
from gateway_project.text import dollars


class Command(OperatorCommand):
    help = "Import a provider's export of costs as one bill, and print charged, expected and billed by model and UTC day."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("provider", metavar="PROVIDER", help="The provider in the catalog.")
        parser.add_argument(
            "files", nargs="+", metavar="FILE", type=Path, help="All files of one export: CSV, JSON, gzip or zip."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        provider = arguments.provider("PROVIDER", options["provider"])
        try:
            bill, is_new = importing.run_paths(provider, options["files"])
        except (Refused, OSError) as error:
            raise CommandError(f"FILE: {error} Nothing was imported.") from None
        if is_new:
            with transaction.atomic():
                log.record(None, log.Act.ADDED, bill, f"Imported {bill}.")
        else:
            comparison.compare(provider.pk, *bill.days)  # with prices that were entered since
        rows = BillComparison.objects.filter(bill=bill).order_by(UNEXPLAINED.desc(), "-day", "name")
        if options["json"]:
            told = {"file": bill.file_name, "format": bill.format, "sha256": bill.sha256, "lines": bill.lines}
            facts = {**told, "totalUsd": plain(bill.total_usd), "leftOut": bill.left_out}
            self.write_result(options, {"bill": facts, "isNew": is_new, "comparisons": [_facts(row) for row in rows]}, "")
        else:
            self.write_result(options, {}, "\n".join([_sentences(bill, is_new), *(_line(row) for row in rows)]))


def _facts(row: BillComparison) -> dict[str, Any]:
    facts = {
        **{"day": row.day, "model": row.name, "completions": row.completions, "lines": row.lines},
        **{"charged": dollars.format_plain(row.charged_nanos), "billed": plain(row.billed_usd)},
        "expected": None if row.expected_nanos is None else dollars.format_plain(row.expected_nanos),
        "difference": None if (found := comparison.difference(row)) is None else plain(found),
        **{"explained": row.reasons, "unexplained": plain(row.unexplained_usd), "finding": row.finding, "hours": row.hours},
    }
    if row.unexplained_usd or row.hours:
        facts |= {"sampleLines": samples.lines(row), "sampleCompletions": samples.completions(row)}
    return facts


def _sentences(bill: Bill, is_new: bool) -> str:
    known = "" if is_new else " It was imported before, and is compared again."
    left_out = f" Left out: {importing.left_out_words(bill)}." if bill.left_out else ""
    return f"{bill.format}: {bill.lines:,} lines charge {in_dollars(bill.total_usd)} for models.{left_out}{known}"


def _line(row: BillComparison) -> str:
    expected = "not known" if row.expected_nanos is None else dollars.format_usd(row.expected_nanos)
    amounts = f"charged {dollars.format_usd(row.charged_nanos)}, expected {expected}, billed {in_dollars(row.billed_usd)}"
    reasons = ", ".join(f"{of} {comparison.REASONS[reason]}" for reason, of in row.reasons.items())
    words = [
        reasons and f"explained: {reasons}",
        row.unexplained_usd and f"unexplained {in_dollars(row.unexplained_usd)}",
        ", ".join(f"{each['hour']:02}:00 {in_dollars(Decimal(each['unexplained']))}" for each in row.hours),
        row.get_finding_display(),
    ]
    return f"{row.day}  {row.name}  {amounts}; {'; '.join(filter(None, words)) or 'agrees'}"
