"""Who does the works: each kind has one function, given the data and the shelf."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from gradveil.accounting.threats import account
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.attacks.distance import Cosine, Likelihood, SquaredL2
from gradveil.attacks.start import ClassMean, ConstantStart, Normal, Tiles, Uniform
from gradveil.attacks.zoo import ATTACKS
from gradveil.data.dataset import Dataset
from gradveil.engines.cache import let_go_of_programs
from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.federation.leaks import Tap
from gradveil.federation.plan import Plan
from gradveil.federation.server import Diverged
from gradveil.leakage import attack_run, scenes
from gradveil.leakage.attack_run import Outcome
from gradveil.leakage.scenes import Scene
from gradveil.reproduction import arithmetic
from gradveil.reproduction.job_cache import Shelf
from gradveil.reproduction.timing import seconds_per_step
from gradveil.reproduction.training_records import diverged, trained
from gradveil.reproduction.works import (  # fmt: skip
    Account,
    Attacked,
    Exhausted,
    Record,
    Setting,
    Size,
    Sound,
    Timed,
    Training,
    Tuned,
    Work,
    dataset_of,
    key_of,
)
from gradveil.runs import runner, store
from gradveil.runs.budget import Budget, expected_participations
from gradveil.runs.counted import planned
from gradveil.runs.runner import Options
from gradveil.surface import Surface

Tell = Callable[[str], None]
STARTS: dict[str, Any] = {
    "uniform": Uniform(), "normal": Normal(), "tiles 2x2": Tiles(2), "tiles 4x4": Tiles(4),
    "constant": ConstantStart(0.5), "class mean": ClassMean(),
}  # fmt: skip
DISTANCES: dict[str, Any] = {"squared L2": SquaredL2(), "cosine": Cosine(), "likelihood": Likelihood()}


SEEN = "released"
"""What the attacks of all tables read."""


class Unattackable(Exception):
    """There is no model to attack."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """Does works once and remembers them on the shelf.

    data: how a dataset is found by name. tell: is told what is going on. draw: makes a picture of an attack, which is
    kept beside its record; attacks on table rows have none.
    """

    shelf: Shelf
    data: Callable[[str], Dataset]
    tell: Tell = field(default=lambda note: None)
    draw: Callable[[Outcome], bytes] | None = None
    _digests: dict[str, str] = field(default_factory=dict)

    def do(self, work: Work) -> Record:
        """Give the record of a work, from the shelf if it is there."""
        if isinstance(work, Account | Exhausted | Setting):  # no sooner read than computed
            return self._done(work)
        found = self.known(work)
        if found is None:
            found = self._done(work) | {"made": date.today().isoformat(), "by": store.environment().packages}
            self.shelf.keep(self.key(work), found)
            let_go_of_programs()
        return found

    def known(self, work: Work) -> Record | None:
        """Give the record of a work if it is on the shelf."""
        if isinstance(work, Account | Exhausted | Setting):
            return self._done(work)
        return self.shelf.find(self.key(work))

    def lacks(self, name: str) -> bool:
        """Whether a dataset cannot be had."""
        try:
            self.data(name)
        except BadInput:
            return True
        return False

    def key(self, work: Work) -> str:
        """Name the record of a work."""
        name = dataset_of(work)
        return key_of(work, "" if name is None else self.digest(name))

    def digest(self, name: str) -> str:
        """Give the digest of a dataset, which takes a moment and is asked for often."""
        if name not in self._digests:
            self._digests[name] = self.data(name).digest()
        return self._digests[name]

    def _done(self, work: Work) -> Record:
        match work:
            case Training(plan):
                return self.train(plan)
            case Tuned():
                return self._tune(work)
            case Attacked():
                return self._attack(work)
            case Timed(plan):
                return {"seconds": seconds_per_step(plan, self.data(plan.dataset))}
            case Sound():
                return self._sound(work.plan)
            case Account():
                return {"value": arithmetic.epsilon(work)}
            case Exhausted():
                return {"value": arithmetic.rounds_until_spent(work)}
            case Setting():
                return {"value": arithmetic.setting(work)}
            case Size():
                return {"value": arithmetic.size(work.name, self.data(work.of))}

    def train(self, plan: Plan, watch: frozenset[int] = frozenset()) -> Record:
        """Train in the shelf's folder for this plan, from its checkpoint if there is one."""
        dataset, folder = self.data(plan.dataset), self.shelf.run_folder(self.key(Training(plan)))
        run = runner.prepare(plan, dataset, folder, Options(watch=watch, resume=True))
        try:
            for line in runner.proceed(run):
                self.tell(f"{plan.method.name} {plan.dataset}: round {line.round + 1} of {plan.rounds}")
        except Diverged:
            return diverged(run)
        return trained(run) | {"guarantees": [self._guarantee(run)]}

    def _guarantee(self, run: runner.Run) -> Record:
        """Account one adversary: the server, or for noise that only the server adds, whoever sees the model."""
        plan = run.plan
        held = run.budget.ledger(*planned(plan, run.budget, run.state, run.roots))
        return account(held, plan.delta, ADD_REMOVE, _adversary(plan)).plain()

    def _sound(self, plan: Plan) -> Record:
        """Account a whole plan without training it, for a client that is drawn as often as the busiest is."""
        dataset = self.data(plan.dataset)
        budget = Budget(plan, dataset, Population.of(plan, dataset).copies)
        held = budget.ledger(plan.rounds, expected_participations(plan))
        return {"guarantees": [account(held, plan.delta, ADD_REMOVE, _adversary(plan)).plain()]}

    def _tune(self, work: Tuned) -> Record:
        tried = {
            rate: self._held_out(replace(work.plan, learning_rate=rate, rounds=work.rounds)) for rate in work.rates
        }
        # The smaller rate where two are equal: it is the safer one over more rounds.
        best = max(work.rates, key=lambda rate: (tried[rate], -rate))
        record = self.do(Training(replace(work.plan, learning_rate=best)))
        return record | {"search": [[rate, tried[rate]] for rate in work.rates], "search_rounds": work.rounds}

    def _held_out(self, plan: Plan) -> float:
        """Train a trial and score it on the validation split: the test split plays no part."""
        dataset = self.data(plan.dataset)
        if dataset.validation is None:
            raise ValueError(f"{plan.dataset} has no split held out for choices")
        record = self.do(Training(plan))
        return float(record["held_out"] or 0.0)

    def _attack(self, work: Attacked) -> Record:
        value: Any = ATTACKS[work.attack].value
        changes: dict[str, Any] = {"iterations": work.iterations} if work.iterations is not None else {}
        changes |= {"start": STARTS[work.start]} if work.start is not None else {}
        changes |= {"distance": DISTANCES[work.distance]} if work.distance is not None else {}
        try:
            scene = self._scene(work)
        except Unattackable:
            return {"per_victim": [], "success_rate": None, "candidates": []}
        self.tell(f"{work.attack} against {work.plan.method.name} on {work.plan.dataset}, surface {work.surface}")
        outcome = attack_run.attack(scene, replace(value, **changes), work.victims, seed=work.seed, beside=work.beside)
        if self.draw is not None and scene.dataset.is_image:
            store.write(self.shelf.picture(self.key(work)), self.draw(outcome))
        return outcome.record.plain()

    def _scene(self, work: Attacked) -> Scene:
        dataset, surface = self.data(work.plan.dataset), Surface(work.surface)
        if work.round is None:
            tap = Tap(surface, SEEN, surface is Surface.EXAMPLE and work.plan.batch == 1)
            return scenes.fresh(work.plan, dataset, tap)
        # Plans that differ only in their last round share a start, so each round is attacked in a run that ends there.
        plan = replace(work.plan, rounds=max(1, work.round))
        if self.train(plan, watch=frozenset({0, work.round}))["diverged"]:
            raise Unattackable(f"training diverged before round {work.round}")
        folder = self.shelf.run_folder(self.key(Training(plan)))
        return scenes.of_run(folder, plan, dataset, Tap.at(plan, surface, SEEN), (work.round,))


def _adversary(plan: Plan) -> str:
    """Name whom a method can hold off at best: the server, or where only that adds noise, whoever sees the models."""
    return "client-central" if plan.method.surface is Surface.SERVER else "server"
