"""What is replaced inside of libraries, so that a completion takes fewer calls of Python.

- ``django``, ``gunicorn``  what is replaced in each
"""
