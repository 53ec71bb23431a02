"""Writes docs/api/agents.md: the programs, their versions, what they did, and the lines to set."""

from pathlib import Path

from bench.agents.programs import TASK, Program

Results = dict[tuple[Program, str], str]  # by program and column
PAGE = Path(__file__).resolve().parent.parent.parent / "docs/api/agents.md"
_INTRODUCTION = """\
# Coding agents

Coding agents run through the gateway as their makers ship them, on every model, whoever provides it. `make agents` proves it:
it installs releases from their registries, lets each solve a task through a gateway, and writes this page. The task, with the
agent's own tools and one of an MCP server, or with what it has of either:

> {task}

The providers are scripted servers on loopback. They say which tool to call next, and refuse what the real ones refuse: unsigned
thinking, ids of another maker, instructions in the middle of a conversation, more tokens than the model has. GPT-5.5 is asked
by OpenAI's Responses: agents that speak Messages or Responses must bring back what it reasoned in every step. What was charged
must equal the usage that they reported, to the nanodollar. `make test` replays what the agents sent, without them.

"""
_LEGEND = """
**done**: every step was done, the file and the counts are right, and so are the charges. **the edit alone**: it has no
tools, so the model tells it what to edit, and it does nothing else. **answers**: the echo calls no tools;
the agent showed what it said, and was charged for it. **refused**: so many requests got a 400, at which the agent itself went
on in another way. They cost nothing.

"""


def write(programs: list[Program], columns: list[str], versions: dict[Program, str], results: Results) -> None:
    head = ["", "Version", "Speaks", *columns]
    rows = [head, ["---"] * len(head)]
    for program in programs:
        rows.append([program.name, versions[program], program.page, *(results[program, column] for column in columns)])
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    sections = "\n".join({f"## {program.name}\n\n{program.lines}\n": None for program in programs})
    PAGE.write_text(_INTRODUCTION.format(task=TASK) + table + _LEGEND + sections)
