"""Streams that are cut anywhere."""

from hypothesis import strategies as st

CUTS = st.lists(st.integers(0, 400), max_size=12)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted({place for place in cuts if place < len(data)}), len(data)]
    return [data[start:end] for start, end in zip(places, places[1:], strict=False)]
