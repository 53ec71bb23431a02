"""Filters for templates of all apps."""
