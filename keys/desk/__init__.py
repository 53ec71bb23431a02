"""The part of keys in the support desk.

- ``search``    finds keys and refused requests
- ``forms``     forms of the acts on a key
- ``sections``  spending, keys and refusals on an account's page
- ``panels``    refusals, on the home page
"""
