"""The public pages of the catalog: the landing page, the list of models, and a page for each.

They are the same for everybody and need no script. Their content is read every READ_SECONDS, for all of them at once.

- ``facts``      reads the models with their prices and what was measured of them
- ``quickstart`` what to send, in three languages, at /docs
- ``status``     what works now and in the last days, and incidents, at /status
- ``selection``  which models the list shows, in which order
- ``costs``      what requests like the reader's cost, beside two other models
- ``pages``      the views
- ``urls``       their paths
"""
