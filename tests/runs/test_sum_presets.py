"""Settings of fed-sum for data of one's own: sized by the data, alike on every machine, and said in a sentence."""

from dataclasses import replace

import numpy as np
import pytest

from gradveil.data.dataset import Dataset, Split
from gradveil.methods import FED_SUM
from gradveil.privacy.clip import Flat
from gradveil.runs.presets import chosen
from gradveil.runs.sum_presets import PACES, PATIENCE, sums_for


def pictures(n, *shape, own=True):
    """Return blank pictures that take no memory, five sixths of them to train on."""
    train, test = (
        Split(np.broadcast_to(np.uint8(0), (part, *shape)), np.zeros(part, np.int32)) for part in (n * 5 // 6, n // 6)
    )
    return Dataset("mine", train, None, test, ("a", "b"), own=own)


@pytest.mark.parametrize(
    ("shape", "angles", "said"),
    [
        (
            (28, 28, 1),
            8,
            "about 28 s of one core for all pictures, as many as take at most 240 s",
        ),
        ((64, 64, 3), 4, "4 angles of scattering, about 147 s of one core"),
        ((96, 96, 3), 2, "2 angles of scattering, about 166 s of one core"),
        ((256, 256, 3), 2, "the fewest, though they take more than 240 s"),
    ],
    ids=str,
)
def test_large_pictures_have_fewer_angles_so_that_features_are_ready_in_minutes(shape, angles, said):
    preset = sums_for(pictures(60_000, *shape), 1.0, "server")
    assert preset.features.scattering.angles == angles
    assert said in preset.origin


def test_what_is_chosen_is_the_largest_number_of_angles_within_the_time():
    for n in (6, 6_000, 600_000, 6_000_000):
        numbers = n * 32 * 32
        within = [angles for angles, pace in PACES.items() if numbers * pace <= PATIENCE]
        assert sums_for(pictures(n, 32, 32, 1)).features.scattering.angles == max(within, default=min(PACES))


def test_published_data_keep_the_angles_that_their_settings_were_found_with():
    published = Dataset(**{f: getattr(pictures(600_000, 28, 28, 1), f) for f in ("train", "validation", "test")},
                        name="mnist", classes=("a", "b"))  # fmt: skip
    assert sums_for(published).features.scattering.angles == 8
    assert "held-out training images of MNIST" in sums_for(published).origin


def test_the_clip_of_a_preset_follows_what_is_spent_against_whom():
    """Fashion-MNIST clips to .1 where about 1 is spent on sums over all clients, and to .3 elsewhere."""
    fashion = replace(pictures(72_000, 28, 28, 1, own=False), name="fashion-mnist")
    clips = {
        (epsilon, threat): chosen(FED_SUM, fashion, {"threat_model": threat}, epsilon).clip
        for epsilon, threat in [(1.0, "aggregate"), (3.0, "aggregate"), (0.5, "aggregate"), (1.0, "server")]
    }
    assert list(clips.values()) == [Flat(0.1), Flat(0.3), Flat(0.3), Flat(0.3)]
    assert chosen(FED_SUM, fashion, target_epsilon=11.0).clip == Flat(0.1)  # against the server: 11 / sqrt(120) = 1.004
