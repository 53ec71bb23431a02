"""What the project changes in gunicorn. ``deploy/gunicorn.conf.py`` installs it.

- ``bodies``     takes bodies that came with their head, reads large and chunked ones from gunicorn's socket, and discards those
  that nobody read
- ``master``     the master process, which keeps workers that serve
- ``replies``    what gunicorn writes by itself, for bytes that are not an HTTP request
"""
