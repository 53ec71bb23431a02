"""OpenAI's Responses: the API with which its models continue with their reasoning. A route's ``api`` says so.

POST {base_url}/responses; a stream is server-sent events that end with response.completed. Nothing is stored there: what the
model reasoned comes encrypted, and is sent back. ``request`` and ``response`` are as in each format, ``items`` translates
messages.
"""
