"""The part of keys in the support desk.

- ``search``  finds keys and refused requests
- ``forms``   what staff do with a key, each a form that does what it says
- ``panels``  refusals, on the home page; spending, keys and refusals on an account's page
"""
