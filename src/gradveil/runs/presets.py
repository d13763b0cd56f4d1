"""The settings of the paper for each dataset, and gradveil's own for data that the paper does not use."""

from dataclasses import dataclass, field, replace
from typing import Any

from gradveil.data.dataset import Dataset
from gradveil.data.partition import Iid, Partition, TwoShards
from gradveil.data.sampling import CohortSampling, FixedPass, Poisson, Sampling
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.fields import settle_given
from gradveil.methods import METHODS
from gradveil.models.networks import Cnn, Mlp, Model
from gradveil.privacy.clip import Clip, Flat, PerLayer, Unclipped
from gradveil.privacy.method import Method
from gradveil.privacy.schedule import Constant
from gradveil.surface import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Learning rates by family of method, which the paper does not give; see docs/decisions/0003-learning-rates.md."""

    plain: float
    server: float
    example: float

    def of(self, method: Method) -> float:
        """Choose by where noise is added: nowhere that training feels, on whole updates, or on every local step."""
        if method.noise.silent or isinstance(method.clip, Unclipped):
            return self.plain
        return self.example if method.surface is Surface.EXAMPLE else self.server


PAPER_CLIP, PAPER_SIGMA = PerLayer(4.0), 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One column of the paper's table of datasets: |D_i|, L, B, T; by default N = 1000, K = 100, C = 4, sigma = 6.

    `clip` and `sigma` replace the paper's in a method that is asked for by name.
    """

    client_size: int
    local_steps: int
    batch: int
    rounds: int
    rates: Rates
    model: Model
    clients: int = 1000
    cohort: int = 100
    clip: Clip = PAPER_CLIP
    sigma: float = PAPER_SIGMA
    partition: Partition = field(default_factory=TwoShards)
    sampling: Sampling = field(default_factory=FixedPass)
    cohort_sampling: CohortSampling = CohortSampling.FIXED


PRESETS: dict[str, Preset] = {
    "mnist": Preset(
        client_size=500,
        local_steps=100,
        batch=5,
        rounds=100,
        model=Cnn(),
        rates=Rates(plain=0.1, server=0.1, example=0.002),
    ),
    "cifar10": Preset(
        client_size=400,
        local_steps=100,
        batch=4,
        rounds=100,
        model=Cnn(),
        rates=Rates(plain=0.03, server=0.03, example=0.003),
    ),
    "lfw": Preset(
        client_size=300,
        local_steps=100,
        batch=3,
        rounds=60,
        model=Cnn(),
        rates=Rates(plain=0.03, server=0.03, example=0.003),
    ),
    "adult": Preset(
        client_size=300,
        local_steps=100,
        batch=3,
        rounds=10,
        model=Mlp(),
        rates=Rates(plain=0.3, server=0.03, example=0.003),
    ),
    "cancer": Preset(
        client_size=400,
        local_steps=100,
        batch=4,
        rounds=3,
        model=Mlp(),
        rates=Rates(plain=0.3, server=0.03, example=0.003),
    ),
    "digits": Preset(
        client_size=134,
        local_steps=1,
        batch=67,
        rounds=100,
        model=Mlp(hidden=(64,)),
        clients=10,
        cohort=10,
        clip=Flat(1.0),
        sigma=7.0,
        partition=Iid(),
        sampling=Poisson(),
        rates=Rates(plain=1.0, server=1.0, example=0.7),
    ),
}


def preset_for(dataset: Dataset) -> Preset:
    """Return a dataset's preset; for other data, one that any table or picture set of its size can run."""
    if dataset.name in PRESETS and not dataset.own:
        return PRESETS[dataset.name]
    clients = max(2, min(10, len(dataset.train) // 100))
    size = len(dataset.train) // clients
    return replace(
        PRESETS["digits"],
        clients=clients,
        cohort=clients,
        client_size=size,
        batch=max(1, size // 2),
        model=Cnn() if dataset.is_image and min(dataset.shape[:2]) >= 10 else Mlp(hidden=(64,)),
        rates=Rates(plain=0.3, server=0.3, example=0.3),
    )


def fitted(method: Method, dataset: Dataset) -> Method:
    """Return a method asked for by name the clip and noise scale of the dataset's preset, where it has the paper's."""
    preset = preset_for(dataset)
    clip = preset.clip if method.clip == PAPER_CLIP else method.clip
    noise = Constant(preset.sigma) if method.noise == Constant(PAPER_SIGMA) else method.noise
    return replace(method, clip=clip, noise=noise)


def chosen(method: Method, dataset: Dataset) -> Method:
    """Return the method to train: one of ours fits itself to the dataset, one of your own stays as it is.

    It makes no difference whether one of ours was named or handed over; the plan shows the clip and noise that result.
    """
    ours = METHODS.get(method.name)
    return fitted(method, dataset) if ours is not None and ours.value == method else method


def resolve(name: str, dataset: Dataset, method: Method, changes: dict[str, Any]) -> Plan:
    """Fill a plan: what the user changed, else the preset's, made to fit; the learning rate follows the family."""
    preset, changes = preset_for(dataset), settle_given(Plan, changes)
    source = NoiseSource.SECRET if dataset.own else NoiseSource.SEEDED
    given = {name: getattr(preset, name) for name in preset.__dataclass_fields__ if name in Plan.__dataclass_fields__}
    settled = given | {"learning_rate": preset.rates.of(method), "noise_source": source} | changes
    if isinstance(preset.partition, Iid) and "clients" in changes and "client_size" not in changes:
        settled["client_size"] = max(1, len(dataset.train) // max(settled["clients"], 1))
    for part, whole in (("cohort", "clients"), ("batch", "client_size")):
        if part not in changes:
            settled[part] = min(settled[part], settled[whole])
    return Plan(dataset=name, method=method, **settled)
