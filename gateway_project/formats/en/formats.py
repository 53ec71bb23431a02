"""Formats of the admin: no time without its seconds and its zone."""

DATETIME_FORMAT = "j M Y, H:i:s \\U\\T\\C"
DATE_FORMAT = "j M Y"
