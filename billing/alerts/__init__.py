"""The alerts of members: the balance is low, a key comes near its limit, a payment or an automatic top-up failed.

An alert is a row, written in the transaction of what it is about: ``billing.ledger.movements`` finds those of a low balance.
Its deliveries by mail and to webhook endpoints follow in the background, each until it arrives or is given up.

- ``entry_notices``  mails about what was booked beside usage: receipts, credits, refunds
- ``payload``     what an alert says, in JSON and in words; pure
- ``deliveries``  who gets an alert, whose turn it is, what an attempt came to
- ``endpoints``   webhook endpoints: made, tested, paused, rotated, deleted; their secrets and signatures
- ``sending``     sends what is due
- ``summaries``   alerts, deliveries and endpoints as the pages show them; how long a balance lasts
- ``pages``       /dashboard/alerts/, with its forms
"""
