"""What staff may do only with a second person, what they unblock, and the support pages of people.

``billing.staff_permissions`` has the rules.

- ``approvals``               requests of staff that wait for a second person, of whatever kind
- ``support_credit``          credits that staff book: caps for each time and each day, and what needs approval
- ``owners``                  owners of accounts that staff make, with approval
- ``second_factor_removals``  lost second factors that support asks to remove, with approval
- ``withdrawals``             such requests that whom they are about withdraw, and their page
- ``unblocking``             what blocks a person or a network from signing in, to find and to reset
- ``forms``                   HTML forms for credits, users, accounts and memberships
- ``people_admin``            the support pages of users, groups and memberships
- ``approval_admin``          the support pages of what waits for a second person
"""
