"""What `make agents` needs of its page: a section for each program, whose settings it uses, and a table."""

import json
import re
import tomllib
from pathlib import Path

from bench.agents import page, programs
from bench.agents.__main__ import RUNS
from bench.agents.programs import Work

WORK = Work(Path("/installed"), Path("/folder"), "http://127.0.0.1:1", "mgw_live_secret", "openai/gpt-5.5")


def test_every_program_has_a_section_with_its_settings_and_a_row():
    rows = [row.split("|") for row in page.PAGE.read_text().splitlines() if row.startswith("|")][2:]
    named = [(program.name, program.speaks) for program in programs.PROGRAMS]
    assert [(name.strip(), speaks.strip()) for _, name, _, speaks, *_ in rows] == named
    headings = set(re.findall(r"^## (.*)$", page.PAGE.read_text(), re.MULTILINE))
    assert headings == {program.name for program in programs.PROGRAMS}
    assert all(page.block(heading).strip() for heading in headings)


def test_programs_are_told_what_the_page_tells_with_the_address_and_the_model_of_a_gateway():
    codex, opencode = tomllib.loads(WORK.told("Codex")), json.loads(WORK.told("opencode"))
    assert (codex["model"], codex["model_providers"]["gateway"]["base_url"]) == (WORK.model, f"{WORK.url}/v1")
    assert opencode["model"] == f"gateway/{WORK.model}"
    assert list(opencode["provider"]["gateway"]["models"]) == [WORK.model]


def test_the_page_of_runs_tells_what_agents_do_at_the_end_of_a_budget():
    rows = re.findall(r"^\| (.*?) \| .* \| (\d+) \|$", (page.PAGE.parent / "runs.md").read_text(), re.MULTILINE)
    assert rows == [(name, str(refused)) for name, (refused, *_) in RUNS.items()]


def test_another_table_leaves_the_rest_of_the_page():
    text = page.PAGE.read_text()
    head = "|  | Version | Speaks | Every model | The echo |\n| --- | --- | --- | --- | --- |\n"
    table = f"{head}| Agent | 1.0 | Chat | done | answers |\n| Other | 1.0 | Chat | A: done; B: fails | answers |\n"
    rows = [["Agent", "1.0", "Chat", "done", "done", "answers"], ["Other", "1.0", "Chat", "done", "fails", "answers"]]
    written = page.with_table(text, ["A", "B"], "The echo", rows)
    assert written.count(table) == 1
    assert written.replace(table, "") == re.sub(r"(?m)(^\|.*\n)+", "", text)
