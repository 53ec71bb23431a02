"""The engine of the settings: Django's for PostgreSQL, but without connections that have ended. Django imports ``base``."""
