"""A pytest plugin that adds one line to the list of meters, before anything reads it: audio in the prompt has its own rate."""

import importlib.util
import sys
from pathlib import Path

import completions.pricing

LINE = """
    Meter("audio_input", "Audio input", "audio input tokens", "audio_tokens", part_of="input",
        spellings=("prompt_tokens_details.audio_tokens",), explanation="Tokens of sounds in the prompt."),"""
NAME, END = "completions.pricing.meters", "\n)\nBY_NAME"

spec = importlib.util.find_spec(NAME)
assert spec
source = Path(str(spec.origin)).read_text()
assert source.count(END) == 1
meters = importlib.util.module_from_spec(spec)
sys.modules[NAME] = vars(completions.pricing)["meters"] = meters
exec(compile(source.replace(END, LINE + END), str(spec.origin), "exec"), meters.__dict__)
