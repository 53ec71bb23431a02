"""Proofs of the ledger for its customers. Each entry has a hash over itself and all before it, which a trigger computes.

- ``chain``         the bytes of an entry, of which hashes are made, and the entries after one
- ``tree``          the Merkle tree of RFC 6962; pure
- ``signing``       the keys that sign roots, and where their public parts are read
- ``roots``         signs each hour the root of a tree over the last entries of all accounts, in all cells
- ``inclusion``     the path from the last entry of an account to a root
- ``urls``          the address of the public keys
"""
