"""The project's additions to Django's and DRF's request handling. Imports no app.

- ``request_log``         an id and a log line for every request
- ``request_notes``       what is noted of a request on its way
- ``security_headers``    headers for browsers that every reply has
- ``client_address``      the IP address of a client, behind any number of proxies
- ``hosts``               routes by host name; which requests are for the API, which leave the middleware before that for pages
- ``public_page``         pages that are the same for everybody, rendered once in seconds; their errors; what robots may read
- ``mailbox``             the mails of a machine without a mail server, as a page
- ``cors``                requests of pages of other origins
- ``page_middleware``     what the project adds to Django's middleware for pages
- ``strict_json``         the parser of request bodies
- ``packed_bodies``       unpacks bodies that are compressed
- ``in_flight``           how many requests of an account, a user or an address are in flight, and how often pages come
- ``bodies_in_flight``    how many bytes of large bodies a process receives, parses and holds
- ``downloads``           files that are streamed, few at a time
- ``error_replies``       replies to errors, as JSON or a page: to exceptions of views, and outside of them
- ``wrong_paths``         what a 404 says to use instead
- ``gunicorn``            what the project changes in gunicorn
- ``health``              probes and metrics
- ``openapi``             the OpenAPI description, and a page made from it
- ``query_parameters``    query parameters as django-filter's FilterSets: numbers, booleans, choices, text, times
"""
