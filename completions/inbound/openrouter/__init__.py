"""Endpoints for programs written for OpenRouter, beside completions, in the shapes that they read.

views       the endpoints, and their replies: what a key has used and may use, and what happened to a completion
serializers their shapes, for the OpenAPI description
"""
