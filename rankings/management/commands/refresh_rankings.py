"""Ask the ranking sources now, and publish what they say."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from gateway_project.operator_command import OperatorCommand
from rankings import refresh
from rankings.models import Source
from rankings.refresh import Outcome, Result, RunOptions
from rankings.sources import registry


class Command(OperatorCommand):
    help = "Ask the ranking sources, or one of them, and publish what they say. INTERNAL asks nobody. Progress is on stderr."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        names = ", ".join(Source.values)
        parser.add_argument("source", nargs="?", metavar="SOURCE", help=f"One of {names}. Default: all that are on.")
        parser.add_argument(
            "--accept-fewer", action="store_true", help="Take less than half of what the source listed before for true."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = _sources(options["source"])
        outcomes = [self._refresh(source, options) for source in chosen]
        self.answer(options, {"sources": list(map(_facts, outcomes))}, "\n".join(map(_sentence, outcomes)))
        failed = [outcome for outcome in outcomes if not _is_good(outcome, is_asked_for=options["source"] is not None)]
        if failed:
            raise CommandError("Not refreshed: " + "; ".join(f"{each.source}: {each.detail}" for each in failed))

    def _refresh(self, source: Source, options: dict[str, Any]) -> Outcome:
        manner = RunOptions(say=lambda line: self.say(f"{source}: {line}"), accepts_fewer=options["accept_fewer"])
        return refresh.refresh(source, manner)


def _sources(typed: str | None) -> list[Source]:
    """INTERNAL is last: it is made of the others."""
    if typed is None:
        return [*(spec.source for spec in registry.fetched_specs()), Source.INTERNAL]
    if typed.upper() not in Source.values:
        raise CommandError(f"SOURCE: {typed!r} is not one of {', '.join(Source.values)}.")
    return [Source(typed.upper())]


def _is_good(outcome: Outcome, *, is_asked_for: bool) -> bool:
    good = {Result.STORED, Result.UNCHANGED} if is_asked_for else {Result.STORED, Result.UNCHANGED, Result.OFF}
    return outcome.result in good


def _facts(outcome: Outcome) -> dict[str, Any]:
    return {
        "source": outcome.source.value,
        "result": outcome.result.value,
        "detail": outcome.detail,
        "standings": outcome.standings,
        "models": outcome.ours,
    }


def _sentence(outcome: Outcome) -> str:
    if outcome.result is Result.STORED and outcome.source is not Source.INTERNAL:
        return f"{outcome.source}: {outcome.standings} standings, of which {outcome.ours} models are ours."
    detail = f" ({outcome.detail})" if outcome.detail else ""
    return f"{outcome.source}: {outcome.result}{detail}."
