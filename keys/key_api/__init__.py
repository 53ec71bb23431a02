"""``/api/keys``: programs make, read, change, pause, rotate and revoke the keys of an account, by a management key.

- ``authentication``  ``Authorization: Bearer <management key>`` -> the key and its account; counts its requests
- ``request_fields``  what a request may set, with the bounds of each field
- ``key_object``      a key as replies show it
- ``idempotency``     repeats the reply to a POST under the same Idempotency-Key
- ``views``           the endpoints; ``urls`` are their addresses
"""
