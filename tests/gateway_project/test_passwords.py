"""Passwords are hashed outside the event loop, to the same hashes as Django's."""

import gevent
from django.contrib.auth.hashers import PBKDF2PasswordHasher

from gateway_project.passwords import OffloadedPBKDF2PasswordHasher


def test_the_stored_hash_equals_djangos():
    encoded = OffloadedPBKDF2PasswordHasher().encode("secret", "salt", 1_000)
    assert encoded == PBKDF2PasswordHasher().encode("secret", "salt", 1_000)
    assert OffloadedPBKDF2PasswordHasher().verify("secret", encoded)
    assert not OffloadedPBKDF2PasswordHasher().verify("other", encoded)


def test_other_greenlets_run_while_a_password_is_hashed():
    hashing = gevent.spawn(OffloadedPBKDF2PasswordHasher().encode, "secret", "salt", 1_000_000)
    turns = 0
    while not hashing.ready():
        turns += 1
        gevent.sleep(0.001)
    assert turns > 1  # hashed in the event loop itself, it would be ready after the first
