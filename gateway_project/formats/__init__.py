"""How Django writes times and days on its own pages, in a folder for each language: ``en``. They come before Django's own."""
