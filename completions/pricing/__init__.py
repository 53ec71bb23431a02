"""Pricing: the rates of a price, and how much money a request may cost. Pure; imports only ``chat`` and ``billing.money``.

- ``meters``        the list of everything that is charged for
- ``rates``         a price as its rates by meter, service tier and length of the prompt; the cost of a usage
- ``rates_sql``     SQL that computes the same
- ``cost``          the worst case of a request, and token estimates
- ``token_budget``  how many tokens a request may generate
"""
