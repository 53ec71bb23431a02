"""Pricing: what requests and usages cost, and how many tokens money pays for. Pure functions; imports only ``chat``.

- ``cost``          the worst case of a request, the cost of a usage, and token estimates
- ``token_budget``  how many tokens a request may generate
"""
