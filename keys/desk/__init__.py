"""The part of keys in the support desk.

- ``search``    finds keys and refused requests
- ``forms``     what staff do with a key, each a form that does what it says
- ``sections``  spending, keys and refusals on an account's page
- ``panels``    refusals, on the home page
"""
