"""The project's changes of gunicorn. ``deploy/gunicorn.conf.py`` names the classes.

- ``bodies``   takes bodies that came with their head, reads large and chunked ones from the socket, and discards the rest
- ``master``   the master process, which keeps workers that serve
- ``replies``  how a worker sends replies, and errors for bytes that are not an HTTP request
"""
