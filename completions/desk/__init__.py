"""The part of completions in the support desk.

- ``admin``   what completions add to the support pages of an account and of a key
- ``search``  finds completions
- ``panels``  spending, time to first token, routes, proposals and accounts near zero, on the home page; the latest completions
  and the monthly statements on an account's page
"""
