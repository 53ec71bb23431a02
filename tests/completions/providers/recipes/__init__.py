"""Servers as the pages of ``docs/providers/`` describe them: a module for each page, with the literal replies of its server."""

from tests.completions.providers.recipes import (
    azure,
    bedrock,
    deepseek,
    glm,
    kimi,
    llama_cpp,
    lm_studio,
    ollama,
    openrouter,
    qwen,
    sglang,
    vertex,
    vllm,
    xai,
)
from tests.completions.providers.recipes.imitation import Recipe

# The page -> the name of the provider in each of its TOML blocks -> what that server does.
PAGES: dict[str, dict[str, Recipe]] = {
    "azure": azure.RECIPES,
    "bedrock": bedrock.RECIPES,
    "deepseek": deepseek.RECIPES,
    "glm": glm.RECIPES,
    "kimi": kimi.RECIPES,
    "llama-cpp": llama_cpp.RECIPES,
    "lm-studio": lm_studio.RECIPES,
    "ollama": ollama.RECIPES,
    "openrouter": openrouter.RECIPES,
    "qwen": qwen.RECIPES,
    "sglang": sglang.RECIPES,
    "vertex": vertex.RECIPES,
    "vllm": vllm.RECIPES,
    "xai": xai.RECIPES,
}
