"""What completions contribute to the support desk.

- ``search``    finds completions
- ``sections``  the latest completions on an account's page
- ``known_models``  which models there are, for those who restrict a key to some
- ``panels``    spending, time to first token, routes, proposals and accounts near zero, on the home page
"""
