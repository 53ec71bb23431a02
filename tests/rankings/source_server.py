"""The ranking sources on loopback: a real HTTP server that serves their documented shapes, and the faults that a test wants.

Rows are grown from the samples in ``payloads``, so that their fields are the real ones, to as many as a source really has.
``answer`` queues replies that come before those rows; ``change`` edits every document before it is sent.
"""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rankings import refresh
from rankings.models import Snapshot, Source, SourceState, Standing
from rankings.refresh import RefreshOutcome, RefreshResult, RunOptions

PAYLOADS = Path(__file__).with_name("payloads")
AA_KEY, OPENROUTER_KEY, HF_TOKEN = "aa-0123456789abcdef", "sk-or-0123456789abcdef", "hf_0123456789abcdef"
PUBLISHED = "2026-11-12"
ARENA, HUB_BOARD = "/datasets-server/filter", "/hub/api/datasets/{}/leaderboard"
HUB_DATASET = "/hub/api/datasets/lmarena-ai/leaderboard-dataset"
AA, OPENROUTER_MODELS, OPENROUTER_TOKENS = (
    "/aa/language/models/free",
    "/openrouter/models",
    "/openrouter/datasets/rankings-daily",
)


def payload(name: str) -> Any:
    return json.loads((PAYLOADS / f"{name}.json").read_text(encoding="utf-8"))


def _copied(document: Any) -> Any:
    """Return a copy for tests to change. ``copy.deepcopy`` takes ten times as long."""
    return json.loads(json.dumps(document))


@dataclass
class Reply:
    """A reply that is sent once. ``hold``: it waits for this event."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    breaks_off: bool = False
    hold: threading.Event | None = None

    @property
    def sent(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Asked:
    path: str
    query: dict[str, str]
    headers: dict[str, str]


class Sources:
    """The server of all four sources, healthy unless a test changes that. Its rows are public, for tests to change."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.revision = "a" * 40
        self.says_revision = True  # in the header of the data's own server
        self.gives_validators = False
        self.aa_page_size = 100  # 200 in truth: three pages either way
        self.change: Callable[[str, Any], Any] = lambda path, document: document
        self._queued: dict[str, list[Reply]] = {}
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, *replies: Reply) -> None:
        """Queue replies of this path, which come before the usual ones."""
        self._queued.setdefault(path, []).extend(replies)

    def times_asked(self, path: str) -> int:
        return sum(asked.path == path for asked in self.asked)

    def last(self, path: str) -> Asked:
        return [asked for asked in self.asked if asked.path == path][-1]

    # --- Rows, made when a test first needs them ---------------------------------------------------------------------

    @cached_property
    def arena(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of each category: three pages of the first, and of the others one, for speed."""
        return {"overall": _arena_rows("overall", 230)} | {
            name: _arena_rows(name, 30) for name in ("coding", "math", "hard_prompts", "creative_writing")
        }

    @cached_property
    def boards(self) -> dict[str, list[dict[str, Any]]]:
        return {name: _board(100 - number * 20) for number, name in enumerate(_BOARDS)}

    @cached_property
    def aa(self) -> list[dict[str, Any]]:
        return _aa_models(210)

    @cached_property
    def openrouter(self) -> list[dict[str, Any]]:
        return _openrouter_models(120)

    @cached_property
    def tokens(self) -> dict[str | None, list[dict[str, Any]]]:
        return {None: _tokens(50), "programming": _tokens(40), "roleplay": _tokens(30)}

    # --- Documents -------------------------------------------------------------------------------------------------

    def reply(self, asked: Asked) -> Reply:
        if queued := self._queued.get(asked.path):
            return queued.pop(0)
        document, headers = self._document(asked)
        if document is None:
            return Reply(404, payload("datasets_server_error_404"))
        document = self.change(asked.path, _copied(document))
        if self.gives_validators:
            headers = {**headers, "ETag": f'"{hash(json.dumps(document)):x}"'}
            if asked.headers.get("if-none-match") == headers["ETag"]:
                return Reply(304, b"", headers)
        return Reply(200, document, headers)

    def _document(self, asked: Asked) -> tuple[Any, dict[str, str]]:
        if asked.path == ARENA:
            return self._arena_page(asked.query), {"X-Revision": self.revision} if self.says_revision else {}
        if asked.path == HUB_DATASET:
            return {"id": "lmarena-ai/leaderboard-dataset", "sha": self.revision, "lastModified": f"{PUBLISHED}T09:00:00Z"}, {}
        for name, board in self.boards.items():
            if asked.path == HUB_BOARD.format(name):
                return board, {}
        if asked.path == AA:
            return self._aa_page(int(asked.query["page"])), {"X-RateLimit-Remaining": "90"}
        if asked.path == OPENROUTER_MODELS:
            return {"data": self.openrouter, "links": {"next": None}, "total_count": len(self.openrouter)}, {}
        if asked.path == OPENROUTER_TOKENS:
            return self._tokens_of(asked.query), {}
        return None, {}

    def _arena_page(self, query: dict[str, str]) -> Any:
        envelope = payload("arena_filter_text_style_control_overall")
        rows = self.arena[query["where"].partition("=")[2].strip("'")]
        offset, length = int(query["offset"]), int(query["length"])
        assert length <= 100
        page = rows[offset : offset + length]
        items = [{"row_idx": offset + number, "row": row, "truncated_cells": []} for number, row in enumerate(page)]
        return {**envelope, "rows": items, "num_rows_total": len(rows)}

    def _aa_page(self, number: int) -> Any:
        pages = -(-len(self.aa) // self.aa_page_size)
        start = (number - 1) * self.aa_page_size
        return {
            **payload("aa_language_models_free_p1"),
            "pagination": {"page": number, "page_size": self.aa_page_size, "total_pages": pages, "has_more": number < pages},
            "data": self.aa[start : start + self.aa_page_size],
        }

    def _tokens_of(self, query: dict[str, str]) -> Any:
        meta = payload("openrouter_rankings_daily")["meta"]
        as_of = f"{query['end_date']}T23:59:00Z"
        return {"data": self.tokens[query.get("category")], "meta": {**meta, "as_of": as_of}}


# --- Rows ------------------------------------------------------------------------------------------------------------

_BOARDS = ["TIGER-Lab/MMLU-Pro", "SWE-bench/SWE-bench_Verified", "MathArena/aime_2026", "Idavidrein/gpqa"]


def _arena_rows(category: str, count: int) -> list[dict[str, Any]]:
    sample = [item["row"] for item in payload("arena_filter_text_style_control_overall")["rows"]]
    grown = [
        {**sample[1], "model_name": f"filler-{number}", "rating": 1400.0 - number, "rank": number + 2}
        for number in range(count - 1)
    ]
    return [{**row, "category": category, "leaderboard_publish_date": PUBLISHED} for row in [sample[0], *grown]]


def _board(count: int) -> list[dict[str, Any]]:
    first, second = payload("hf_dataset_leaderboard")
    grown = [
        {**second, "rank": number + 2, "modelId": f"someone/model-{number}", "value": 80 - number / 2}
        for number in range(count - 1)
    ]
    return [first, *grown]


def _aa_models(count: int) -> list[dict[str, Any]]:
    samples = [model for page in ("1", "2") for model in payload(f"aa_language_models_free_p{page}")["data"]]
    sample, grown = json.dumps(samples[2]), []
    for number in range(count - len(samples)):
        model = json.loads(sample)
        model |= {"id": f"00000000-0000-4000-8000-{number:012}", "name": f"Filler {number}", "slug": f"filler-{number}"}
        model["evaluations"]["artificial_analysis_intelligence_index"] = round(60 - number / 10, 1)
        grown.append(model)
    return [*samples, *grown]


def _openrouter_models(count: int) -> list[dict[str, Any]]:
    samples = payload("openrouter_models")["data"]
    grown = [
        {
            **samples[1],
            "id": f"filler/model-{number}",
            "canonical_slug": f"filler/model-{number}-20260101",
            "hugging_face_id": "",
        }
        for number in range(count - len(samples))
    ]
    return [*samples, *grown]


def _tokens(count: int) -> list[dict[str, Any]]:
    """Return seven days of the first fifty models, one of them a variant, and of the sum of all others."""
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    rows = []
    for days in range(7):
        day = str(yesterday - timedelta(days=days))
        rows += [{"date": day, "model_permaslug": "openai/gpt-4o-mini", "total_tokens": "900000000000"}]
        rows += [{"date": day, "model_permaslug": "qwen/qwen3.6-27b-20260422", "total_tokens": "400000000000"}]
        rows += [{"date": day, "model_permaslug": "qwen/qwen3.6-27b-20260422:free", "total_tokens": "600000000000"}]
        rows += [
            {"date": day, "model_permaslug": f"filler/model-{number}-20260101", "total_tokens": str(10**9 - number)}
            for number in range(count - 3)
        ]
        rows += [{"date": day, "model_permaslug": "other", "total_tokens": "5000000000000"}]
    return rows


# --- The server ------------------------------------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection: some tests make them."""


def _handler(sources: Sources) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or the body would wait until the client has acknowledged the head

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            asked = Asked(parts.path, query, {name.lower(): value for name, value in self.headers.items()})
            sources.asked.append(asked)
            self._send(sources.reply(asked))

        def _send(self, reply: Reply) -> None:
            if reply.hold:
                reply.hold.wait(300)
            body = reply.sent
            self.send_response(reply.status)
            for name, value in {"Content-Type": reply.content_type, **reply.headers}.items():
                self.send_header(name, value)
            if reply.status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self._send_body(body, reply)

        def _send_body(self, body: bytes, reply: Reply) -> None:
            if reply.breaks_off:
                self.wfile.write(body[: len(body) // 2])
                self.close_connection = True
                return
            if reply.status != 304:
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@pytest.fixture
def sources(settings: Any) -> Iterator[Sources]:
    """All four sources on loopback. Those that need a key are off without ``keys``."""
    served = Sources()
    for name, value in addresses(served).items():
        setattr(settings, name.replace("GATEWAY_", "RANKINGS_"), value)
    settings.RANKINGS_HF_TOKEN = settings.RANKINGS_AA_API_KEY = settings.RANKINGS_OPENROUTER_API_KEY = ""
    settings.RANKINGS_FETCH = True
    yield served
    served.close()


def addresses(served: Sources) -> dict[str, str]:
    """Return the base URLs as environment variables."""
    return {
        "GATEWAY_HF_HUB_URL": f"{served.url}/hub",
        "GATEWAY_HF_DATASETS_SERVER_URL": f"{served.url}/datasets-server",
        "GATEWAY_AA_BASE_URL": f"{served.url}/aa",
        "GATEWAY_OPENROUTER_BASE_URL": f"{served.url}/openrouter",
    }


@pytest.fixture
def keys(settings: Any) -> None:
    """Set all keys, so that every source is on."""
    settings.RANKINGS_HF_TOKEN, settings.RANKINGS_AA_API_KEY = HF_TOKEN, AA_KEY
    settings.RANKINGS_OPENROUTER_API_KEY = OPENROUTER_KEY


def refreshed(source: Source, **options: Any) -> RefreshOutcome:
    """Run a source without pauses."""
    return refresh.refresh(source, RunOptions(pause=lambda seconds: None, **options))


def standings(source: Source, board: str = "GENERAL") -> dict[str, Any]:
    """Return the standings of a board in the last snapshot, by the source's name."""
    snapshot = Snapshot.objects.filter(source=source).latest("id")
    return {standing.external_key: standing for standing in snapshot.standings.filter(board=board)}


def assert_kept(source: Source, outcome: RefreshOutcome, reason: str) -> None:
    """Assert that the run failed for this reason, and that the snapshot from before it is still the only one."""
    assert outcome.result == RefreshResult.FAILED
    assert reason in outcome.detail
    state = SourceState.objects.get(pk=source)
    assert (state.failures, state.error) == (1, outcome.detail)
    assert Snapshot.objects.filter(source=source).count() == 1
    assert not Standing.objects.exclude(snapshot__source=source).exists()
