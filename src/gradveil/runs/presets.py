"""The settings of the paper for each dataset, and gradveil's own for data that the paper does not use."""

from dataclasses import replace
from typing import Any

import numpy as np

from gradveil.data.dataset import Dataset
from gradveil.data.natural_clients import refuse_one
from gradveil.data.partition import Iid
from gradveil.data.sampling import Poisson, Whole
from gradveil.errors import BadInput
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.fields import settle_given
from gradveil.methods import FED_CDP, FED_SUM, METHODS
from gradveil.models.adapters import adapted_in
from gradveil.models.networks import Cnn, Mlp
from gradveil.privacy.clip import Flat
from gradveil.privacy.method import Method
from gradveil.privacy.schedule import Constant
from gradveil.runs import client_shares
from gradveil.runs.preset_kinds import Preset, Rates
from gradveil.runs.sum_presets import sums_for

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
        origin="32 trials at epsilon 3 on held-out digits, docs/decisions/0003-learning-rates.md",
    ),
}


def preset_for(
    dataset: Dataset, method: Method | None = None, epsilon: float | None = None, threat_model: str = "aggregate"
) -> Preset:
    """Return a dataset's preset; for other data, one that any table or picture set of its size can run.

    epsilon, threat_model: what may be spent against whom, on which fed-sum's settings depend.
    """
    if method is not None and method.name == FED_SUM.name:
        return sums_for(dataset, epsilon, threat_model)
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
        origin="no data of yours: those of digits with a lower learning rate, sized by the data",
    )


def fitted(method: Method, dataset: Dataset, epsilon: float | None = None, threat_model: str = "aggregate") -> Method:
    """Return a method with the clip and noise scale of the dataset's preset, wherever it has the usual ones."""
    preset = preset_for(dataset, method, epsilon, threat_model)
    usual = FED_SUM if method.name == FED_SUM.name else FED_CDP
    clip = preset.clip if method.clip == usual.clip else method.clip
    noise = Constant(preset.sigma) if method.noise == usual.noise else method.noise
    return replace(method, clip=clip, noise=noise)


def chosen(
    method: Method, dataset: Dataset, changes: dict[str, Any] | None = None, target_epsilon: float | None = None
) -> Method:
    """Return the method to train: one of ours fits itself to the dataset, one of your own stays as it is.

    It makes no difference whether one of ours was named or handed over; the plan shows the clip and noise that result.
    changes, target_epsilon: as for `resolve`, since the clip of a preset may depend on what is spent against whom.
    """
    ours = METHODS.get(method.name)
    if ours is None or ours.value != method:
        return method
    return fitted(method, dataset, target_epsilon, _against(changes or {}, target_epsilon))


def _against(changes: dict[str, Any], target_epsilon: float | None) -> str:
    """Return whom a preset is meant to hold against: a target is one against the server, as of a plan, unless given."""
    return str(changes.get("threat_model", "aggregate" if target_epsilon is None else "server"))


def _named(dataset: Dataset, changes: dict[str, Any]) -> dict[str, Any]:
    """Return who the clients are where the data or the nodes name them: settings that the user then cannot make."""
    if dataset.owners is None:
        given_sizes = changes["client_sizes"]
        return {"cohort": len(given_sizes), "batch": max(1, max(given_sizes) // 2)}
    refuse_one(dataset.client_names)
    sizes = tuple(np.bincount(dataset.owners, minlength=len(dataset.client_names)).tolist())
    most = max(sizes)
    given = {"clients": len(sizes), "client_size": most, "client_sizes": sizes, "partition": Iid()}
    for name, value in given.items():
        if changes.get(name, value) != value:
            raise BadInput(f"{name}: is given by the data, which name the clients; leave it or client_column out")
    return given | {"cohort": len(sizes), "batch": max(1, most // 2)}


def resolve(
    name: str, dataset: Dataset, method: Method, changes: dict[str, Any], target_epsilon: float | None = None
) -> Plan:
    """Return a plan of the preset with the user's changes; the default learning rate depends on the method.

    target_epsilon: what the noise will be scaled to, on which some presets depend; the noise itself is not changed.
    """
    given, words = client_shares.divided_by_form(changes)
    changes = settle_given(Plan, adapted_in(given))
    preset = preset_for(dataset, method, target_epsilon, _against(changes, target_epsilon))
    source = NoiseSource.SECRET if dataset.own else NoiseSource.SEEDED
    defaults = {
        name: getattr(preset, name) for name in preset.__dataclass_fields__ if name in Plan.__dataclass_fields__
    }
    if dataset.owners is not None or changes.get("client_names"):
        defaults |= _named(dataset, changes)
    settled = defaults | {"learning_rate": preset.rates.of(method), "noise_source": source} | changes
    if (
        dataset.owners is None
        and isinstance(preset.partition, Iid)
        and "clients" in changes
        and "client_size" not in changes
    ):
        settled["client_size"] = max(1, len(dataset.train) // max(settled["clients"], 1))
    for part, limit in (("cohort", "clients"), ("batch", "client_size")):
        if part not in changes:
            everyone = isinstance(settled["sampling"], Whole)
            settled[part] = settled[limit] if everyone else min(settled[part], settled[limit])
    settled |= client_shares.numbers(words, dataset, settled.get("client_sizes") or (), settled["batch"])
    return Plan(dataset=name, method=method, **settled)
