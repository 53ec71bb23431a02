"""`make agents`: coding agents, as they are shipped today, solve a task through a gateway. Installs them from their registries.

    .venv/bin/python -m bench.agents [PROGRAM]

It needs npm, pip and the network. It writes docs/api/agents.md, and tests/completions/inbound/recorded/ with what the programs
sent, which the tests replay.

programs  what is installed, how each is told of the gateway, and the task
upstream  a provider of each kind, with models.toml, which has the programs do the task step by step, and refuses as real ones
recorder  a proxy that keeps what a program sends, and cuts it to what matters
page      the table of the documentation
mcp       an MCP server with one tool
functions  the tools of the task as functions, for a program without tools of its own
"""
