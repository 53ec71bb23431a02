"""The playground: a member sends a completion from a page of the dashboard, whole or streamed.

It has no way of its own to spend: a request goes through ``inbound.completion_view`` as every other, as the account's key
named Playground. That key is among the account's keys, has a spending limit, and is limited, changed and revoked there. What a
session adds is who may use it: members whose role may send requests, by a form with a CSRF token on the pages' own host.

- ``pages``       the page; ``page_urls`` is its address
- ``completion``  sends the request of a form as a key
- ``key``         finds or makes the account's playground key
- ``forms``       the request as a form
"""
