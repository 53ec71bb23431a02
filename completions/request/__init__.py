"""The request body of POST /v1/chat/completions: JSON in, a checked ``ChatRequest`` out, or InvalidRequest about one field.

Owns the rules that hold for every model. Imports ``completions.chat`` and ``gateway_project`` only; the adapters in
``completions.providers`` rely on what is checked here, and refuse only what their own provider cannot do.

schema     the whole body
messages   the ``messages`` array: roles, parts, tool calls
media      media types and data URLs
prompt     which fields are part of the prompt, and the most tokens that they can be; which fields no provider gets
reasoning  whether a request asks for reasoning, and how much
serving    its service tier, what Anthropic is to cache, and what else OpenAI does beside writing the reply
remote_images  images that the gateway fetches
fields     readers of single fields, also for the adapters
"""
