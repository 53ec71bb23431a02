"""Connections to and from other hosts. Imports no app and no other folder of this package.

- ``addresses``    which addresses both HTTP clients may connect to

For completions, while their worker waits for a provider:

- ``http``         the HTTP client for providers: pooled connections, deadlines, bounded responses
- ``geventhttp``   what is changed in its library, geventhttpclient
- ``sockets``      sends without waiting where the kernel has room, and receives without looking first
- ``disconnects``  detects that a peer has closed its connection
- ``draining``     ends the waits of a worker that is shutting down, early enough to settle

For background work, where no caller waits:

- ``background_http``  the HTTP client for lists of providers and sources of rankings: bounded, with retries
"""
