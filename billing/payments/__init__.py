"""Payments by card and bank: from the page that adds credit to the ledger, and back for refunds and disputes.

Owns Payment, PaymentEvent, PaymentDifference, TopUpRule and BillingDetails (of ``billing.models``), and every entry of the
types CREDIT_PURCHASE and REFUND_DEBIT. May import billing's ``ledger``, ``locks``, ``money``, ``models``, ``forms``,
``pages`` and ``sign_in.mails``; of billing only ``admin``, ``tasks`` and the addresses import it. In reading order:

- ``processor``         what the gateway asks of a processor, and what a processor reports
- ``stripe_processor``  Stripe, by its own client
- ``demo_processor``    a processor for a developer's machine, without a network; ``demo_pages`` takes its payments
- ``configuration``     which processor the settings name, and what a deployment gets wrong about payments
- ``refusals``          says to payers why money that came is not credited, and what becomes of it
- ``booking``           asks for the report of a payment, compares the two, books the difference; no other module books them
- ``purchases``         writes the payment, and opens the processor's page for it
- ``reconciliation``    compares both books once per day, books what was missed, and keeps what contradicts
- ``top_ups``           buys credit with a kept card when an account runs low; ``stops`` says what stops and restarts that
- ``webhook``           POST /api/billing/webhooks/..., which receives signed events; what each leads to
- ``documents``         invoices as PDF, and the tax in them; ``issuing`` keeps them and credit notes as issued
- ``summaries``         payments as pages show them
- ``forms``             amount of credit, billing details
- ``admin``             the support pages of payments, events and differences
- ``pages``             /dashboard/billing/...: balance, payments, receipts, automatic top-ups

The processor is asked, and never believed on its word about a payment: an event says only that something happened to a payment.
The new state is read from the processor, compared with the Payment row, and booked as the difference to what is booked already.
So events may come twice, late or in any order.
"""
