"""What keys contribute to the support desk.

- ``search``  finds keys and refused requests
- ``panels``  refusals, on the home page
"""
