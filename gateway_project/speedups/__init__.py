"""The replaced insides of libraries, so that a completion takes fewer calls of Python. No other package replaces anything.

A library has one module: its ``SPEEDUPS`` say what is replaced, what that saves, and which test compares it with the original.
With a version that was not compared, and with GATEWAY_SPEEDUPS=0, the library's own code serves: the replies are the same.
To take up a new version, run the tests of this package with it, and add it to ``libraries.COMPARED``.

- ``django``, ``gevent``, ``gunicorn``  what is replaced in each
- ``libraries``  the libraries, the versions that were compared, and the declaration of a speedup
"""
