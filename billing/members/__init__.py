"""Members of an account: what each may do, and how people join, change their role and leave.

- ``roles``             what each role may do, for every page and act
- ``invitations``       links by mail by which people join, once and within their time
- ``changes``           another role for a member, and the end of a membership; an account keeps an owner
- ``notices``           mails about who is a member
- ``pages``             /dashboard/members/, with its forms
- ``invitation_pages``  where an invitation leads
- ``page_urls``         their paths
"""
