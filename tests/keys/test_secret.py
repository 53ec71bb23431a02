"""The format of secrets. Only the secret itself matches its digest."""

import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_project import identifiers
from keys import secret

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
key_ids = st.text(BASE62, min_size=22, max_size=22)
PEPPER, OLD_PEPPER = "p" * 40, "o" * 40


def test_a_secret_has_its_format_and_contains_the_key_id():
    key_id = identifiers.short_uuid7()
    minted = secret.mint(key_id)
    assert re.fullmatch(rf"mgw_live_{key_id}_[0-9A-Za-z]{{38}}", minted)
    assert secret.key_id(minted) == key_id


def test_two_secrets_of_one_key_differ():
    key_id = identifiers.short_uuid7()
    randoms = [secret.mint(key_id)[32:64] for _ in range(200)]
    assert len(set(randoms)) == 200
    assert {character for random in randoms for character in random} == set(BASE62)


@given(key_id=key_ids, place=st.integers(0, 69), typo=st.characters(codec="utf-8"))
def test_the_checksum_finds_every_mistyped_character(key_id, place, typo):
    minted = secret.mint(key_id)
    mistyped = minted[:place] + typo + minted[place + 1 :]
    assert secret.key_id(mistyped) == (key_id if mistyped == minted else None)


def test_the_checksum_finds_every_wrong_letter_or_digit_at_every_place():
    minted = secret.mint(identifiers.short_uuid7())
    for place in range(len(minted)):
        for typo in BASE62.replace(minted[place], ""):
            assert secret.key_id(minted[:place] + typo + minted[place + 1 :]) is None


@given(key_id=key_ids, place=st.integers(0, 68))
def test_the_checksum_finds_two_swapped_characters(key_id, place):
    minted = secret.mint(key_id)
    swapped = minted[:place] + minted[place + 1] + minted[place] + minted[place + 2 :]
    assert secret.key_id(swapped) == (key_id if swapped == minted else None)


@given(st.text(max_size=80))
def test_a_text_that_is_no_secret_has_no_key_id(text):
    assert secret.key_id(text) is None


@given(st.text(max_size=9), st.text(max_size=9), st.integers(32, 70))
def test_what_is_concealed_keeps_the_id_or_the_last_four_only(before, after, end):
    key_id = identifiers.short_uuid7()
    minted = secret.mint(key_id)
    concealed = secret.conceal_all(f"{before} {minted[:end]} {minted} {minted[32:]} {after}")
    assert f" mgw_live_{key_id} mgw_live_{key_id} mgw_live_...{minted[-4:]} " in concealed
    assert minted[32:-4] not in concealed


@pytest.mark.parametrize("around", ["{}\n", " {}", "{} ", "{}x", "x{}", "{}\x00"])
def test_a_secret_with_other_text_around_it_is_refused(around):
    assert secret.key_id(around.format(secret.mint(identifiers.short_uuid7()))) is None


def test_the_digest_depends_on_secret_and_pepper_and_contains_neither():
    minted = secret.mint(identifiers.short_uuid7())
    kept = secret.digest(minted, PEPPER)
    assert re.fullmatch("[0-9a-f]{64}", kept)
    assert kept != secret.digest(minted, OLD_PEPPER)
    assert kept != secret.digest(secret.mint(identifiers.short_uuid7()), PEPPER)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 200])
def test_the_digest_is_the_hmac(length):
    pepper = "é" + "p" * length
    for text in ("", secret.mint(identifiers.short_uuid7()), "long" * 100):
        assert secret.digest(text, pepper) == hmac.digest(pepper.encode(), text.encode(), "sha256").hex()


def test_a_secret_matches_under_any_known_pepper():
    minted = secret.mint(identifiers.short_uuid7())
    kept = secret.digest(minted, OLD_PEPPER)
    assert secret.matches(minted, kept, [PEPPER, OLD_PEPPER])
    assert not secret.matches(minted, kept, [PEPPER])
    assert not secret.matches(minted, kept, [])
    assert not secret.matches(secret.mint(minted[9:31]), kept, [PEPPER, OLD_PEPPER])
