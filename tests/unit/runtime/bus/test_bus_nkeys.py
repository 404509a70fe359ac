"""Keys of NATS: against a published pair, and against everything that is no key."""

import pathlib

import pytest

from carico_core.runtime.bus.security import nkeys

# https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/nkey_auth
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def test_the_pair_of_nats_own_documentation() -> None:
    signer = nkeys.Signer(SEED)
    assert (signer.kind, signer.public) == (nkeys.Kind.USER, PUBLIC)


@pytest.mark.parametrize(("kind", "letters"), [("ACCOUNT", "SA"), ("SERVER", "SN"), ("USER", "SU"), ("CURVE", "SX")])
def test_a_seed_says_what_it_is_of(kind: str, letters: str) -> None:
    seed = nkeys.generate(nkeys.Kind[kind])
    assert seed.startswith(letters)
    assert nkeys.decode_seed(seed)[0] is nkeys.Kind[kind]
    assert nkeys.encode_seed(*nkeys.decode_seed(seed)) == seed


def test_a_signature_is_good_for_its_message_its_key_and_its_kind() -> None:
    signer, other = nkeys.Signer(SEED), nkeys.Signer(nkeys.generate(nkeys.Kind.USER))
    signature = signer.sign(b"message")
    assert nkeys.verify(PUBLIC, nkeys.Kind.USER, b"message", signature)
    assert not nkeys.verify(PUBLIC, nkeys.Kind.USER, b"massage", signature)
    assert not nkeys.verify(PUBLIC, nkeys.Kind.SERVER, b"message", signature)
    assert not nkeys.verify(other.public, nkeys.Kind.USER, b"message", signature)
    assert not nkeys.verify(PUBLIC, nkeys.Kind.USER, b"message", b"short")


@pytest.mark.parametrize(
    "text", ["", "S", "not a seed", SEED[:-1], SEED[:-1] + "A", SEED.lower(), PUBLIC, SEED + SEED, "é" * 58, "1" * 58]
)
def test_what_is_no_seed_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"nkey|ASCII") as caught:
        nkeys.Signer(text)
    assert not text or text not in str(caught.value)


def test_only_the_other_side_opens_what_was_sealed() -> None:
    ours, theirs, others = (nkeys.Sealer(nkeys.generate(nkeys.Kind.CURVE)) for _ in range(3))
    sealed = ours.seal(b"message", to=theirs.public)
    assert b"message" not in sealed
    assert theirs.open(sealed, sender=ours.public) == b"message"
    for reader, sender in ((others, ours), (theirs, others)):
        with pytest.raises(ValueError, match="cannot be opened"):
            reader.open(sealed, sender=sender.public)
    with pytest.raises(ValueError, match="cannot be opened"):
        theirs.open(sealed[:-1] + bytes([sealed[-1] ^ 1]), sender=ours.public)
    with pytest.raises(ValueError, match="not sealed"):
        theirs.open(b"message", sender=ours.public)
    with pytest.raises(ValueError, match="expected a curve key"):
        nkeys.Sealer(SEED)


def test_a_seed_is_read_from_its_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "seed").write_text(f"\n{SEED}\n")
    assert nkeys.read(tmp_path / "seed").public == PUBLIC
