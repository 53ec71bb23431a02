"""Anthropic's Messages API, for every model of the catalog: https://docs.anthropic.com/en/api/messages

A request is checked field by field, and becomes the request that chat completions have. What cannot be said in that is refused,
by the name of the field. A provider that speaks Messages itself gets the caller's own words, and so does the caller: nothing of
its caching, thinking and signatures is lost in between.

request      the body of a request as the body of a chat request
content      blocks of content as messages and parts
tools        the tools that a model may call: the caller's functions, and Anthropic's own
places       which field of the caller's each field of the chat request comes from, for errors
blocks       what a model said, as blocks: whole, and as the events of a stream
reply        whole replies, streams and errors
rate_limits  headers about the limits of a key
views        POST /v1/messages and POST /v1/messages/count_tokens
model_list   GET /v1/models in Anthropic's shape
serializers  their shapes for OpenAPI
openapi      the shape of their errors
"""
