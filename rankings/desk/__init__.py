"""What the rankings contribute to the support desk.

- ``panels``  stale sources and names that mean no model yet, on the home page
"""
