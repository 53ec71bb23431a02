"""Anthropic's Messages API, for every model of the catalog: https://docs.anthropic.com/en/api/messages

A request is checked field by field and becomes a chat request. A field that has no equivalent there is refused by its name. To
a provider that has Messages itself, the gateway passes the caller's own blocks, and the caller gets the provider's: caching,
thinking and signatures arrive unchanged.

request      the body of a request as the body of a chat request
content      blocks of content as messages and parts
tools        the tools that a model may call: the caller's functions, and Anthropic's own
blocks       what a model said, as blocks: whole, and as the events of a stream
reply        whole replies, streams and errors
views        POST /v1/messages and POST /v1/messages/count_tokens
serializers  their shapes and those of their errors for OpenAPI
"""
