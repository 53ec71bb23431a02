"""The gateway, loaded in gunicorn's master: a worker then starts in a fifth of the time.

In production each worker loads it, so that a reload brings up new code. Tests that need several workers, or another one after
each death, do not prove that: gateways with ``deploy/gunicorn.conf.py`` do, and those with one worker.
"""

import gc


def load() -> None:
    """Load the gateway in this master, before it forks a worker."""
    from gevent import monkey

    # Before any module of the gateway, as in a worker, but not what the master itself waits with. Workers patch the rest.
    monkey.patch_all(os=False, time=False, signal=False, subprocess=False)
    import django
    from django.core.checks import run_checks
    from django.core.handlers.wsgi import WSGIHandler

    django.setup(set_prefix=False)
    run_checks()  # which loads what serves any path. Each worker checks again, and has all of it
    WSGIHandler()  # which loads the middleware
    gc.freeze()  # the collectors of workers need not look at it


def tell() -> None:
    """Make a file of metrics for this worker, as ``Gateway.loaded`` expects: those it inherited are the master's."""
    from gateway_project import metrics

    metrics.outbox_stored_total.inc(0)
