"""Addresses that no page has."""

MALFORMED = [
    *("http://[", "http://]", "https://[::1", "https://::1]/", "//[", "[", "http://[::1]]/", "http://[v1.x]/"),
    *(
        "http://[fe80::1%25eth0]:x/",
        "http://a:99999/",
        "http://a:-1/",
        "http://a:x/",
        "https://a:１/",
        "http://\u2100.example/",
    ),
    *("//a\uff03b.example/", "http://\uff0f/", "https://user:[@example.org/", "http://a\u2048b/", "https://[%00]/"),
    *("http://[1.2.3.4]/", "http://a b[/", f"https://{'a' * 70}.example/", "https://a..b/", "https://\x00/", "https://\ud800/"),
]
SENT = MALFORMED[:-1]  # what can be in a form: the last is no Unicode
