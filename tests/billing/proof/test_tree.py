"""The tree of RFC 6962 against the known values of Certificate Transparency, and the script against the tree."""

from contextlib import suppress

import pytest

from billing.proof import tree
from tests.billing.proof import script

LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
HASHES = [tree.leaf_hash(bytes.fromhex(leaf)) for leaf in LEAVES]


def test_roots_are_those_of_certificate_transparency():
    assert [tree.root(HASHES[:size]).hex() for size in range(1, 9)] == ROOTS


def test_a_root_over_parts_is_the_root_over_their_leaves():
    hashes = [tree.leaf_hash(bytes([n])) for n in range(70)]
    for size in range(1, 71):
        parts = [hashes[start : min(start + 8, size)] for start in range(0, size, 8)]
        assert tree.root(list(map(tree.root, parts))) == tree.root(hashes[:size])
        for place in range(size):
            part, within = divmod(place, 8)
            joined = tree.path(parts[part], within) + tree.path(list(map(tree.root, parts)), part)
            assert joined == tree.path(hashes[:size], place)


def test_the_script_climbs_from_each_leaf_to_the_root_and_from_nowhere_else():
    climb, refused = (module := script.load()).climb, module.NotProven
    for size in range(1, 9):
        for place in range(size):
            path = [each.hex() for each in tree.path(HASHES[:size], place)]
            assert climb(HASHES[place], place, size, path).hex() == ROOTS[size - 1]
            for others in (path[:-1], [*path, ROOTS[0]], path[::-1], [ROOTS[0], *path[1:]]):
                if others != path:
                    with suppress(refused):
                        assert climb(HASHES[place], place, size, others).hex() != ROOTS[size - 1]
    for place in (-1, 8):
        with pytest.raises(refused):
            climb(HASHES[0], place, 8, [])
