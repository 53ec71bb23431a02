"""Acts of staff that need a second person, unblocking, and the support pages of people.

``billing.staff_permissions`` has the rules.

- ``approvals``        requests of staff that wait for a second person, of whatever kind
- ``support_credit``   credits that staff book: caps for each time and each day, and what needs approval
- ``people_requests``  new owners, and lost second factors to remove, with approval; whom they are about may withdraw them
- ``unblocking``       what blocks a person or a network from signing in, to find and to reset
- ``forms``            HTML forms for credits, users, accounts and memberships
- ``people_admin``     the support pages of users, groups and memberships
- ``approval_admin``   the support pages of what waits for a second person
"""
