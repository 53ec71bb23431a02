"""The gateway, loaded in gunicorn's master: each worker then takes a third of the time to start.

In production each worker loads it, so that a reload brings up new code. Tests that need several workers, or another one after
each death, do not prove how workers load; gateways with ``deploy/gunicorn.conf.py`` and those with one worker do.
"""


def load() -> None:
    """Load the gateway in this master, before it forks a worker."""
    from gevent import monkey

    # Before any module of the gateway, as in a worker, but not what the master itself waits with. Workers patch the rest.
    monkey.patch_all(os=False, time=False, signal=False, subprocess=False)
    import django
    from django.conf import settings
    from django.utils.module_loading import import_string

    django.setup(set_prefix=False)
    import_string(f"{settings.ROOT_URLCONF}.urlpatterns")


def tell() -> None:
    """Make a file of metrics for this worker, as ``Gateway.loaded`` expects: those it inherited are the master's."""
    from gateway_project import metrics

    metrics.outbox_stored_total.inc(0)
