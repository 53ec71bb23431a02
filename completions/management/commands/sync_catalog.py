from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError, CommandParser

from billing.alerts.payload import camel_case
from completions.catalog.sync import diff, proposals
from completions.catalog.sync.proposals import Report, SyncFailed
from completions.management import arguments
from completions.models import CatalogProposal, Provider
from gateway_project.operator_command import OperatorCommand


class Command(OperatorCommand):
    help = "Fetch providers' lists of models, compare them with the catalog, and propose the differences."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "provider",
            nargs="?",
            metavar="PROVIDER",
            help="Sync only this one, also if its sync is off. Default: all whose sync is on.",
        )
        parser.add_argument(
            "--apply",
            action="store_true",
            help="Apply the changes that need no approval, also for providers that only propose.",
        )
        parser.add_argument(
            "--believe", action="store_true", help="Accept a list although more than half of its models are gone."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        reports, failures = [], {}
        for provider in self._providers(options["provider"]):
            self.write_progress(f"Asking {provider.pk} at {provider.base_url} ...")
            can_apply = options["apply"] or provider.sync == Provider.Sync.APPLY
            try:
                reports.append(proposals.sync(provider, can_apply=can_apply, accepts_losses=options["believe"]))
            except SyncFailed as failure:
                failures[provider.pk] = str(failure)
        facts = {"providers": [_facts(report) for report in reports], "failures": failures}
        lines = [line for report in reports for line in _lines(report)]
        self.write_result(options, facts, "\n".join(lines) or "No list was read.")
        if failures:
            raise CommandError("\n".join(f"{provider} {reason}." for provider, reason in failures.items()))

    def _providers(self, slug: str | None) -> Iterable[Provider]:
        if slug is None:
            return proposals.synced_providers()
        provider = arguments.provider("PROVIDER", slug)
        if provider.kind == Provider.Kind.ECHO:
            raise CommandError(f"PROVIDER: {slug} is the built-in echo, which has no list.")
        return [provider]


def _facts(report: Report) -> dict[str, Any]:
    changes = {name: list(map(_change, getattr(report, name))) for name in ("proposed", "applied")}
    return {camel_case(name): value for name, value in {**vars(report), **changes}.items()}


def _change(proposal: CatalogProposal) -> dict[str, Any]:
    compared = {camel_case(name): getattr(proposal, name) for name in ("upstream_model", "old", "new")}
    return {"proposal": proposal.pk, "kind": proposal.kind, "model": proposal.model_id, **compared}


def _lines(report: Report) -> list[str]:
    unchanged = ", as the last time" if report.is_unchanged else ""
    counts = f"{len(report.applied)} applied, {len(report.proposed)} proposed, {report.outdated} outdated"
    return [
        f"{report.provider} lists {report.listed} models{unchanged}: {counts}; {report.waiting} wait for approval.",
        *(f"  applied   {_line(proposal)}" for proposal in report.applied),
        *(f"  proposed  {_line(proposal)}" for proposal in report.proposed),
        *(f"  note      {note}" for note in report.notes),
    ]


def _line(proposal: CatalogProposal) -> str:
    change = diff.describe_change(proposal.kind, proposal.old, proposal.new)
    return f"{proposal.subject}: {change}"
