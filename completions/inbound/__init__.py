"""The languages in which callers ask for completions, and the way through the gateway that all of them share.

Each language is translated to the request that chat completions have, and its replies and errors are written back in its own
words. Admission, hold, settlement, limits, routes and fallbacks are those of every completion.

completion_view  the way of a request, from its bytes to its reply
caller_errors    errors in the names of the caller's own fields, in each language
tool_names       names of tools as providers take them
events           server-sent events that have a name
descriptions     what OpenAPI says of all endpoints
request_fields   what OpenAPI says of fields that several languages have
runs             what a run may spend, and has spent
quotes           what a request would cost, and how many tokens its prompt is likely to have
usage_export     the usage of a key or an account as records to book
chat_completions OpenAI's chat completions, quotes and usage
model_lists      the models, in the shapes of OpenAI and Anthropic
messages         Anthropic's Messages
responses        OpenAI's Responses
embeddings       OpenAI's embeddings
openrouter       what OpenRouter's clients ask beside completions: their key, and what happened to a completion
"""
