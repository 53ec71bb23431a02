"""The playground: a member sends a completion from a page of the dashboard, whole or streamed.

A request goes through ``inbound.completion_view`` as every other, with a key of the account named Playground or First key. It
is among the account's keys and has a spending limit. Members use it whose role may send requests, by a form with a CSRF token.

- ``pages``          the page
- ``first_request``  the page that makes an account's first key, and sends the first request with it
- ``completion``     sends the request of a form with a key of the account, which the first one makes
- ``forms``          the request as a form
"""
