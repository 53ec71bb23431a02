"""Monitoring: last runs of tasks, reports of running processes, and facts of the database in ``/metrics``.

A Django app of its own. The apps record their tasks here and declare facts in their ``apps``,
as they declare invariants in ``audit``. So every process can show the facts of the whole, whichever process wrote them.

- ``models``      TaskRun, Process
- ``facts``       Fact and HostGauge: what the apps declare; the facts of this app
- ``collector``   the facts as Prometheus metrics, read when someone asks for ``/metrics``, within a time limit
- ``processes``   the regular report of each process: host, secrets by fingerprint, and what only its host can measure; W009
- ``steps``       declares which functions a trace shows
- ``background``  starts the reports of worker and beat, and the worker's ``/metrics``
"""
