"""Filters and tags for templates of all apps."""
