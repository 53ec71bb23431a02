"""The programs: what is installed of each, how it is told of the gateway, and the steps of the task with its tools."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.agents.upstream import DONE, Step

TASK = "In notes.txt, replace the word one by two. Then count the words of the file with wc, and with the tool of notes."
MCP = Path(__file__).with_name("mcp.py")
TEXT = "one word"
_SECONDS_MAX = 180
_CHAT, _OPENROUTER = "[Chat completions](completions.md)", "[OpenRouter's dialect](openrouter.md)"


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
    is_python: bool = False  # its registry is PyPI, and not npm's
    edit: str = ""  # what the model says to a program without tools: the whole task
    beside: tuple[str, ...] = ()  # packages that are installed with it
    is_recorded: bool = True  # False: what it sends names what the gateway stored before

    @property
    def keeps_reasoning(self) -> bool:
        """Whether it sends all reasoning back. In chat completions only clients of OpenRouter's do."""
        return self.page != _CHAT

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


def install(program: Program, folder: Path) -> str:
    """Install a release. Return why it cannot be had, or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    if program.is_python:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        command = [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", program.package]
        command += program.beside
    elif shutil.which("npm"):
        (folder / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--foreground-scripts", f"{program.package}@{program.release}"]
        command += program.beside
    else:
        return "npm is not installed"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode or (program.binary and not program.executable(folder).exists()):
        return f"{program.package}@{program.release} cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
    return ""


def _execute(
    program: Program, installed: Path, folder: Path, arguments: list[str], environ: dict[str, str], binary: str = ""
) -> "Done":
    """Run a program in a folder, with a home of its own there: none of the user's settings and credentials reach it."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    given = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb", **environ}
    command = [binary or str(program.executable(installed)), *arguments]
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
    """Return the steps of a release that defers the tools of MCP servers until it has searched for them."""
    *others, counted = _undeferred_steps(folder, model)
    return [*others, Step("ToolSearch", {"query": f"select:{counted.name}", "max_results": 1}), counted]


def _undeferred_steps(folder: Path, model: str) -> list[Step]:
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

`web_search` is off because that tool runs at OpenAI, and Codex does not say how often it may, as a request for
[searches](responses.md#tools) must."""


def _no_steps(folder: Path, model: str) -> list[Step]:
    return []


def _claude_code(release: str) -> Program:
    package, page = "@anthropic-ai/claude-code", "[Messages](messages.md)"
    steps = _claude_code_steps if release == "latest" else _undeferred_steps
    return Program("Claude Code", package, release, "claude", _run_claude_code, steps, _CLAUDE_CODE_LINES, page)


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


# --- The AI SDK -------------------------------------------------------------------------------------------------------


def _run_ai_sdk(program: Program, installed: Path, folder: Path, gateway: Gateway) -> Done:
    script = shutil.copy(Path(__file__).with_name("ai_sdk.mjs"), installed)  # beside its modules
    provider = program.package if program.package != "ai" else "@ai-sdk/openai"
    arguments = [str(script), gateway.model, TASK, provider]
    return _execute(program, installed, folder, arguments, _openrouter_environ(gateway), binary="node")


_AI_SDK_LINES = """\
Vercel's `ai` with `@ai-sdk/openai`:

```js
const openai = createOpenAI({ baseURL: "http://127.0.0.1:8000/v1", apiKey: process.env.GATEWAY_API_KEY });
await generateText({ model: openai("demo/echo"), prompt: "Hello" });
```

After each step with tools it names the items of the steps before, instead of sending them: the gateway [stores](responses.md)
them. With `providerOptions: { openai: { store: false } }` it sends them."""


# --- opencode ---------------------------------------------------------------------------------------------------------

_OPENCODE_CONFIG = """\
{{
  "$schema": "https://opencode.ai/config.json",
  "model": "gateway/{model}",
  "provider": {{
    "gateway": {{
      "npm": "@ai-sdk/openai-compatible",
      "name": "Model Gateway",
      "options": {{"baseURL": "{url}/v1", "apiKey": "{{env:GATEWAY_API_KEY}}"}},
      "models": {{"{model}": {{"limit": {{"context": 128000, "output": 4096}}}}}}
    }}
  }}
}}
"""


def _run_opencode(program: Program, installed: Path, folder: Path, gateway: Gateway) -> Done:
    config = json.loads(_OPENCODE_CONFIG.format(model=gateway.model, url=gateway.url))
    server = {"type": "local", "command": [sys.executable, str(MCP)]}
    path = folder.parent / "opencode.json"
    path.write_text(json.dumps({**config, "mcp": {"notes": server}, "autoupdate": False}))
    environ = {"GATEWAY_API_KEY": gateway.secret, "OPENCODE_CONFIG": str(path), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return _execute(program, installed, folder, ["run", "--auto", TASK], environ)


def _opencode_steps(folder: Path, model: str) -> list[Step]:
    notes = str(folder / "notes.txt")
    patch = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-one word\n+two word\n*** End Patch"
    edit = Step("edit", {"filePath": notes, "oldString": "one", "newString": "two"})
    return [
        Step("read", {"filePath": notes}),
        Step("apply_patch", {"patchText": patch}) if "gpt-5" in model else edit,
        Step("bash", {"command": "wc -w < notes.txt > count.txt", "description": "Count the words"}),
        Step("notes_count_words", {"text": TEXT}),
    ]


_OPENCODE_LINES = f"""\
In `opencode.json`, with the key in `GATEWAY_API_KEY`:

```json
{_OPENCODE_CONFIG.format(model="demo/echo", url="http://127.0.0.1:8000").rstrip()}
```

`models` lists the ids and aliases to choose from, each with its `context_window` and `max_output_tokens` of
[`GET /v1/models`](models.md): without them opencode asks for 32,000 tokens, which not every model generates."""


# --- aider ------------------------------------------------------------------------------------------------------------


def _run_aider(program: Program, installed: Path, folder: Path, gateway: Gateway) -> Done:
    environ = {"OPENAI_API_BASE": f"{gateway.url}/v1", "OPENAI_API_KEY": gateway.secret, "AIDER_ANALYTICS": "false"}
    quiet = ["--no-git", "--yes-always", "--no-check-update", "--no-show-model-warnings", "--no-show-release-notes"]
    arguments = ["--model", f"openai/{gateway.model}", "--edit-format", "diff", *quiet, "--message", TASK, "notes.txt"]
    return _execute(program, installed, folder, arguments, environ)


_AIDER_EDIT = f"""\
notes.txt
```
<<<<<<< SEARCH
{TEXT}
=======
two word
>>>>>>> REPLACE
```

{DONE}"""
_AIDER_LINES = """\
```sh
export OPENAI_API_BASE=http://127.0.0.1:8000/v1
export OPENAI_API_KEY=mgw_live_...
aider --model openai/demo/echo
```

It knows neither tools nor MCP: the model writes its edits as text. So the task is the edit alone."""


# --- llm --------------------------------------------------------------------------------------------------------------

_LLM_CONFIG = """\
- model_id: gateway
  model_name: {model}
  api_base: {url}/v1
  api_key_name: gateway
  supports_tools: true
"""


def _run_llm(program: Program, installed: Path, folder: Path, gateway: Gateway) -> Done:
    home = folder.parent / "llm"
    home.mkdir(exist_ok=True)
    (home / "extra-openai-models.yaml").write_text(_LLM_CONFIG.format(model=gateway.model, url=gateway.url))
    (home / "keys.json").write_text(json.dumps({"gateway": gateway.secret}))
    functions = str(Path(__file__).with_name("functions.py"))
    return _execute(
        program,
        installed,
        folder,
        ["-m", "gateway", "--functions", functions, "--chain-limit", "10", TASK],
        {"LLM_USER_PATH": str(home)},
    )


def _llm_steps(folder: Path, model: str) -> list[Step]:
    read, _, count, tool = _tool_runner_steps(folder, model)
    return [read, Step("edit_file", {"path": "notes.txt", "before": "one", "after": "two"}), count, tool]


# --- OpenRouter's SDKs ------------------------------------------------------------------------------------------------


def _run_openrouter(program: Program, installed: Path, folder: Path, gateway: Gateway) -> Done:
    script = shutil.copy(Path(__file__).with_name("openrouter.mjs"), installed)  # beside its modules
    return _execute(program, installed, folder, [str(script), gateway.model, TASK], _openrouter_environ(gateway), binary="node")


def _run_openrouter_in_python(program: Program, installed: Path, folder: Path, gateway: Gateway) -> Done:
    script = "openrouter_sdk.py" if program.package == "openrouter" else "openrouter_pydantic.py"
    arguments = [str(Path(__file__).with_name(script)), gateway.model, TASK]
    return _execute(program, installed, folder, arguments, _openrouter_environ(gateway), binary=str(installed / "bin/python"))


def _openrouter_environ(gateway: Gateway) -> dict[str, str]:
    return {"GATEWAY_URL": f"{gateway.url}/v1", "GATEWAY_API_KEY": gateway.secret}


_OPENROUTER_LINES = """\
`@openrouter/sdk` of npm and `openrouter` of PyPI, with another base URL and another key:

```js
const client = new OpenRouter({ serverURL: "http://127.0.0.1:8000/v1", apiKey: process.env.GATEWAY_API_KEY });
```

```python
client = OpenRouter(server_url="http://127.0.0.1:8000/v1", api_key=os.environ["GATEWAY_API_KEY"])
```

They also list the models, ask for the key, and for what the reply cost."""
_OPENROUTER_AI_SDK_LINES = """\
`@openrouter/ai-sdk-provider` of npm. A stream ends with its usage, which it does not ask for:

```js
const openrouter = createOpenRouter({ baseURL: "http://127.0.0.1:8000/v1", apiKey: process.env.GATEWAY_API_KEY });
await generateText({ model: openrouter("demo/echo"), prompt: "Hello" });
```"""
_PYDANTIC_LINES = """\
`OpenRouterModel`, whole and streamed:

```python
client = AsyncOpenAI(base_url="http://127.0.0.1:8000/v1", api_key=os.environ["GATEWAY_API_KEY"])
agent = Agent(OpenRouterModel("demo/echo", provider=OpenRouterProvider(openai_client=client)))
```"""


_LLM_LINES = f"""\
In `extra-openai-models.yaml`, in the folder that `llm logs path` names:

```yaml
{_LLM_CONFIG.format(model="demo/echo", url="http://127.0.0.1:8000").rstrip()}
```

```sh
llm keys set gateway
llm -m gateway "Hello"
```

Its tools are functions in Python, given with `--functions`; it has no MCP. It stops after five replies, unless
`--chain-limit` says more."""


# Claude Code since 2.1.3 defers tools: both ways of it are tried.
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
    Program(
        *("AI SDK", "ai", "latest", "", _run_ai_sdk, _tool_runner_steps, _AI_SDK_LINES, "[Responses](responses.md)"),
        beside=("@ai-sdk/openai@latest",),
        is_recorded=False,
    ),
    Program("opencode", "opencode-ai", "latest", "opencode", _run_opencode, _opencode_steps, _OPENCODE_LINES, _CHAT),
    Program(
        *("aider", "aider-chat", "latest", "aider", _run_aider, _no_steps, _AIDER_LINES, _CHAT),
        is_python=True,
        edit=_AIDER_EDIT,
    ),
    Program("llm", "llm", "latest", "llm", _run_llm, _llm_steps, _LLM_LINES, _CHAT, is_python=True),
    Program(
        *("OpenRouter SDK", "@openrouter/sdk", "latest", "", _run_openrouter, _tool_runner_steps, _OPENROUTER_LINES),
        _OPENROUTER,
    ),
    Program(
        *("OpenRouter SDK", "openrouter", "latest", "", _run_openrouter_in_python, _llm_steps, _OPENROUTER_LINES),
        _OPENROUTER,
        is_python=True,
    ),
    Program(
        *("AI SDK with OpenRouter's provider", "@openrouter/ai-sdk-provider", "latest", "", _run_ai_sdk, _tool_runner_steps),
        *(_OPENROUTER_AI_SDK_LINES, _OPENROUTER),
        beside=("ai@latest",),
    ),
    Program(
        *("Pydantic AI", "pydantic-ai-slim", "latest", "", _run_openrouter_in_python, _llm_steps, _PYDANTIC_LINES, _OPENROUTER),
        is_python=True,
        beside=("pydantic-ai-slim[openai]",),
    ),
]
