"""The programs: what is installed of each, how it is told of the gateway, and the steps of the task with its tools."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.agents.upstream import Step

TASK = "In notes.txt, replace the word one by two. Then count the words of the file with wc, and with the tool of notes."
MCP = Path(__file__).with_name("mcp.py")
TEXT = "one word"
_SECONDS_MAX = 180


@dataclass(frozen=True)
class Gateway:
    """What a program is told: the address, a key, and the id of a model."""

    url: str
    secret: str
    model: str


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    release: str
    binary: str
    run: Callable[["Program", Path, Path, Gateway], "subprocess.CompletedProcess[str]"]
    steps: Callable[[Path, str], list[Step]]  # for a folder and a model
    lines: str  # to set
    page: str  # of the language that it speaks

    def version(self, installed: Path) -> str:
        return str(json.loads((installed / "node_modules" / self.package / "package.json").read_text())["version"])


def install(program: Program, folder: Path) -> str:
    """Install a release. Return why it cannot be had, or nothing."""
    if not shutil.which("npm"):
        return "npm is not installed"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--foreground-scripts", f"{program.package}@{program.release}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode or not (folder / "node_modules/.bin" / program.binary).exists():
        return f"{program.package}@{program.release} cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
    return ""


def _execute(
    program: Program, installed: Path, folder: Path, arguments: list[str], environ: dict[str, str], binary: str = ""
) -> "Done":
    """Run a program in a folder, with a home of its own there: none of the user's settings and credentials reach it."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    given = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb", **environ}
    command = [binary or str(installed / "node_modules/.bin" / program.binary), *arguments]
    return subprocess.run(
        command, cwd=folder, env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS_MAX
    )


Done = subprocess.CompletedProcess[str]


# --- Claude Code ------------------------------------------------------------------------------------------------------


def _run_claude_code(program: Program, installed: Path, folder: Path, gateway: Gateway) -> Done:
    servers = {"mcpServers": {"notes": {"command": sys.executable, "args": [str(MCP)]}}}
    environ = {
        "ANTHROPIC_BASE_URL": gateway.url,
        "ANTHROPIC_API_KEY": gateway.secret,
        "ANTHROPIC_MODEL": gateway.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": gateway.model,
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",  # it may run as root
    }
    arguments = ["-p", TASK, "--mcp-config", json.dumps(servers), "--dangerously-skip-permissions", "--output-format", "text"]
    return _execute(program, installed, folder, arguments, environ)


def _claude_code_steps(folder: Path, model: str) -> list[Step]:
    notes = str(folder / "notes.txt")
    return [
        Step("Read", {"file_path": notes}),
        Step("Edit", {"file_path": notes, "old_string": "one", "new_string": "two"}),
        Step("Bash", {"command": "wc -w < notes.txt > count.txt", "description": "Count the words"}),
        Step("mcp__notes__count_words", {"text": TEXT}),
    ]


_CLAUDE_CODE_LINES = """\
```sh
export ANTHROPIC_BASE_URL=http://127.0.0.1:8000
export ANTHROPIC_API_KEY=mgw_live_...
export ANTHROPIC_MODEL=demo/echo
export ANTHROPIC_DEFAULT_HAIKU_MODEL=demo/echo
claude
```

The third is the model, an id or an alias of the gateway's; the last is the model for small jobs, such as titles. Without it
they go to a model of Anthropic's own name, which the gateway does not have."""


# --- Codex ------------------------------------------------------------------------------------------------------------

_CODEX_CONFIG = """\
model = "{model}"
model_provider = "gateway"
web_search = "disabled"

[model_providers.gateway]
name = "Model Gateway"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""


def _run_codex(program: Program, installed: Path, folder: Path, gateway: Gateway) -> Done:
    home = folder.parent / "codex"
    home.mkdir(exist_ok=True)
    server = f"\n[mcp_servers.notes]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(MCP))}]\n"
    (home / "config.toml").write_text(_CODEX_CONFIG.format(model=gateway.model, url=gateway.url) + server)
    environ = {"OPENAI_API_KEY": gateway.secret, "CODEX_HOME": str(home)}
    arguments = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK]
    return _execute(program, installed, folder, arguments, environ)


def _codex_steps(folder: Path, model: str) -> list[Step]:
    read, count = Step("exec_command", {"cmd": "cat notes.txt"}), Step("exec_command", {"cmd": "wc -w < notes.txt > count.txt"})
    tool = Step("mcp__notes__count_words", {"text": TEXT})
    if "gpt-5.5" not in model:  # a model that Codex does not know: it edits in the shell
        return [read, Step("exec_command", {"cmd": "sed -i s/one/two/ notes.txt"}), count, tool]
    patch = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-one word\n+two word\n*** End Patch\n"
    return [read, Step("apply_patch", text=patch), count, Step("tool_search", {"query": "count words"}), tool]


_CODEX_LINES = f"""\
In `~/.codex/config.toml`, with the key in `OPENAI_API_KEY`:

```toml
{_CODEX_CONFIG.format(model="demo/echo", url="http://127.0.0.1:8000").rstrip()}
```

`web_search` is off because that tool runs at OpenAI."""


def _claude_code(release: str) -> Program:
    package, page = "@anthropic-ai/claude-code", "[Messages](messages.md)"
    return Program("Claude Code", package, release, "claude", _run_claude_code, _claude_code_steps, _CLAUDE_CODE_LINES, page)


# --- The tool runner of Anthropic's SDK -------------------------------------------------------------------------------


def _run_tool_runner(program: Program, installed: Path, folder: Path, gateway: Gateway) -> Done:
    script = shutil.copy(Path(__file__).with_name("tool_runner.mjs"), installed)  # beside its modules
    environ = {"ANTHROPIC_BASE_URL": gateway.url, "ANTHROPIC_API_KEY": gateway.secret}
    return _execute(program, installed, folder, [str(script), gateway.model, TASK], environ, binary="node")


def _tool_runner_steps(folder: Path, model: str) -> list[Step]:
    return [
        Step("read_file", {"path": "notes.txt"}),
        Step("edit_file", {"path": "notes.txt", "from": "one", "to": "two"}),
        Step("run_command", {"command": "wc -w < notes.txt > count.txt"}),
        Step("count_words", {"text": TEXT}),
    ]


_TOOL_RUNNER_LINES = """\
`client.beta.messages.toolRunner()` of `@anthropic-ai/sdk`:

```sh
export ANTHROPIC_BASE_URL=http://127.0.0.1:8000
export ANTHROPIC_API_KEY=mgw_live_...
```

It first asks for a `thread`, which is kept at Anthropic, and goes on without one."""


# Claude Code since 2.1.3 defers tools, and does not where that is refused: both ways of it are tried.
PROGRAMS = [
    _claude_code("latest"),
    _claude_code("2.1.197"),
    Program(
        "Tool runner",
        "@anthropic-ai/sdk",
        "latest",
        "anthropic-ai-sdk",
        _run_tool_runner,
        _tool_runner_steps,
        _TOOL_RUNNER_LINES,
        "[Messages](messages.md)",
    ),
    Program("Codex", "@openai/codex", "latest", "codex", _run_codex, _codex_steps, _CODEX_LINES, "[Responses](responses.md)"),
]
