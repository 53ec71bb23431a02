"""pydantic-ai's OpenRouterModel with tools, then streamed, through a gateway: python openrouter_pydantic.py MODEL TASK."""

import asyncio
import os
import sys

import functions  # type: ignore[import-not-found]  # beside it
from openai import AsyncOpenAI  # type: ignore[import-not-found,unused-ignore]  # installed by the bench
from pydantic_ai import Agent  # type: ignore[import-not-found]  # likewise
from pydantic_ai.models.openrouter import OpenRouterModel  # type: ignore[import-not-found]
from pydantic_ai.providers.openrouter import OpenRouterProvider  # type: ignore[import-not-found]


async def main() -> None:
    name, content = sys.argv[1:3]
    client = AsyncOpenAI(base_url=os.environ["GATEWAY_URL"], api_key=os.environ["GATEWAY_API_KEY"])
    model = OpenRouterModel(name, provider=OpenRouterProvider(openai_client=client))
    tools = [functions.read_file, functions.edit_file, functions.run_command, functions.count_words]
    agent = Agent(model, tools=tools, model_settings={"openrouter_reasoning": {"effort": "low"}})
    done = await agent.run(content)
    sys.stdout.write(done.output)
    async with agent.run_stream(message_history=done.all_messages()[:-1]) as streamed:  # the last step again
        await streamed.get_output()
    assert streamed.usage.output_tokens > 0, streamed.usage


asyncio.run(main())
