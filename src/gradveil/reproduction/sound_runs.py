"""Fills the table of sound accuracy: every run once, each on disk before the next begins."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gradveil import codec
from gradveil.accounting.accountant import account
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.calibration.plan_noise import meet
from gradveil.data.dataset import Dataset
from gradveil.engines.cache import drop_programs_if_many
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.evaluate import score
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.federation.plan_data import data_for
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.models.features.maps import RandomMap
from gradveil.reproduction.sound_cells import PROJECTED, SoundRecord, SoundSetting, settings
from gradveil.reproduction.sound_records import SoundRecords
from gradveil.runs import store
from gradveil.runs.budget import Budget
from gradveil.runs.counted import planned
from gradveil.runs.resolving import resolved
from gradveil.runs.shorthand import Tweaks

WITH_VALIDATION = ("mnist",)
"""Datasets with a split that was held out for choices; choices are made, so it is trained on too."""


@dataclass(slots=True)
class SoundDriver:
    """Runs what is missing among the records.

    load: finds a dataset, by name and `train_all` where it is given. lacking: sentences about missing datasets.
    minutes: after which no further run is begun; None is no limit. progress: is called with a note of what is trained.
    """

    records: SoundRecords
    load: Callable[..., Dataset]
    seeds: int
    minutes: float | None = None
    progress: Callable[[str], None] = lambda note: None
    clock: Callable[[], float] = time.monotonic
    lacking: dict[str, str] = field(default_factory=dict)

    def fill(self, datasets: Sequence[str]) -> None:
        """Run every cell that has no record of the same plan, those of fed-sum first; stale records are dropped."""
        began = self.clock()
        for setting in sorted(settings(datasets), key=lambda setting: setting.method == "fed-cdp"):
            if self._late(began):
                return
            if setting.is_run and setting.dataset not in self.lacking:
                self._fill(setting, began)

    def _late(self, began: float) -> bool:
        return self.minutes is not None and self.clock() - began >= 60 * self.minutes

    def _fill(self, setting: SoundSetting, began: float) -> None:
        try:
            dataset = self._data(setting.dataset)
        except BadInput as error:
            self.lacking[setting.dataset] = str(error)
            return
        plans = plans_of(setting, dataset, self._data, self.seeds)
        self._drop_stale(setting, plans)
        for plan in plans:
            if self._late(began):
                return
            self._run(setting, plan, dataset)

    def _data(self, name: str, **given: object) -> Dataset:
        return self.load(name, **given | ({"train_all": True} if name in WITH_VALIDATION else {}))

    def _drop_stale(self, setting: SoundSetting, plans: Sequence[Plan]) -> None:
        """Forget all runs of this cell if one had other settings: a mean over both would be of neither."""
        rows, digests = self.records.read(), {plan.seed: codec.digest(plan) for plan in plans}
        of_it = [record for record in rows if record.setting == setting]
        if any(digests.get(record.seed, record.plan_sha256) != record.plan_sha256 for record in of_it):
            self.records.write(record for record in rows if record.setting != setting)

    def _run(self, setting: SoundSetting, plan: Plan, dataset: Dataset) -> None:
        """Train a plan that has no record, and add its record."""
        rows = self.records.read()
        digest = codec.digest(plan)
        if any(record.plan_sha256 == digest for record in rows):
            return
        self.progress(
            f"{setting.dataset} {setting.method}: epsilon {setting.target_epsilon:g} against {setting.threat_model}, "
            f"seed {plan.seed}"
        )
        self.records.write([*rows, trained(setting, plan, dataset)])
        drop_programs_if_many()


def plans_of(setting: SoundSetting, dataset: Dataset, load: Callable[..., Dataset], seeds: int) -> list[Plan]:
    """Return the preset's plan of each seed, with the least noise for the target epsilon.

    Where cohorts are drawn, the seed decides how often the busiest client takes part, and so the noise.
    """
    method = "fed-sum" if setting.method == PROJECTED else setting.method
    fields = {"dataset": setting.dataset, "method": method, "threat_model": setting.threat_model}
    given = fields | ({"train_all": True} if setting.dataset in WITH_VALIDATION else {})
    plan = resolved({}, given, Tweaks(), load, setting.target_epsilon)[0]
    plan = projected(plan) if setting.method == PROJECTED else plan
    seeded = [replace(plan, seed=seed) for seed in range(seeds)]
    if plan.cohort < plan.clients:
        return [meet(one, dataset, setting.target_epsilon) for one in seeded]
    met = meet(plan, dataset, setting.target_epsilon)
    return [replace(met, seed=one.seed) for one in seeded]


def projected(plan: Plan) -> Plan:
    """Return the plan with a random projection in place of its fitted map.

    To 400 features, which did better than 200, 300 and 600 on held-out training images of MNIST.
    """
    assert plan.features is not None  # those of pictures, the only ones that are asked for
    return replace(plan, features=replace(plan.features, map=RandomMap(k=400)))


def trained(setting: SoundSetting, plan: Plan, dataset: Dataset) -> SoundRecord:
    """Train a plan to its last round, then score it and account what it spent; nothing is written meanwhile."""
    data = data_for(plan, dataset)
    population, roots = Population.of(plan, data), Keys.of(plan.seed, plan.noise_source is NoiseSource.SECRET)
    engine, state = Vectorized(plan, population), server.init(plan, data.shape, len(data.classes), roots)
    began = time.perf_counter()
    for done in rounds(plan, engine, state, roots):
        state = done.state
    seconds = time.perf_counter() - began
    budget = Budget(plan, data, population.copies)
    ledger = budget.ledger(*planned(plan, budget, state, roots))
    spent = account(ledger, plan.delta, ADD_REMOVE, setting.threat_model)
    return SoundRecord(
        dataset=setting.dataset,
        method=setting.method,
        threat_model=setting.threat_model,
        target_epsilon=setting.target_epsilon,
        epsilon=spent.epsilon,
        delta=plan.delta,
        unit=spent.unit,
        seed=plan.seed,
        accuracy=score(plan.model, server.model_of(plan, state), data.test).accuracy or 0.0,
        rounds=state.round,
        seconds=round(seconds, 2),
        plan_sha256=codec.digest(plan),
        data_sha256=dataset.digest(),
        versions=store.environment().packages,
    )
