"""Invoices as PDF, and the tax in them.

- ``invoices``  an invoice: seller, customer, what was paid
- ``fonts``     the fonts and lines of names in many scripts
- ``taxes``     the tax that a payment includes
"""
