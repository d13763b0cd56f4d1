"""Masks cancel to the bit, are what the written formula says, and change with everything that a node was told."""

import hashlib
import hmac
import struct
from dataclasses import fields, replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from gradveil.aggregation import ring
from gradveil.aggregation.cards import Introduction
from gradveil.aggregation.masks import Attempt, mask, masked, pair_key, state_digest
from gradveil.errors import BadInput

HEX = hashlib.sha256(b"some").hexdigest()
CARD = Introduction(name="site-0", run="0" * 32, plan=HEX, roster=HEX, key=bytes(32), nonce=bytes(32))
ATTEMPT = Attempt(run="0" * 32, plan=HEX, serial=3, round=4, size=5, tolerated=1, state=HEX, cards=(CARD,))
OTHER = {str: lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"), int: lambda n: n + 1,
         bytes: lambda b: b[:-1] + bytes([b[-1] ^ 1]), tuple: lambda t: (replace(t[0], nonce=b"1" * 32),)}  # fmt: skip


@pytest.mark.parametrize("name", [field.name for field in fields(Attempt)])
def test_the_digest_of_an_attempt_changes_with_every_field(name):
    value = getattr(ATTEMPT, name)
    assert replace(ATTEMPT, **{name: OTHER[type(value)](value)}).digest != ATTEMPT.digest


@pytest.mark.parametrize("name", [field.name for field in fields(Introduction)])
def test_the_digest_of_a_card_changes_with_every_field_but_the_signature_over_it(name):
    value = getattr(CARD, name)
    changed = replace(CARD, **{name: b"s" if name == "signature" else OTHER[type(value)](value)})
    assert (changed.digest == CARD.digest) is (name == "signature")


@pytest.mark.parametrize("wrong", [{"key": b"1"}, {"nonce": b""}, {"run": "1"}, {"plan": "G" * 64}, {"roster": ""}])
def test_a_card_of_another_form_is_refused_in_a_sentence(wrong):
    with pytest.raises(BadInput, match="introduction"):
        replace(CARD, **wrong)


def test_the_digest_of_a_state_depends_on_values_types_shapes_and_order_alone():
    a, b = np.arange(6, dtype=np.float32), np.ones((2, 3))
    others = [
        (a.astype(np.float64), b),
        (a.view(np.int32), b),
        (a.reshape(2, 3), b),
        (b, a),
        (a,),
        (a, b, a),
        (a + 1, b),
        (),
    ]
    assert len({state_digest(arrays) for arrays in [(a, b), *others]}) == len(others) + 1
    assert state_digest((a.astype(">f4"), np.asfortranarray(b))) == state_digest((a, b))


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(2, 12), st.sampled_from([1, 2, 33, 700]))
def test_masks_cancel_in_the_sum_to_the_bit_and_hide_each_vector(data, nodes, size):
    names = [f"n{i:02d}" for i in range(nodes)]
    shared = {frozenset((a, b)): hashlib.sha256(f"{a} {b}".encode()).digest() for a in names for b in names if a < b}
    extremes = st.sampled_from([0, 1, -1, 2**62, -(2**62), 12345])
    plain = {name: np.array([data.draw(extremes)] * size, np.int64).view(np.uint64) for name in names}
    hidden = {
        name: masked(plain[name], name, {o: shared[frozenset((name, o))] for o in names if o != name}, b"attempt")
        for name in data.draw(st.permutations(names))
    }
    exact = [sum(int(plain[name][i]) for name in names) % 2**64 for i in range(size)]
    assert ring.total(hidden.values()).tolist() == exact
    assert all((hidden[name] != plain[name]).all() for name in names)


def chacha20(key, count):
    """RFC 8439's block function, written out; counter and nonce begin at zero."""
    out = b""
    for block in range(-(-count // 64)):
        start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), block, 0, 0, 0]
        x = start.copy()
        for turn in range(20):
            rows = [(i, 4 + (i + turn % 2) % 4, 8 + (i + 2 * (turn % 2)) % 4, 12 + (i + 3 * (turn % 2)) % 4)
                    for i in range(4)]  # fmt: skip
            for a, b, c, d in rows:
                for p, q, r, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                    x[p] = (x[p] + x[q]) % 2**32
                    mixed = x[r] ^ x[p]
                    x[r] = (mixed << bits | mixed >> (32 - bits)) % 2**32
        out += struct.pack("<16I", *((a + b) % 2**32 for a, b in zip(x, start, strict=True)))
    return out[:count]


def test_a_mask_is_the_stream_that_the_formula_names():
    pair, attempt, size = b"p" * 32, b"a" * 32, 21
    key = hmac.new(pair, b"gradveil/secure-sum/1/mask\0" + attempt + b"\1", "sha256").digest()
    assert mask(pair, attempt, size).tolist() == list(struct.unpack("<21Q", chacha20(key, 8 * size)))


def test_two_nodes_derive_the_same_key_as_the_formula_names_and_another_one_for_other_cards():
    secrets = [X25519PrivateKey.generate() for _ in range(2)]
    cards = [
        replace(CARD, name=name, key=secret.public_key().public_bytes_raw())
        for name, secret in zip(("site-0", "site-1"), secrets, strict=True)
    ]
    derived = pair_key(secrets[0], *cards)
    assert pair_key(secrets[1], cards[1], cards[0]) == derived
    pseudo = hmac.new(bytes(32), secrets[0].exchange(secrets[1].public_key()), "sha256").digest()
    digests = b"".join(hashlib.sha256(card.signed()).digest() for card in cards)
    assert derived == hmac.new(pseudo, b"gradveil/secure-sum/1/pair\0" + digests + b"\1", "sha256").digest()
    assert pair_key(secrets[0], cards[0], replace(cards[1], nonce=b"2" * 32)) != derived
