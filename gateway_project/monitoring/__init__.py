"""What operators watch: last runs of tasks, reports of running processes, and facts of the database in ``/metrics``.

A Django app of its own. The apps record their tasks here and declare facts in a module ``facts`` of their own,
as they declare invariants in ``audit``. So every process can show the facts of the whole, whichever process wrote them.

- ``models``           TaskRun, Process
- ``task_runs``        records that a periodic task ended, and with which result
- ``facts``            Fact and HostGauge: what the apps declare; the facts of this app
- ``readings``         a reading with a time limit, shared by all who ask within a few seconds
- ``collector``        the facts as Prometheus metrics, read when someone asks for ``/metrics``
- ``processes``        the regular report of each process: host, secrets by fingerprint, and what only its host can measure
- ``steps``            declares which functions a trace shows
- ``rotation``         finds a secret that one process uses and another does not have
- ``checks``           W009 for that
- ``background``       starts the reports of worker and beat, and the worker's endpoint
- ``worker_endpoint``  ``/metrics`` at an address of the worker
"""
