"""What programs written for OpenRouter ask beside completions, in the shapes that they read.

key         what a key has used and may use
generation  what happened to a completion
views       the endpoints
serializers their shapes, for the OpenAPI description
"""
