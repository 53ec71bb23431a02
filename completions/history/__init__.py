"""The past requests of an account for its members: a list, what each one cost and why, and months.

- ``pages``                 the pages of the list, with its filters, and of one request
- ``runs``                  the pages of runs
- ``monthly_statement``     what a month changed, by type and model, to print; its number
- ``files``                 the list as a CSV file
- ``reading``               reads a page of the list, as fast with millions of completions
- ``explanation``           a charge line by line, two side by side, and how each was settled, in words
"""
