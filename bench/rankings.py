"""`make bench`, the rankings: 500 models, with cached and uncached replies, beside a bare view of the same server.

.venv/bin/python -m bench.rankings [SECONDS]
"""

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import run

MODELS = 500
FILL = """
from django.utils import timezone
from completions.models import Category, LanguageModel, Price, Provider, Route
from completions.pricing.rates import RateSheet
from rankings.models import Entry, Publication
provider, _ = Provider.objects.get_or_create(slug="echo", defaults={"kind": "echo"})
rates = RateSheet.of_values({"input": "1.00", "output": "1.00"}).rows
for number in range(%d):
    model = LanguageModel.objects.create(id=f"lab/model-{number}", name=f"Model {number}", maker=f"Lab {number %% 40}",
        context_window=128_000, max_output_tokens=4_096)
    Price.objects.create(model=model, rates=rates)
    Route.objects.create(model=model, provider=provider, upstream_model="echo")
    Entry.objects.create(source="INTERNAL", board=Category.GENERAL, model=model, rank=number + 1, board_rank=number + 1,
        overall=100 - number / 5, quality=80.0, speed=50.0, cost=50.0, confidence=0.5, last_updated=timezone.now())
Publication.objects.update_or_create(pk=1, defaults={"number": 10**9})
"""


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    environ = run.prepared(directory)
    port = run.free_port()
    environ["PORT"] = str(port)
    run.manage(environ, "migrate", "--verbosity=0")
    run.manage(environ, "shell", "--verbosity=0", "-c", FILL % MODELS)
    process = run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ, core=0)
    try:
        run.wait(port)
        _report(port, seconds)
    finally:
        process.terminate()
        process.wait(60)


def _report(port: int, seconds: float) -> None:
    kinds = {"hello": _get("/healthz"), "cached": _get("/api/rankings"), "uncached": b"\0".join(map(_get, _distinct_queries()))}
    sys.stdout.write("clients  kind        req/s     p50 ms     p99 ms   of hello\n")
    hello_per_second = None
    for kind, requests in kinds.items():
        result = run.load(port, 16, seconds, requests)
        assert set(result["statuses"]) == {"200"}, result
        hello_per_second = hello_per_second or result["per_second"]
        figures = f"{result['per_second']:8.0f} {result['p50_ms']:10.2f} {result['p99_ms']:10.2f}"
        sys.stdout.write(f"     16  {kind:8} {figures} {result['per_second'] / hello_per_second:10.2f}\n")


def _distinct_queries() -> list[str]:
    """Return more queries than the cache holds, so that every reply is computed."""
    sorts = itertools.product(("rank", "score", "name", "change"), ("asc", "desc"), range(0, 450), ("", "lab", "model"))
    return [
        f"/api/rankings?limit=50&sortBy={by}&sortOrder={order}&offset={offset}&search={search}"
        for by, order, offset, search in sorts
    ]


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(str(error)) from None
