"""The past requests of an account for its members: a list with filters, and what each one cost and why.

- ``page_urls``, ``pages``  the paths and their pages
- ``forms``                 the filters of the list
- ``reading``               reads a page of the list, as fast with millions of completions
- ``explanation``           a charge line by line, and how it was settled, in words
"""
