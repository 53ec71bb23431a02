"""The limits of a key: money per period, requests and tokens per minute, requests in flight.

Owns the decision on each limit, in Python and in the SQL of the admission, and what a process remembers of limits and refusals.
May import ``keys.models``, ``billing`` and ``gateway_project``. In reading order:

- ``allowance``           an amount, and what is spent and held of it
- ``spending``            spending limits: the window of a limit, reserve at admission, settle afterwards
- ``limit_marks``         alerts when 80 % or 100 % of a limit, a run or a monthly budget is spent, or a refusal reaches it
- ``gcra``                the rate-limit algorithm over one timestamp; pure
- ``rate_limits``         requests and tokens per minute: which limits apply, count a request, refuse it, report headers
- ``requests_in_flight``  the maximum of a key and of its account, refuse one more, report headers
- ``limit_state_cache``   the last-read limit state of each key, for replies that do not read its row
- ``reads``               requests for anything but a new completion: per minute, and how many are in flight
- ``refusal_cache``       recent refusals, replayed from memory while a client floods the gateway
"""
