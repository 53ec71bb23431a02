"""Estimates before a reply: what it can cost, and how many tokens it may have. Pure; imports ``chat`` and ``pricing``.

- ``cost``          the worst case of a request, and token estimates
- ``token_budget``  how many tokens a request may generate
"""
