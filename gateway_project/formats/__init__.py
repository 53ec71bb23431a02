"""How values are written: amounts, times, JSON, CSV, charts. Pure; imports nothing of the gateway.

- ``dollars``       amounts in US dollars
- ``timestamps``    the API's time format
- ``compact_json``  JSON without white space
- ``csv_text``      CSV files without formulas
- ``bar_chart``     the geometry of bar charts
"""
