"""The network side of a completion, while its worker waits for an upstream. Imports no app and no other folder of this package.

- ``http``         the HTTP client for upstreams: pooled connections, deadlines, bounded responses
- ``disconnects``  detects that a peer has closed its connection
- ``draining``     ends the waits of a worker that is shutting down, early enough to settle
"""
