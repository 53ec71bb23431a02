"""The usage of an account: summed up by hour from its ledger, shown on its usage page, and as files.

May import ``completions.models``; pages and files also ``keys``, ``billing`` and ``gateway_project.activity``.

pages      the page and its files
files      CSV, of what the page shows and in FOCUS columns
runs       sums of a run by model
export     records to book, page by page, for programs
plot       the plot, its table, and the headline figures
ranges     the time that is shown, and the time before that it is compared with
figures    reads the sums, and what is booked since
sums       sums up what is booked, by hour
unusual    alerts of keys that spend far more in an hour than they use to
"""
