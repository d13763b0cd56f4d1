"""The settings of fed-sum for each dataset, by how much may be spent on the sums over all clients."""

import math
from dataclasses import dataclass, replace

from gradveil.data.dataset import Dataset
from gradveil.data.partition import Iid
from gradveil.data.sampling import Whole
from gradveil.models.features.description import Features, PatchBlock, ScatteringBlock
from gradveil.models.features.maps import GlyphMap, LeafMap, RandomMap
from gradveil.models.preparation import NoisedMean, NoisedSecondMoment
from gradveil.models.regression import SoftmaxRegression
from gradveil.privacy.clip import Flat
from gradveil.runs.preset_kinds import Preset, Rates

SIGMA = 17.0
"""Of a plan whose noise nothing else sets: what epsilon 0.823 takes over ten steps after two preparations."""
USUAL = 0.823
"""The epsilon that settings are made for if none is asked for."""
SUM_THREATS = ("aggregate", "central", "central-visible")
"""Adversaries who see sums over clients; to others, the noise of a single client is all that there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Settings of fed-sum for a dataset: all clients of so many examples, `steps` gradients after the preparation.

    most: the largest epsilon of the sums over all clients that they are meant for. origin: where the numbers come from.
    """

    model: SoftmaxRegression
    client_size: int
    steps: int
    rate: float
    clip: float
    origin: str
    features: Features | None = None
    most: float = math.inf

    def preset(self, examples: int) -> Preset:
        """Return the preset for so many training examples: every client sends one sum over all of its own a round."""
        clients = max(1, examples // self.client_size)
        size = min(self.client_size, examples)
        return Preset(
            client_size=size,
            local_steps=1,
            batch=size,
            rounds=self.steps + len(self.model.preparation),
            model=self.model,
            clients=clients,
            cohort=clients,
            clip=Flat(self.clip),
            sigma=SIGMA,
            partition=Iid(),
            sampling=Whole(),
            rates=Rates(plain=self.rate, server=self.rate, example=self.rate),
            features=self.features,
            origin=self.origin,
        )


def _scattered(k: int) -> Features:
    """Return features for pictures of glyphs."""
    return Features(scattering=ScatteringBlock(), map=GlyphMap(k=k))


def _with_patches(patches: PatchBlock, fixed: LeafMap) -> Features:
    """Return features for pictures of things: scattering and patches, each averaged with its mirror image."""
    return Features(scattering=ScatteringBlock(mirror=True), patches=patches, map=fixed)


PREPARED = SoftmaxRegression(mean=NoisedMean(0.18), moment=NoisedSecondMoment(0.53))
CENTERED = SoftmaxRegression(mean=NoisedMean(0.18))
NUMBERS = SoftmaxRegression(mean=NoisedMean(0.18), bias=0.5)
"""For a number to predict: its intercept needs more than a tenth of the features' weight."""
_LIGHT = SoftmaxRegression(mean=NoisedMean(0.18), moment=NoisedSecondMoment(0.35))
_MNIST = Sums(
    model=PREPARED,
    client_size=500,
    steps=10,
    rate=1500.0,
    clip=0.3,
    features=_scattered(200),
    origin="about 200 settings tried on 10,000 held-out training images of MNIST",
)
_FASHION = Sums(
    model=PREPARED,
    client_size=500,
    steps=10,
    rate=2500.0,
    clip=0.3,
    features=_with_patches(PatchBlock(keep=4), LeafMap(k=800, power=0.4, objects=True)),
    origin="about 56 settings tried on 10,000 held-out training images of Fashion-MNIST",
)
_CIFAR = Sums(
    model=SoftmaxRegression(mean=NoisedMean(0.1)),
    client_size=500,
    steps=20,
    rate=1500.0,
    clip=0.3,
    features=_with_patches(PatchBlock(), LeafMap(k=2000, power=0.4)),
    origin="about 45 settings tried on 10,000 held-out training images of CIFAR-10",
)
_LFW = Sums(
    model=SoftmaxRegression(mean=NoisedMean(0.2)),
    client_size=100,
    steps=20,
    rate=60.0,
    clip=0.5,
    features=_with_patches(PatchBlock(), LeafMap(k=400, power=0.25)),
    origin="about 465 settings tried on 567 held-out training images of LFW",
)
_ADULT = Sums(
    model=SoftmaxRegression(mean=NoisedMean(0.18), bias=0.3),
    client_size=3000,
    steps=20,
    rate=100.0,
    clip=0.3,
    origin="48 settings tried on a held-out fifth of Adult's training rows, at epsilon 0.28 against the server",
)
_CANCER = Sums(
    model=SoftmaxRegression(mean=NoisedMean(0.2), bias=0.5),
    client_size=106,
    steps=10,
    rate=30.0,
    clip=0.3,
    origin="584 settings tried in four folds of Cancer's training rows, at epsilon 3 against the server",
)
SUMS: dict[str, tuple[Sums, ...]] = {
    "mnist": (
        replace(_MNIST, most=0.15, model=CENTERED, features=_scattered(100), steps=8, rate=300.0),
        replace(_MNIST, most=0.45, model=CENTERED, steps=20, rate=500.0),
        replace(_MNIST, most=0.6, rate=1000.0),
        replace(_MNIST, most=0.75, model=_LIGHT, steps=20, rate=1000.0),
        replace(_MNIST, most=1.5),
        replace(_MNIST, features=_scattered(400), steps=20, rate=3000.0),
    ),
    "fashion-mnist": (
        replace(_FASHION, most=0.75),
        replace(_FASHION, most=1.5, steps=40, rate=3000.0, clip=0.1),
        replace(
            _FASHION,
            features=_with_patches(PatchBlock(keep=4), LeafMap(k=1600, power=0.4, objects=True)),
            steps=20,
            rate=5000.0,
        ),
    ),
    "cifar10": (
        replace(_CIFAR, most=1.5),
        replace(
            _CIFAR,
            model=_LIGHT,
            rate=3500.0,
        ),
    ),
    "lfw": (replace(_LFW, most=1.5), replace(_LFW, rate=240.0)),
    "adult": (_ADULT,),
    "cancer": (_CANCER,),
}
"""By dataset, in the order of the epsilon that they are meant for."""
WIDEST = 1000
"""Features beyond which a second moment, k (k + 1) / 2 numbers a client, is sent only where a preset asks for it."""
OTHER = "no data of yours: round numbers between the settings for published datasets"


def sums_for(dataset: Dataset, epsilon: float | None = None, threat_model: str = "aggregate") -> Preset:
    """Return fed-sum's preset for a dataset and what may be spent; other data get settings between those that have one.

    What K clients add to a sum hides it sqrt(K) times better than the noise of one, so an epsilon against the server
    is about epsilon / sqrt(K) against those who see the sum.
    """
    examples = len(dataset.train)
    tiers = _others(dataset) if dataset.own or dataset.name not in SUMS else SUMS[dataset.name]
    clients = len(dataset.client_names) or max(1, examples // tiers[0].client_size)
    spent = (USUAL if epsilon is None else epsilon) / (1.0 if threat_model in SUM_THREATS else math.sqrt(clients))
    return next(tier for tier in tiers if spent <= tier.most or tier is tiers[-1]).preset(examples)


def _others(dataset: Dataset) -> tuple[Sums, ...]:
    """Return settings for data that have none of their own: scattering for pictures, rows of tables as they are."""
    size = max(1, min(500, len(dataset.train) // 2))
    common = Sums(model=PREPARED, client_size=size, steps=10, rate=100.0, clip=0.3, origin=OTHER)
    if dataset.is_image and min(dataset.shape[:2]) >= _PICTURE:
        angles, why = _angles(dataset)
        features = Features(scattering=ScatteringBlock(angles=angles), map=RandomMap(k=400))
        pictures = replace(common, features=features, origin=f"{OTHER}; {why}")
        return tuple(replace(pictures, most=most, steps=steps, rate=rate) for most, steps, rate in _PICTURES)
    width = math.prod(dataset.shape)
    if dataset.target_range is not None:
        return (replace(common, model=NUMBERS, steps=20, clip=0.5, rate=max(1.0, width / 4)),)
    return (common if width <= WIDEST else replace(common, model=CENTERED),)


def _angles(dataset: Dataset) -> tuple[int, str]:
    """Return the most angles of scattering whose features take at most PATIENCE seconds of one core, and say why.

    It follows from the size of the data and a pace that was measured once, so the same data have the same settings on
    every machine.
    """
    numbers = math.prod(dataset.shape) * (len(dataset.train) + len(dataset.test))
    seconds = {angles: numbers * pace for angles, pace in PACES.items()}
    angles = next((angles for angles, long in seconds.items() if long <= PATIENCE), min(PACES))
    why = "as many as take at most" if seconds[angles] <= PATIENCE else "the fewest, though they take more than"
    return angles, (
        f"{angles} angles of scattering, about {max(1.0, seconds[angles]):.0f} s of one core for all pictures, {why} "
        f"{PATIENCE:.0f} s"
    )


PACES = {8: 0.6e-6, 4: 0.2e-6, 2: 0.1e-6}
"""Processor seconds of scattering for each number of a picture, by angles: measured on one x86 core and rounded up."""
PATIENCE = 240.0
"""Seconds that features may take, so that a run on two cores stays below five minutes with its steps."""
_PICTURES = ((0.15, 10, 300.0), (0.45, 10, 600.0), (1.5, 10, 1000.0), (math.inf, 20, 3000.0))
"""The largest epsilon of the sums over all clients, the steps of gradients and the learning rate for it."""
_PICTURE = 16
"""Pixels along each side from which scattering has something to tell."""
