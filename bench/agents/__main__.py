"""Runs every program on a model of every kind of provider, and writes the page and the recordings."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import run
from bench.agents import page, programs, recorder
from bench.agents.programs import Program, Work
from bench.agents.recorder import Recorder
from bench.agents.upstream import CACHED_TOKENS, DONE, GENERATED_TOKENS, OTHERWISE, PROMPT_TOKENS, Session, Upstreams

RECORDED = run.ROOT / "tests/completions/inbound/recorded"
# What a column is called -> its model, of ``models.toml``.
MODELS = {
    "OpenAI's chat": "scripted/chat",
    "OpenAI's GPT-5.5": "openai/gpt-5.5",
    "Claude Sonnet 4.5": "scripted/sonnet",
    "Claude Opus 4.8": "scripted/opus",
    "Gemini 3.5": "scripted/gemini",
}
ECHO, AT_BUDGET, RUN_BUDGET_NANOS = "The echo", "The run", 35_000_000
RECORDED_COLUMNS = ("OpenAI's chat", "OpenAI's GPT-5.5", "Claude Opus 4.8")  # what is sent for the others is like these
REPLY_NANOS = (PROMPT_TOKENS - CACHED_TOKENS) * 3_000 + CACHED_TOKENS * 300 + GENERATED_TOKENS * 15_000
# Those that send headers -> how many requests of a used up run are refused until they end, and a model for two replies of it.
RUNS = {"Claude Code": (1, "run/messages"), "Codex": (6, "run/responses"), "opencode": (1, "run/chat")}
_SUMS = """
import json, sys
from django.db.models import Sum
from completions.models import Completion
rows = Completion.objects.exclude(settlement="released")
print(json.dumps([rows.count(), int(rows.aggregate(sum=Sum("cost_nanos"))["sum"] or 0), rows.filter(settlement=None).count()]))
"""


def main() -> None:
    chosen = [program for program in programs.PROGRAMS if not sys.argv[1:] or program.name in sys.argv[1:]]
    with run.Servers() as servers:
        installed = {program: servers.directory / program.folder for program in chosen}
        for program in chosen:
            if problem := programs.install(program, installed[program]):
                sys.exit(f"{program.name}: {problem}")
        rows = play(servers, installed)
    if chosen == programs.PROGRAMS:
        page.PAGE.write_text(page.with_table(page.PAGE.read_text(), [*MODELS], ECHO, [row[: 4 + len(MODELS)] for row in rows]))
    if not all(result.startswith(("done", "answers", "stops")) for row in rows for result in row[3:]):
        sys.exit("not every task was done")


def play(servers: run.Servers, installed: dict[Program, Path]) -> list[list[str]]:
    """Let each program do the task on each model, and in a run. Return name, version, language, and the results, of each."""
    environ, upstreams, rows = run.prepared(servers.directory / "gateway"), Upstreams(), []
    secret = _fill(environ, servers.directory, upstreams.url)
    with Recorder(servers.gateway(environ, core=None)).running() as proxy:
        for program, directory in installed.items():
            rows.append([program.name, program.version(directory), program.speaks])
            models = MODELS | {ECHO: "demo/echo"} | ({AT_BUDGET: RUNS[program.name][1]} if program.name in RUNS else {})
            for column, model in models.items():
                headers = {"x-gateway-run": directory.name, "x-gateway-run-budget": "0.035"} if column == AT_BUDGET else {}
                folder = servers.directory / "sessions" / directory.name / model.replace("/", "-") / "work"
                session = _Session(program, column, Work(directory, folder, proxy.url, secret, model, headers), environ, proxy)
                rows[-1].append(session.play(upstreams))
                run.write_line(f"{' '.join(rows[-1][:2])}, {column}: {rows[-1][-1]}")
    run.write_line(run.manage(environ, "verify_ledger"))
    upstreams.stop()
    return rows


def _fill(environ: dict[str, str], directory: Path, upstream_url: str) -> str:
    catalog = directory / "agents.toml"
    catalog.write_text((programs.HERE / "models.toml").read_text().replace("UPSTREAM", upstream_url))
    built_in = str(run.ROOT / "completions/catalog/catalog.toml")
    run.manage_all(environ, ["migrate", "--verbosity=0"], ["load_catalog", built_in, str(catalog)])
    return run.account(environ, "agents@example.org")


@dataclass(frozen=True)
class _Session:
    """One program at work on one model, in a folder of its own, through a proxy."""

    program: Program
    column: str
    work: Work
    environ: dict[str, str]
    proxy: Recorder

    def play(self, upstreams: Upstreams) -> str:
        """Return "done", "answers", "stops", or what went wrong."""
        folder = self.work.folder
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text(f"{programs.TEXT}\n")
        steps = [] if self.column == ECHO else self.program.steps(folder, self.work.model)
        upstreams.session = session = Session(steps, self.program.edit or OTHERWISE)
        self.proxy.requests.clear()
        before = self._charged()
        try:
            done = self.program.run(self.work)
        except subprocess.TimeoutExpired:
            return "does not end"
        charged = [now - then for now, then in zip(self._charged(), before, strict=True)]
        if problem := self._problem(done, session, charged):
            run.write_line(f"{done.stdout[-2_000:]}\n{done.stderr[-2_000:]}")
            return problem
        return self._outcome([request for request in self.proxy.requests if not request["is_refused"]])

    def _outcome(self, sent: list[dict[str, Any]]) -> str:
        """Return the word of the page, and record what was sent."""
        if self.column in RECORDED_COLUMNS and self.program.is_recorded:
            name = f"{self.work.installed.name}-{self.work.model.replace('/', '-')}.json"
            recorder.write(RECORDED / name, sent, str(self.work.folder))
        outcomes = {ECHO: "answers", AT_BUDGET: "stops"}
        outcome = outcomes.get(self.column, "done, the edit alone" if self.program.edit else "done")
        refused = len(self.proxy.requests) - len(sent)
        return f"{outcome}, {refused} refused" if refused else outcome

    def _charged(self) -> list[int]:
        """Return how many completions were charged, how much in all, and how many are not settled."""
        figures: list[int] = json.loads(run.execute_code(self.environ, _SUMS))
        return figures

    def _problem(self, done: "subprocess.CompletedProcess[str]", session: Session, charged: list[int]) -> str:
        if self.column == AT_BUDGET:
            refused = sum(request["is_refused"] for request in self.proxy.requests)
            ended = (done.returncode, refused, "has $0.0" in done.stdout + done.stderr, 0 < charged[1] <= RUN_BUDGET_NANOS)
            return "" if ended == (1, RUNS[self.program.name][0], True, True) else f"ends with {ended}, charged {charged}"
        if done.returncode:
            return f"ends with {done.returncode}"
        if session.problems:
            return f"is refused: {session.problems}"
        if self.column == ECHO:
            return "" if charged[0] and charged[1] else "is not charged"
        if charged != [session.replies, session.replies * REPLY_NANOS, 0]:
            return f"is charged {charged}, not {session.replies} x {REPLY_NANOS}"
        wants_reasoning = self.work.model == "openai/gpt-5.5"  # of every step
        if self.program.keeps_reasoning and wants_reasoning and session.reasoned != len(session.steps):
            return f"goes on with the reasoning of {session.reasoned} of {len(session.steps)} steps"
        if DONE not in done.stdout or (self.work.folder / "notes.txt").read_text() != "two word\n":
            return "does not do the task"
        if self.program.edit:
            return ""
        counts = (self.work.folder / "count.txt").read_text().strip(), "2 words" in json.dumps(self.proxy.requests[-1])
        return "" if counts == ("2", True) else f"counts {counts}"


if __name__ == "__main__":
    main()
