"""The command ``model-gateway``.

- ``program``       reads the settings file, and starts a process or passes the words to Django
- ``server_files``  ``model-gateway init``: the files of a server
"""
