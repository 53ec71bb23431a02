"""Says why a run of a source must not be published before staff have seen it: judged by what it would change of our lists.

A source that renames a column still sends as many rows. But they are mapped to other models than yesterday, or to none, and
callers of best/* would be served and charged by another model overnight.
"""

from collections.abc import Iterable, Iterator, Sequence

from completions.models import Category
from rankings.identity import mapping
from rankings.identity.mapping import ChosenStanding
from rankings.models import Snapshot, Source, Standing
from rankings.scoring import formula
from rankings.sources.base import FetchedSnapshot, series

# Sources retire a few models at a time; a renamed column loses most of ours at once.
LOST_SHARE_MAX = 0.25  # of our models on a board
# A list that is read each day moves by a few places. Of the whole board a quarter is another list.
LEAP = 0.25
LEAPT_SHARE_MAX = 0.25  # of our models on a board
MODELS_MIN = 2  # that are lost or leap: one alone may be news


def find(last: Snapshot, fetched: FetchedSnapshot) -> str:
    """Return what is doubtful of the run beside what is published; empty if nothing is."""
    source = Source(last.source)
    old, new = list(last.standings.all()), fetched.standings
    before, after = (mapping.expected_standings(source, standings) for standings in (old, new))
    found: list[str] = []
    for board, ours in before.items():
        if board in fetched.unread:
            continue
        now = after.get(board, {})
        found += _lost(board, ours.keys(), now.keys())
        about = (last.boards.get(board), fetched.boards.get(board))
        if len({series(each["version"]) for each in about if each and "version" in each}) < 2:  # else ranks cannot be compared
            found += _leapt(board, _places(board, ours, old), _places(board, now, new))
    return "; ".join(found)


def _lost(board: Category, before: Iterable[str], after: Iterable[str]) -> Iterator[str]:
    known = set(before)
    lost = known - set(after)
    if len(lost) >= MODELS_MIN and len(lost) > LOST_SHARE_MAX * len(known):
        yield f"{board} has {len(known) - len(lost)} of our {len(known)} models that it had"


_Place = tuple[float, float]  # on the board, as shares: by rank, and by value


def _leapt(board: Category, before: dict[str, _Place], after: dict[str, _Place]) -> Iterator[str]:
    common = before.keys() & after.keys()
    moves = [(before[model_id], after[model_id]) for model_id in common]
    leapt = sum(max(abs(was[0] - now[0]), abs(was[1] - now[1])) > LEAP for was, now in moves)
    if leapt >= MODELS_MIN and leapt > LEAPT_SHARE_MAX * len(common):
        yield f"on {board} {leapt} of our {len(common)} models leap by more than {LEAP:.0%} of the board"


def _places(board: Category, ours: dict[str, ChosenStanding], standings: Sequence[Standing]) -> dict[str, _Place]:
    values = sorted(standing.value for standing in standings if standing.board == board)
    return {
        model_id: (chosen.standing.rank / len(values), formula.percentile(chosen.standing.value, values) / 100)
        for model_id, chosen in ours.items()
    }
