"""OpenAI's Responses: POST /v1/responses, and the responses that are stored.

request      a body in, a chat request out; and what of it the reply repeats
tools        the tools, as functions and custom tools of the chat request; and what calls of them are
items        the items of the input, as messages of the chat request
output       the items of the output: of a whole reply, and one after another as a stream's events
compaction   sums a conversation up, and continues from the summary
keeping      what is stored of a response
history      puts into a request the conversation and the items that it only names
background   responses that run when their request is answered
reply        whole replies and streams
views        POST /v1/responses; stored_views  what reads and deletes a stored response
serializers  their shapes, and those of the events of a stream, for OpenAPI
"""
