"""OpenAI's embeddings: https://platform.openai.com/docs/api-reference/embeddings

Numbers that stand for the meaning of texts. They go the way of completions, and are charged for the tokens of their inputs.

request      the body of a request
views        POST /v1/embeddings, and its reply, as numbers or in base64
serializers  its shapes for OpenAPI
"""
