"""What an installation costs that has very many completions: on disk, each night, and in an upgrade."""
