"""Runs every program on a model of every kind of provider, and writes the page and the recordings."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import run
from bench.agents import page, programs, recorder
from bench.agents.programs import Gateway, Program
from bench.agents.recorder import Recorder
from bench.agents.upstream import CACHED_TOKENS, DONE, GENERATED_TOKENS, OTHERWISE, PROMPT_TOKENS, Session, Upstreams

RECORDED = run.ROOT / "tests/completions/inbound/recorded"
# What a column is called -> its model, the kind of its provider, or its other API, and the model's name there.
MODELS = {
    "OpenAI's chat": ("scripted/chat", "openai", "chat-1"),
    "OpenAI's GPT-5.5": ("openai/gpt-5.5", "openai-responses", "gpt-5.5"),
    "Claude Sonnet 4.5": ("scripted/sonnet", "anthropic", "claude-sonnet-4-5"),
    "Claude Opus 4.8": ("scripted/opus", "anthropic", "claude-opus-4-8"),
    "Gemini 3.5": ("scripted/gemini", "gemini", "gemini-3.5-flash"),
}
ECHO = "The echo"
RECORDED_COLUMNS = ("OpenAI's chat", "OpenAI's GPT-5.5", "Claude Opus 4.8")  # what is sent for the others is like these
INPUT, CACHED, OUTPUT = 3_000, 300, 15_000  # nanodollars a token
REPLY_NANOS = (PROMPT_TOKENS - CACHED_TOKENS) * INPUT + CACHED_TOKENS * CACHED + GENERATED_TOKENS * OUTPUT
_SUMS = """
import json, sys
from django.db.models import Sum
from completions.models import Completion
rows = Completion.objects.exclude(settlement="released")
print(json.dumps([rows.count(), int(rows.aggregate(sum=Sum("cost_nanos"))["sum"] or 0), rows.filter(settlement=None).count()]))
"""


def main() -> None:
    chosen = [program for program in programs.PROGRAMS if not sys.argv[1:] or program.name in sys.argv[1:]]
    directory = Path(tempfile.mkdtemp(prefix="agents-"))
    installed = {program: directory / program.folder for program in chosen}
    for program in chosen:
        if problem := programs.install(program, installed[program]):
            sys.exit(f"{program.name}: {problem}")
    versions = {program: program.version(installed[program]) for program in chosen}
    environ = run.prepared(directory / "gateway")
    upstreams, port = Upstreams(), run.free_port()
    environ["PORT"] = str(port)
    secret = _fill(environ, directory, upstreams.url)
    served = run.start([run.PYTHON, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"], environ)
    try:
        run.wait(port)
        results: page.Results = {}
        for program in chosen:
            for column in [*MODELS, ECHO]:
                session = _Session(program, column, installed[program], environ, port, secret)
                results[program, column] = result = session.play(upstreams)
                sys.stdout.write(f"{program.name} {versions[program]}, {column}: {result}\n")
                sys.stdout.flush()
        sys.stdout.write(run.manage(environ, "verify_ledger"))
    finally:
        served.terminate()
        served.wait(60)
        upstreams.stop()
    if chosen == programs.PROGRAMS:
        page.write(chosen, [*MODELS, ECHO], versions, results)
    shutil.rmtree(directory, ignore_errors=True)
    if not all(result.startswith(("done", "answers")) for result in results.values()):
        sys.exit("not every task was done")


def _fill(environ: dict[str, str], directory: Path, upstream_url: str) -> str:
    suffixes = {"openai": "/v1", "anthropic": "", "gemini": ""}
    tables = [f'[providers.{kind}]\nkind = "{kind}"\nbase_url = "{upstream_url}{suffixes[kind]}"\n' for kind in suffixes]
    tables += [
        f'[models."{model}"]\nname = "{column}"\nprovider = "Scripted"\ncontext_window = 200000\nmax_output_tokens = 16000\n'
        "function_calling = true\nimage_support = true\n"
        f'price = {{ input = "{INPUT / 1_000}", cached_input = "{CACHED / 1_000}", output = "{OUTPUT / 1_000}" }}\n'
        f'reasoning = true\nroutes = [ {{ provider = "{kind}", upstream_model = "{name}", api = "{api or "chat"}" }} ]\n'
        for column, (model, adapter, name) in MODELS.items()
        for kind, _, api in [adapter.partition("-")]
    ]
    catalog = directory / "agents.toml"
    catalog.write_text("\n".join(tables))
    run.manage(environ, "migrate", "--verbosity=0")
    run.manage(environ, "load_catalog", str(run.ROOT / "completions/catalog/catalog.toml"), str(catalog))
    return run.account(environ, "agents@example.org")


def _keeps_reasoning(column: str) -> bool:
    """Return whether its provider wants the reasoning of every step back."""
    return MODELS[column][1] == "openai-responses"


class _Session:
    """One program at work on one model, in a folder of its own."""

    def __init__(self, program: Program, column: str, installed: Path, environ: dict[str, str], port: int, secret: str) -> None:
        self._program, self._column, self._installed = program, column, installed
        self._environ, self._port, self._secret = environ, port, secret
        self._model = "demo/echo" if column == ECHO else MODELS[column][0]
        self._folder = installed.parent / "sessions" / installed.name / self._model.replace("/", "-") / "work"

    def play(self, upstreams: Upstreams) -> str:
        """Return "done", "answers", or what went wrong."""
        self._folder.mkdir(parents=True)
        (self._folder / "notes.txt").write_text(f"{programs.TEXT}\n")
        steps = [] if self._column == ECHO else self._program.steps(self._folder, self._model)
        upstreams.session = session = Session(steps, self._program.edit or OTHERWISE)
        before = self._charged()
        with Recorder(self._port).running() as proxy:
            try:
                done = self._program.run(self._program, self._installed, self._folder, self._gateway(proxy.url))
            except subprocess.TimeoutExpired:
                return "does not end"
        charged = [now - then for now, then in zip(self._charged(), before, strict=True)]
        if problem := self._problem(done, session, proxy, charged):
            sys.stdout.write(f"{done.stdout[-2_000:]}\n{done.stderr[-2_000:]}\n")
            return problem
        sent = [request for request in proxy.requests if not request["is_refused"]]
        name = f"{self._installed.name}-{self._model.replace('/', '-')}.json"
        if self._column in RECORDED_COLUMNS and self._program.is_recorded:
            recorder.write(RECORDED / name, sent, str(self._folder))
        outcome = "answers" if self._column == ECHO else "done, the edit alone" if self._program.edit else "done"
        refused = len(proxy.requests) - len(sent)
        return f"{outcome}, {refused} refused" if refused else outcome

    def _gateway(self, url: str) -> Gateway:
        return Gateway(url, self._secret, self._model)

    def _charged(self) -> list[int]:
        """Return how many completions were charged, how much in all, and how many are not settled."""
        figures: list[int] = json.loads(run.manage(self._environ, "shell", "--verbosity=0", "-c", _SUMS))
        return figures

    def _problem(self, done: "subprocess.CompletedProcess[str]", session: Session, proxy: Recorder, charged: list[int]) -> str:
        if done.returncode:
            return f"ends with {done.returncode}"
        if session.problems:
            return f"is refused: {session.problems}"
        if self._column == ECHO:
            return "" if charged[0] and charged[1] else "is not charged"
        if charged != [session.replies, session.replies * REPLY_NANOS, 0]:
            return f"is charged {charged}, not {session.replies} x {REPLY_NANOS}"
        is_carried = not _keeps_reasoning(self._column) or session.reasoned == len(session.steps)
        if self._program.keeps_reasoning and not is_carried:
            return f"goes on with the reasoning of {session.reasoned} of {len(session.steps)} steps"
        if DONE not in done.stdout or (self._folder / "notes.txt").read_text() != "two word\n":
            return "does not do the task"
        if self._program.edit:
            return ""
        counts = (self._folder / "count.txt").read_text().strip(), "2 words" in json.dumps(proxy.requests[-1])
        return "" if counts == ("2", True) else f"counts {counts}"


if __name__ == "__main__":
    main()
