"""How Django writes times and days on its own pages, by language. They come before the settings, and before its own formats."""
