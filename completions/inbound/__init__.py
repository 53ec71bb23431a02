"""The way of a completion through the gateway, which every language that callers speak shares.

Each language is translated to the request that chat completions have, and its replies and errors are written back in its own
words. Admission, hold, settlement, limits, routes and fallbacks are those of every completion.

completion_view  the way of a request, from its bytes to its reply
"""
