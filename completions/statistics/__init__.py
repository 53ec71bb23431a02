"""Sums of all completions of an hour or day: spending, speed, uptime, margins. May import ``models`` and ``pricing``.

- ``hours``         what the completions of each hour cost, and when their first tokens came
- ``measurements``  how often and how soon providers answered; what runs now
- ``uptime``        how many requests were answered, by hour and day, for the status page
- ``margins``       what providers cost and what was charged, by model and provider
"""
