"""Which board of ours exists at which source, in its own words. OPEN_SOURCE is nobody's: it is GENERAL of open weights."""

from dataclasses import dataclass

from completions.models import Category

# Arena has no board for reasoning; hard prompts are the nearest it has.
ARENA = {
    Category.GENERAL: "overall",
    Category.CODING: "coding",
    Category.MATH: "math",
    Category.REASONING: "hard_prompts",
    Category.CREATIVE: "creative_writing",
}


@dataclass(frozen=True)
class HubBoard:
    """A benchmark on the Hub, on a scale of 0-100. A gated one answers only to a token whose owner accepted its terms."""

    dataset: str
    is_gated: bool = False


HUGGINGFACE = {
    Category.GENERAL: HubBoard("TIGER-Lab/MMLU-Pro"),
    Category.CODING: HubBoard("SWE-bench/SWE-bench_Verified"),
    Category.MATH: HubBoard("MathArena/aime_2026"),
    Category.REASONING: HubBoard("Idavidrein/gpqa", is_gated=True),
}

ARTIFICIAL_ANALYSIS = {
    Category.GENERAL: "artificial_analysis_intelligence_index",
    Category.CODING: "artificial_analysis_coding_index",
}

# None: of everything. The others are samples, and weekly.
OPENROUTER = {
    Category.GENERAL: None,
    Category.CODING: "programming",
    Category.CREATIVE: "roleplay",
}
