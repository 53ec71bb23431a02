"""Members of an account: how people join, change their role and leave. ``billing.accounts.roles`` says what each may do.

- ``invitations``  links by mail by which people join, once and within their time
- ``changes``      another role for a member, and the end of a membership; an account keeps an owner
- ``notices``      mails about who is a member
- ``pages``        /dashboard/members/, with its forms, and where an invitation leads
"""
