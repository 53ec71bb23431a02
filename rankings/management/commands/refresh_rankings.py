from typing import Any

from django.core.management.base import CommandError, CommandParser

from gateway_project.operator_command import OperatorCommand
from rankings import refresh
from rankings.models import Source
from rankings.refresh import RefreshOutcome, RefreshResult, RunOptions
from rankings.sources import registry


class Command(OperatorCommand):
    help = "Read the ranking sources, or one of them, and publish the result. INTERNAL is only computed. Progress is on stderr."

    def add_arguments(self, parser: CommandParser) -> None:
        names = ", ".join(Source.values)
        parser.add_argument("source", nargs="?", metavar="SOURCE", help=f"One of {names}. Default: all that are on.")
        parser.add_argument(
            "--accept-fewer", action="store_true", help="Accept fewer than half of the rows that the source had before."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        outcomes = [self._refresh(source, options) for source in _sources(options["source"])]
        self.write_result(options, {"sources": list(map(_facts, outcomes))}, "\n".join(map(_sentence, outcomes)))
        # That a source is off is a failure only if it was named.
        good = {RefreshResult.STORED, RefreshResult.UNCHANGED, *([] if options["source"] else [RefreshResult.OFF])}
        if failed := [outcome for outcome in outcomes if outcome.result not in good]:
            raise CommandError("Not refreshed: " + "; ".join(f"{each.source}: {each.detail}" for each in failed))

    def _refresh(self, source: Source, options: dict[str, Any]) -> RefreshOutcome:
        run = RunOptions(say=lambda line: self.write_progress(f"{source}: {line}"), accepts_fewer=options["accept_fewer"])
        return refresh.refresh(source, run)


def _sources(typed: str | None) -> list[Source]:
    """Return the chosen sources. INTERNAL is last, because it is computed from the others."""
    if typed is None:
        return [*(spec.source for spec in registry.fetched_specs()), Source.INTERNAL]
    if typed.upper() not in Source.values:
        raise CommandError(f"SOURCE: {typed!r} is not one of {', '.join(Source.values)}.")
    return [Source(typed.upper())]


def _facts(outcome: RefreshOutcome) -> dict[str, Any]:
    counts = {"standings": outcome.standings, "models": outcome.ours}
    return {"source": outcome.source.value, "result": outcome.result.value, "detail": outcome.detail, **counts}


def _sentence(outcome: RefreshOutcome) -> str:
    if outcome.result is RefreshResult.STORED and outcome.source is not Source.INTERNAL:
        return f"{outcome.source}: {outcome.standings} standings, of which {outcome.ours} models are ours."
    detail = f" ({outcome.detail})" if outcome.detail else ""
    return f"{outcome.source}: {outcome.result}{detail}."
