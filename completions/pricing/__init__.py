"""Prices: their rates, and what a usage costs at them. Pure; imports only ``billing.money`` and ``gateway_project.text``.

- ``meters``     the list of everything that is charged for
- ``usage``      the numbers of a reply
- ``rates``      a price as its rates by meter, service tier and length of the prompt; the cost of a usage
- ``rates_sql``  SQL that computes the same
"""
