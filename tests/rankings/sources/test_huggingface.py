"""HUGGINGFACE: boards of reported benchmarks, each on a scale of 0-100; values off the scale are left out."""

import pytest

from rankings.models import Snapshot, Source, SourceState
from rankings.publishing import health
from rankings.refresh import RefreshResult
from tests.rankings.source_server import HF_TOKEN, HUB_BOARD, Reply, assert_kept, payload, refreshed, standings

SOURCE = Source.HUGGINGFACE
MMLU_PRO, GATED = HUB_BOARD.format("TIGER-Lab/MMLU-Pro"), HUB_BOARD.format("Idavidrein/gpqa")
CODING = HUB_BOARD.format("SWE-bench/SWE-bench_Verified")
pytestmark = pytest.mark.django_db


@pytest.fixture
def board(sources):
    """The rows of the general board."""
    return sources.boards["TIGER-Lab/MMLU-Pro"]


def test_boards_that_need_no_token_are_read(sources):
    outcome = refreshed(SOURCE)
    assert (outcome.result, outcome.standings) == (RefreshResult.STORED, 100 + 80 + 60)
    assert {standing.board for standing in Snapshot.objects.get().standings.all()} == {"GENERAL", "CODING", "MATH"}
    assert sources.times_asked(GATED) == 0
    assert all("authorization" not in asked.headers for asked in sources.asked)


def test_gated_board_is_read_with_a_token(sources, settings):
    settings.RANKINGS_HF_TOKEN = HF_TOKEN
    refreshed(SOURCE)
    assert len(standings(SOURCE, "REASONING")) == 40
    assert sources.last(GATED).headers["authorization"] == f"Bearer {HF_TOKEN}"


def test_documented_sample_is_read(sources, board):
    refreshed(SOURCE)
    first = standings(SOURCE)["example-lab/example-open-397b"]
    assert (first.rank, first.value, first.facts, first.key_kind) == (1, 87.8, {"verified": False}, "hf_repo")
    assert (first.name, first.organization) == ("example-open-397b", "example-lab")
    assert "source" not in payload("hf_dataset_leaderboard")[1]


def test_attribution_links_the_boards(sources):
    refreshed(SOURCE)
    assert "https://huggingface.co/datasets/SWE-bench/SWE-bench_Verified" in Snapshot.objects.get().attribution


@pytest.mark.parametrize("value", [0.412, 1, 100.1, -3, None, "86.2", True, 10**400])
def test_value_off_the_scale_is_left_out_and_counted(sources, board, value):
    board[10]["value"] = value
    messages = []
    refreshed(SOURCE, say=messages.append)
    assert len(standings(SOURCE)) == 99
    assert board[10]["modelId"] not in standings(SOURCE)
    assert "1 values of TIGER-Lab/MMLU-Pro are off its scale" in messages


@pytest.mark.parametrize("value", [0, 1.01, 100])
def test_ends_of_the_scale_are_accepted(sources, board, value):
    board[10]["value"] = value
    refreshed(SOURCE)
    assert standings(SOURCE)[board[10]["modelId"]].value == value


@pytest.mark.parametrize("name", ["someone/MODEL-9", "someone/model-9"])
def test_worse_value_of_a_repeated_model_stays_whatever_the_case_of_its_name(sources, board, name):
    board.append({**board[10], "modelId": name, "value": 3.5, "rank": 101})
    refreshed(SOURCE)
    found = {key: row.value for key, row in standings(SOURCE).items() if key.casefold() == "someone/model-9"}
    assert found == {name: 3.5}


def test_verified_value_of_a_repeated_model_stays(sources, board):
    board[10]["verified"] = True
    board.append({**board[10], "value": 3.5, "rank": 101, "verified": False})
    refreshed(SOURCE)
    standing = standings(SOURCE)[board[10]["modelId"]]
    assert (standing.value, standing.facts) == (board[10]["value"], {"verified": True})


def test_unchanged_boards_are_answered_without_a_body(sources):
    sources.gives_validators = True
    refreshed(SOURCE)
    sources.asked.clear()
    assert refreshed(SOURCE).result == RefreshResult.UNCHANGED
    assert all("if-none-match" in asked.headers for asked in sources.asked)
    assert len(sources.asked) == 3
    assert Snapshot.objects.count() == 1


def test_all_boards_are_read_when_one_has_changed(sources, board):
    sources.gives_validators = True
    refreshed(SOURCE)
    sources.boards["MathArena/aime_2026"][5]["value"] = 2.5
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert [snapshot.standings.count() for snapshot in Snapshot.objects.order_by("id")] == [240, 240]


def test_unchanged_rows_without_validators_make_no_new_snapshot(sources):
    refreshed(SOURCE)
    first = SourceState.objects.get(pk=SOURCE).last_success_at
    assert refreshed(SOURCE).result == RefreshResult.UNCHANGED
    assert Snapshot.objects.count() == 1
    assert SourceState.objects.get(pk=SOURCE).last_success_at > first


def test_new_token_makes_the_next_run_read_everything(sources, settings):
    sources.gives_validators = True
    refreshed(SOURCE)
    settings.RANKINGS_HF_TOKEN = HF_TOKEN
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert len(standings(SOURCE, "REASONING")) == 40


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"error": "gone"}, "TIGER-Lab/MMLU-Pro is {'error': 'gone'}"),
        ([7], "an item of TIGER-Lab/MMLU-Pro is 7"),
        ([], "TIGER-Lab/MMLU-Pro has no usable row"),
        ([{"rank": 1, "value": 50}], "modelId is missing"),
        ([{"rank": 0, "value": 50, "modelId": "a/b"}], "rank is 0"),
        ([{"rank": 1, "value": 50, "modelId": "a/b", "lower_is_better": True}], "says that lower is better"),
        ([{"rank": 1, "value": 50, "modelId": "a/b"}] * 3, "GENERAL has 1 rows, and had 100"),
    ],
)
def test_implausible_board_fails_the_run(sources, document, reason):
    refreshed(SOURCE)
    sources.answer(MMLU_PRO, Reply(body=document))
    assert_kept(SOURCE, refreshed(SOURCE), reason)


@pytest.fixture
def all_boards(sources, settings):
    settings.RANKINGS_HF_TOKEN = HF_TOKEN
    assert refreshed(SOURCE).result == RefreshResult.STORED
    return sources


def refuse(served, status, *paths):
    """Refuse these boards from now on."""
    real = served.reply
    served.reply = lambda asked: Reply(status, {"error": "not for you"}) if asked.path in paths else real(asked)


REFUSALS = pytest.mark.parametrize("status", [401, 403, 404, 410])
BOARDS = {"GENERAL": MMLU_PRO, "CODING": CODING, "REASONING": GATED}


# Each status, and each board, with validators and without.
@pytest.mark.parametrize("gives_validators", [False, True])
@pytest.mark.parametrize(("status", "board"), [(401, "GENERAL"), (403, "CODING"), (404, "REASONING"), (410, "GENERAL")])
def test_a_refused_board_stops_alone(all_boards, status, board, gives_validators):
    all_boards.gives_validators = gives_validators
    refreshed(SOURCE)
    before = {key: row.value for key, row in standings(SOURCE, board).items()}
    all_boards.boards["MathArena/aime_2026"][5]["value"] = 2.5
    refuse(all_boards, status, BOARDS[board])
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert {key: row.value for key, row in standings(SOURCE, board).items()} == before
    assert 2.5 in {row.value for row in standings(SOURCE, "MATH").values()}
    state = SourceState.objects.get(pk=SOURCE)
    assert (state.is_refused, state.failures, state.error.partition(":")[0]) == (False, 0, f"{board} stays as it was")
    last, first = Snapshot.objects.latest("id"), Snapshot.objects.earliest("id")
    assert f"answered {status}" in last.notes
    assert last.boards[board]["as_of"] == first.as_of.isoformat()
    assert [name for name, about in last.boards.items() if "as_of" in about] == [board]
    assert last.boards["MATH"]["version"] == "2026"
    assert next(each for each in health.report() if each.source == SOURCE).is_healthy
    all_boards.asked.clear()
    assert refreshed(SOURCE).result == RefreshResult.UNCHANGED
    assert all_boards.times_asked(BOARDS[board])  # it may be open again
    assert SourceState.objects.get(pk=SOURCE).error


def test_a_board_that_is_open_again_is_read_again(all_boards):
    all_boards.answer(GATED, Reply(403))
    all_boards.boards["Idavidrein/gpqa"][3]["value"] = 7.5
    refreshed(SOURCE)
    assert 7.5 not in {row.value for row in standings(SOURCE, "REASONING").values()}
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert 7.5 in {row.value for row in standings(SOURCE, "REASONING").values()}
    assert SourceState.objects.get(pk=SOURCE).error == ""


@REFUSALS
def test_a_board_that_was_never_read_is_left_out_while_it_is_refused(sources, settings, status):
    settings.RANKINGS_HF_TOKEN = HF_TOKEN
    refuse(sources, status, GATED, MMLU_PRO)
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert {row.board for row in Snapshot.objects.get().standings.all()} == {"CODING", "MATH"}


@pytest.mark.parametrize(("status", "is_refused"), [(401, True), (403, True), (404, False)])
def test_a_source_that_refuses_every_board_has_failed(all_boards, status, is_refused):
    refuse(all_boards, status, *(HUB_BOARD.format(dataset) for dataset in all_boards.boards))
    assert_kept(SOURCE, refreshed(SOURCE), f"leaderboard answered {status}")
    assert SourceState.objects.get(pk=SOURCE).is_refused == is_refused


def test_a_board_that_needs_a_token_ends_without_it(all_boards, settings):
    settings.RANKINGS_HF_TOKEN = ""
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert standings(SOURCE, "REASONING") == {}
