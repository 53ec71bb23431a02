"""Tools for llm: python functions, one for each step of the task."""

import subprocess
from pathlib import Path


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text()


def edit_file(path: str, before: str, after: str) -> str:
    """Replaces a text in a file."""
    Path(path).write_text(Path(path).read_text().replace(before, after))
    return "done"


def run_command(command: str) -> str:
    """Runs a command in the shell."""
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


def count_words(text: str) -> str:
    """Counts the words of a text."""
    return f"{len(text.split())} words"
