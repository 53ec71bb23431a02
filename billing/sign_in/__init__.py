"""Signing in, of owners and of staff, by django-allauth: limits on attempts, sessions, and rules for passwords.

- ``limits``            how many attempts an address, a user and a known device have; their state in PostgreSQL
- ``devices``           the cookie by which a browser is known to have signed in before
- ``backend``           Django's authentication, which counts attempts before it hashes, and logs those that fail
- ``floods``            refuses a flood of attempts before it costs much
- ``sessions``          sessions end when they are idle, or old
- ``session_pages``     the list of one's sessions, to end them
- ``reauthentication``  the password once more before some acts
- ``kept_forms``        what was sent after its session had ended waits until its sender has signed in again
- ``adapter``           what allauth asks of the project
- ``second_factor``     staff need one; changes are recorded
- ``identities``        accounts at Google or GitHub, by which people sign in and sign up
- ``identity_pages``    the way there and back, and the list of one's own
- ``forms``             allauth's forms that sign in, with our limits; a code of an authenticator app counts once
- ``password_links``    links by mail to set a password: invitations, and for those who forgot it
- ``addresses``         signing up, and changing one's email address, by links that prove the address
- ``credential_pages``  the pages of both
- ``links``             what is mailed to prove an address: signed, and void once the credentials change
- ``mails``             sends every mail, as text and HTML, within limits
- ``urls``              the paths of allauth that the gateway has
- ``password_rules``    what a new password may be
"""
