"""Bills of providers: their exports of costs are imported, and compared with what the gateway knows of the same days.

May import ``statistics``, ``models`` and ``pricing``. (``billing.payments.reconciliation`` compares our customers' payments.)

- ``formats``     the table of exports, ``formats.toml``: which column says what
- ``files``       packed and encoded files as rows, in bounded memory
- ``reading``     a row as what it charges for, or why it is left out
- ``names``       which model a name on a bill stands for
- ``expected``    what the gateway knows of a provider's days and hours
- ``importing``   files as a bill; the directory that is read each night
- ``comparison``  charged, expected and billed, by provider, day or hour, and model, and what explains a difference
- ``samples``     lines and completions that show what a comparison is about
- ``admin``       the pages of bills
"""
