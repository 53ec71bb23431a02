"""Budgets that many requests share. Holds count on them as on the spending limit of a key, under the lock of the account.

- ``shared``    a budget while a batch decides: what is left, and the refusal
- ``runs``      the budget of a run, which its first request decides in headers
- ``monthly``   budgets of an account, a tag of keys or a member's keys in a calendar month, which owners set
- ``counts``    the SQL that counts holds and charges on both, and writes alerts at 80 % and at 100 %

No request waits for their rows: all that hold or settle money of an account hold its lock. A completion has the name of its run
and the ids of its monthly budgets in its row. So it is settled where it was admitted, whatever has changed since.
"""
