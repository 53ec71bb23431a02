"""What the project changes in gunicorn. ``deploy/gunicorn.conf.py`` installs it.

- ``bodies``     reads large and chunked bodies from gunicorn's socket, and discards those that nobody read
- ``internals``  what gunicorn does for every request, in fewer calls
- ``replies``    what gunicorn writes by itself, for bytes that are not an HTTP request
"""
