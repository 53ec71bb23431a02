"""How values are written as text: amounts, times, JSON and CSV; and how web addresses are read. Imports nothing of the gateway.

- ``dollars``        amounts in US dollars, and whole shares that add up to a whole
- ``timestamps``     the API's time format
- ``compact_json``   JSON without white space
- ``csv_text``       CSV files without formulas
- ``ascii_numbers``  numbers as outsiders write them; ``number_fields`` has the fields of forms that read them so
- ``web_addresses``  the one reader of web addresses, which raises nothing
"""
