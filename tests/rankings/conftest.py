from tests.rankings.source_server import keys, sources

__all__ = ["keys", "sources"]
