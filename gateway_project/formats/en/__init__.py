"""English: ``formats`` has the names that Django reads."""
