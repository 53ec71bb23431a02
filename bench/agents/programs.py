"""The programs: what is installed of each, how it is told of the gateway, and the steps of the task with its tools."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.agents import page
from bench.agents.upstream import DONE, Step

HERE = Path(__file__).parent
TEXT = "one word"
_SECONDS_MAX = 180
_MESSAGES, _RESPONSES, _CHAT = "[Messages](messages.md)", "[Responses](responses.md)", "[Chat completions](completions.md)"
_OPENROUTER = "[OpenRouter's dialect](openrouter.md)"
_NOTES_SERVER = [sys.executable, str(HERE / "mcp.py")]  # the MCP server


@dataclass(frozen=True)
class Work:
    """Where a program is installed and works, the address, a key and a model of the gateway, and headers of each request."""

    installed: Path
    folder: Path
    url: str
    secret: str
    model: str
    headers: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the program's settings, in a folder beside the one that it works in."""
        path = self.folder.parent / "settings" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def told(self, heading: str) -> str:
        """Return the settings under a heading of the page, for this gateway and model."""
        return page.block(heading).replace("http://127.0.0.1:8000", self.url).replace("demo/echo", self.model)


Started = tuple[list[str], dict[str, str]]  # the arguments and the environment


@dataclass(frozen=True)
class Program:
    name: str  # the heading of its section in the page
    package: str
    speaks: str
    steps: Callable[[Path, str], list[Step]]  # for a folder and a model
    started: Callable[["Program", Work], Started]
    binary: str = ""
    script: str = ""  # of this folder, for a package without a program
    release: str = "latest"
    is_python: bool = False  # its registry is PyPI, and not npm's
    edit: str = ""  # what the model says to a program without tools: the whole task
    beside: tuple[str, ...] = ()  # packages that are installed with it
    is_recorded: bool = True  # False: what it sends names what the gateway stored before

    @property
    def keeps_reasoning(self) -> bool:
        """Whether it sends all reasoning back. In chat completions only clients of OpenRouter's do."""
        return self.speaks != _CHAT

    @property
    def folder(self) -> str:
        """The name of the folder that it is installed in."""
        return f"{self.binary or self.package.lstrip('@').replace('/', '-')}-{self.release}"

    def executable(self, installed: Path) -> Path:
        return installed / ("bin" if self.is_python else "node_modules/.bin") / self.binary

    def version(self, installed: Path) -> str:
        if self.is_python:
            [found] = installed.glob(f"lib/*/site-packages/{self.package.replace('-', '_')}-*.dist-info")
            return found.name.removesuffix(".dist-info").rpartition("-")[2]
        return str(json.loads((installed / "node_modules" / self.package / "package.json").read_text())["version"])

    def run(self, work: Work) -> "subprocess.CompletedProcess[str]":
        """Let it do the task. Raises subprocess.TimeoutExpired."""
        arguments, environ = self.started(self, work)
        command = arguments if self.script else [str(self.executable(work.installed)), *arguments]
        home = work.folder.parent / "home"
        home.mkdir(exist_ok=True)
        environ = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb", **environ}
        return subprocess.run(
            command,
            cwd=work.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS_MAX,
        )


def install(program: Program, folder: Path) -> str:
    """Install a release. Return why it cannot be had, or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    if program.is_python:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        command = [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", program.package]
    elif shutil.which("npm"):
        (folder / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--foreground-scripts", f"{program.package}@{program.release}"]
    else:
        return "npm is not installed"
    done = subprocess.run([*command, *program.beside], cwd=folder, capture_output=True, text=True)
    if done.returncode or (program.binary and not program.executable(folder).exists()):
        return f"{program.package}@{program.release} cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
    return ""


# --- How each is told of the gateway ----------------------------------------------------------------------------------


def _script(program: Program, work: Work) -> Started:
    """A script of this folder, with the package's own Python, or beside the package's modules."""
    interpreter, script = "node", HERE / program.script
    if program.is_python:
        interpreter = str(work.installed / "bin/python")
    else:
        script = Path(shutil.copy(script, work.installed))
    environ = {"GATEWAY_URL": f"{work.url}/v1", "GATEWAY_API_KEY": work.secret}
    environ |= {"ANTHROPIC_BASE_URL": work.url, "ANTHROPIC_API_KEY": work.secret}
    return [interpreter, str(script), work.model, page.task(), program.package], environ


def _claude_code(program: Program, work: Work) -> Started:
    servers = {"mcpServers": {"notes": {"command": _NOTES_SERVER[0], "args": _NOTES_SERVER[1:]}}}
    environ = {
        "ANTHROPIC_BASE_URL": work.url,
        "ANTHROPIC_API_KEY": work.secret,
        "ANTHROPIC_MODEL": work.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": work.model,
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",  # it may run as root
        "ANTHROPIC_CUSTOM_HEADERS": "\n".join(f"{name}: {value}" for name, value in work.headers.items()),
    }
    options = ["--mcp-config", json.dumps(servers), "--dangerously-skip-permissions", "--output-format", "text"]
    return ["-p", page.task(), *options], environ


def _codex(program: Program, work: Work) -> Started:
    server = f"\n[mcp_servers.notes]\ncommand = {json.dumps(_NOTES_SERVER[0])}\nargs = {json.dumps(_NOTES_SERVER[1:])}\n"
    headers = ", ".join(f'"{name}" = "{value}"' for name, value in work.headers.items())
    home = work.write("config.toml", f"{work.told('Codex')}http_headers = {{ {headers} }}\n{server}").parent
    environ = {"OPENAI_API_KEY": work.secret, "CODEX_HOME": str(home)}
    return ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", page.task()], environ


def _opencode(program: Program, work: Work) -> Started:
    text = work.told("opencode").replace("4096", "20" if work.headers else "4096")  # as models.toml has it of a run's model
    config = json.loads(text) | {"mcp": {"notes": {"type": "local", "command": _NOTES_SERVER}}, "autoupdate": False}
    config["provider"]["gateway"]["options"]["headers"] = work.headers
    path = work.write("opencode.json", json.dumps(config))
    environ = {"GATEWAY_API_KEY": work.secret, "OPENCODE_CONFIG": str(path), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return ["run", "--auto", page.task()], environ


def _aider(program: Program, work: Work) -> Started:
    environ = {"OPENAI_API_BASE": f"{work.url}/v1", "OPENAI_API_KEY": work.secret, "AIDER_ANALYTICS": "false"}
    quiet = ["--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings", "--no-show-release-notes"]
    arguments = ["--model", f"openai/{work.model}", "--edit-format", "diff", *quiet, "--message", page.task(), "notes.txt"]
    return arguments, environ


def _llm(program: Program, work: Work) -> Started:
    work.write("extra-openai-models.yaml", work.told("llm"))
    home = work.write("keys.json", json.dumps({"gateway": work.secret})).parent
    options = ["--functions", str(HERE / "functions.py"), "--chain-limit", "10"]
    return ["-m", "gateway", *options, page.task()], {"LLM_USER_PATH": str(home)}


# --- The steps of the task, with the tools of each --------------------------------------------------------------------

_COUNT = "wc -w < notes.txt > count.txt"
_PATCH = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-one word\n+two word\n*** End Patch"
_AIDER_EDIT = f"notes.txt\n```\n<<<<<<< SEARCH\n{TEXT}\n=======\ntwo word\n>>>>>>> REPLACE\n```\n\n{DONE}"


def _steps_of_scripts(folder: Path, model: str, names: tuple[str, str] = ("from", "to")) -> list[Step]:
    return [
        Step("read_file", {"path": "notes.txt"}),
        Step("edit_file", {"path": "notes.txt", **dict(zip(names, ("one", "two"), strict=True))}),
        Step("run_command", {"command": _COUNT}),
        Step("count_words", {"text": TEXT}),
    ]


def _steps_of_claude_code(folder: Path, model: str) -> list[Step]:
    """Return the steps of a release that defers the tools of MCP servers until it has searched for them."""
    *others, counted = _undeferred_steps(folder, model)
    return [*others, Step("ToolSearch", {"query": f"select:{counted.name}", "max_results": 1}), counted]


def _undeferred_steps(folder: Path, model: str) -> list[Step]:
    notes = str(folder / "notes.txt")
    return [
        Step("Read", {"file_path": notes}),
        Step("Edit", {"file_path": notes, "old_string": "one", "new_string": "two"}),
        Step("Bash", {"command": _COUNT, "description": "Count the words"}),
        Step("mcp__notes__count_words", {"text": TEXT}),
    ]


def _steps_of_codex(folder: Path, model: str) -> list[Step]:
    read, count = (Step("exec_command", {"cmd": command}) for command in ("cat notes.txt", _COUNT))
    tool = Step("mcp__notes__count_words", {"text": TEXT})
    if "gpt-5.5" not in model:  # a model that Codex does not know: it edits in the shell
        return [read, Step("exec_command", {"cmd": "sed -i s/one/two/ notes.txt"}), count, tool]
    patch = Step("apply_patch", text=f"{_PATCH}\n")
    return [read, patch, count, Step("tool_search", {"query": "count words"}), tool]


def _steps_of_opencode(folder: Path, model: str) -> list[Step]:
    notes = str(folder / "notes.txt")
    patch = Step("apply_patch", {"patchText": _PATCH})
    edit = Step("edit", {"filePath": notes, "oldString": "one", "newString": "two"})
    return [
        Step("read", {"filePath": notes}),
        patch if "gpt-5" in model else edit,
        Step("bash", {"command": _COUNT, "description": "Count the words"}),
        Step("notes_count_words", {"text": TEXT}),
    ]


# Claude Code since 2.1.3 defers tools: both ways of it are tried.
_CLAUDE = ("Claude Code", "@anthropic-ai/claude-code", _MESSAGES)
_OPENROUTER_SDK, _OPENROUTER_AI_SDK = "OpenRouter SDK", "AI SDK with OpenRouter's provider"
_steps_of_functions = partial(_steps_of_scripts, names=("before", "after"))
_SCRIPT, _FUNCTIONS = (_steps_of_scripts, _script), (_steps_of_functions, _script)
PROGRAMS = [
    Program(*_CLAUDE, _steps_of_claude_code, _claude_code, "claude"),
    Program(*_CLAUDE, _undeferred_steps, _claude_code, "claude", release="2.1.197"),
    Program("Tool runner", "@anthropic-ai/sdk", _MESSAGES, *_SCRIPT, "anthropic-ai-sdk", "tool_runner.mjs"),
    Program("Codex", "@openai/codex", _RESPONSES, _steps_of_codex, _codex, "codex"),
    Program("AI SDK", "ai", _RESPONSES, *_SCRIPT, script="ai_sdk.mjs", beside=("@ai-sdk/openai@latest",), is_recorded=False),
    Program("opencode", "opencode-ai", _CHAT, _steps_of_opencode, _opencode, "opencode"),
    Program("aider", "aider-chat", _CHAT, lambda folder, model: [], _aider, "aider", is_python=True, edit=_AIDER_EDIT),
    Program("llm", "llm", _CHAT, _steps_of_functions, _llm, "llm", is_python=True),
    Program(_OPENROUTER_SDK, "@openrouter/sdk", _OPENROUTER, *_SCRIPT, script="openrouter.mjs"),
    Program(_OPENROUTER_SDK, "openrouter", _OPENROUTER, *_FUNCTIONS, script="openrouter_sdk.py", is_python=True),
    Program(
        *(_OPENROUTER_AI_SDK, "@openrouter/ai-sdk-provider", _OPENROUTER, *_SCRIPT), script="ai_sdk.mjs", beside=("ai@latest",)
    ),
    Program(
        *("Pydantic AI", "pydantic-ai-slim", _OPENROUTER, *_FUNCTIONS),
        script="openrouter_pydantic.py",
        is_python=True,
        beside=("pydantic-ai-slim[openai]",),
    ),
]
