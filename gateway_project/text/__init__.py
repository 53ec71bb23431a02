"""How values are written as text: amounts, times, JSON and CSV. Pure; imports nothing of the gateway.

- ``dollars``       amounts in US dollars
- ``timestamps``    the API's time format
- ``compact_json``  JSON without white space
- ``csv_text``      CSV files without formulas
"""
