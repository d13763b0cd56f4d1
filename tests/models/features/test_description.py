import tomllib

import pytest
import tomli_w

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.models.features.description import Features, PatchBlock, ScatteringBlock, TableBlock
from gradveil.models.features.maps import GlyphMap, LeafMap, RandomMap

EVERY = [
    Features(ScatteringBlock(keep=4), map=GlyphMap(100), seed=3),
    Features(ScatteringBlock(mirror=True), PatchBlock(threshold=0.5), map=LeafMap(50, power=0.25)),
    Features(patches=PatchBlock(half=False), map=RandomMap(9)),
    Features(table=TableBlock(3.0)),
]


@pytest.mark.parametrize("features", EVERY)
def test_features_survive_toml_and_are_told_apart(features):
    text = tomli_w.dumps(codec.encode(features))
    assert codec.decode(Features, tomllib.loads(text)) == features
    assert len({codec.digest(one) for one in EVERY}) == len(EVERY)
    assert hash(features) == hash(codec.decode(Features, tomllib.loads(text)))


@pytest.mark.parametrize("features", EVERY)
def test_origin_is_one_sentence(features):
    assert features.origin.endswith(".")
    assert features.origin.count(". ") == 0
    assert "\n" not in features.origin


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (EVERY[0], ["scattering", "procedural glyphs", "no real picture", "MNIST", "seed 3"]),
        (EVERY[1], ["filters cut from procedural dead leaves", "natural images", "seed 0"]),
        (Features(ScatteringBlock(), map=LeafMap(objects=True)), ["Fashion-MNIST", "on black"]),
        (EVERY[2], ["random projection", "no picture was used"]),
        (EVERY[3], ["clipped to a public norm"]),
    ],
)
def test_origin_says_what_the_map_knows(features, said):
    for part in said:
        assert part in features.origin


def test_kind_and_k_are_told():
    assert [one.kind for one in EVERY] == ["scattering", "scattering + patches", "patches", "table"]
    assert [one.k for one in EVERY] == [100, 50, 9, None]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "needs scattering, patches or table"),
        ({"table": {}, "scattering": {}}, "a table has no picture"),
        ({"table": {}, "map": {"kind": "GlyphMap"}}, "is fitted to pictures, not to a table"),
        ({"table": {"norm": 0.0}}, "norm = 0.0: must be a finite number above 0"),
        ({"scattering": {"scales": 9}}, "scales = 9: must be at most 5"),
        ({"scattering": {"J": 2}}, "scattering.J: unknown key"),
        ({"scattering": {}, "map": {"kind": "Learned"}}, "map.kind = 'Learned': must be one of NoMap, RandomMap"),
        ({"patches": {"threshold": "high"}}, "threshold = 'high': a number is expected"),
        ({"patches": {}, "seed": -1}, "seed = -1: must be at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(given, sentence):
    with pytest.raises(BadInput, match=sentence):
        codec.decode(Features, given)
