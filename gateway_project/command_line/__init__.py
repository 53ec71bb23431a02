"""The command ``model-gateway``.

- ``program``        reads the settings file, and starts a process or passes the words to Django
- ``settings_file``  variables that the environment does not have
- ``server_files``   ``model-gateway init``: the files of a server
"""
