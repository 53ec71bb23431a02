"""A request that searches the web, and what a provider answers."""

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tides"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://example.org", "title": "Tides", "encrypted_content": "EqgfCio"}],
}
