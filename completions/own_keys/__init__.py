"""Owners' pages of the account's own provider keys. ``charging.own_keys`` is what makes requests use them.

- ``pages``  /dashboard/settings/provider-keys/: the list, adding, changing and removing
- ``acts``   writes them under the lock of the account, and records who did
- ``check``  asks a provider whether it accepts a key, without a cost
"""
