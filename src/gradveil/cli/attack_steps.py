"""What `gradveil attack` does: read gradients of a run or of an untrained network, and reconstruct data from them."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from gradveil import codec, own_code
from gradveil.attacks.attack import Attack, mountable
from gradveil.attacks.fishing import Fishing
from gradveil.attacks.imprint import Imprint
from gradveil.attacks.labels import Granted
from gradveil.attacks.matching import Matching
from gradveil.attacks.prior import Gaussian
from gradveil.attacks.score import RULES
from gradveil.attacks.zoo import ATTACKS, INFERENCES, MALICIOUS, MAP_PRIORS
from gradveil.cli import attack_output
from gradveil.cli.attack_request import AttackRequest
from gradveil.cli.output import bar, emit_json
from gradveil.cli.round_numbers import rounds_from
from gradveil.data.dataset import Dataset
from gradveil.data.sources import load, locate
from gradveil.errors import BadInput
from gradveil.federation.leaks import AGGREGATE, Tap
from gradveil.federation.plan import NoiseSource
from gradveil.fields import whole
from gradveil.keys import LARGEST_SEED
from gradveil.leakage import attack_run, scenes
from gradveil.leakage.attack_run import Outcome
from gradveil.leakage.scenes import Scene
from gradveil.names import pick
from gradveil.reports import attack_files
from gradveil.runs import store
from gradveil.runs.presets import chosen, resolve
from gradveil.runs.shorthand import Tweaks, method_named
from gradveil.surface import Surface

MOST_TRIES = 1_000_000
"""Iterations or restarts of an attack beyond which nobody waits for its end."""
UNTRAINED_ONLY = (
    "dataset",
    "method",
    "local_steps",
    "cohort",
    "lr",
    "target",
    "sigma",
    "clip",
    "decay",
    "sigma_end",
    "draw",
    "sensitivity",
)
"""Options that a run folder has already decided."""
SURFACES = {str(int(surface)): surface for surface in Surface}


def execute(request: AttackRequest) -> None:
    """Attack gradients at one of the three surfaces, judge what was recovered, and write the record."""
    trap = _trap(request)
    mounted = _with_prior(request) if trap is None else trap
    surface = pick("surface", request.surface, SURFACES)
    pick("rule", request.rule, RULES)
    if not 0 <= request.seed <= LARGEST_SEED:
        raise BadInput(f"seed = {request.seed}: must lie between 0 and {LARGEST_SEED}")
    scene = _trained(request, surface) if request.run is not None else _untrained(request, surface)
    if trap is not None:
        scene = _baited(scene, trap, request.seed)
    if request.told_labels and request.name in INFERENCES:
        raise BadInput(f"--told-labels: the attack {request.name!r} has no use for labels")
    if request.told_labels:
        scene, mounted = replace(scene, told_labels=True), _with_labels(mounted)
    outcome = carry_out(scene, mounted, scenes.counted(scene, request.victims), request.rule, request.seed)
    usual = Path("runs") / "attacks" if request.run is None else request.run / "attacks"
    saved = attack_files.save(outcome, scene, request.out or usual, request.keep_truth)
    if request.as_json:
        files = {"record": str(saved.record), "gallery": str(saved.gallery) if saved.gallery else None}
        return emit_json(outcome.record.plain() | files)
    attack_output.show(outcome.record, saved)


def _trained(request: AttackRequest, surface: Surface) -> Scene:
    """Set the scene in a run folder, whose plan decides most of it."""
    folder = request.run or Path()
    for name in UNTRAINED_ONLY:
        if getattr(request, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise BadInput(f"{option}: only for an untrained network (--dataset); the run {str(folder)!r} has its plan")
    if request.readings != 1:
        raise BadInput("--readings: only for an untrained network; for a run give several rounds: --round 0,1,10")
    if request.network not in (None, "trained"):
        raise BadInput(f"network = {request.network!r}: a run is attacked on the network it trained")
    return _of_run(folder, request.data_dir, surface, request.view, request.rounds, request.batch)


def _untrained(request: AttackRequest, surface: Surface) -> Scene:
    """Set the scene on a network of fresh weights, as the paper does."""
    if request.dataset is None:
        raise BadInput("attack: give a run folder, or a dataset with --dataset")
    if request.rounds:
        raise BadInput("--round: only for a run folder; an untrained network has done no round")
    whole("readings", request.readings, most=scenes.MOST_READINGS)
    data = load(request.dataset, data_dir=request.data_dir, target=request.target)
    return _fresh(request, data, surface)


def _trap(request: AttackRequest) -> Imprint | Fishing | None:
    """Take the attack of a malicious server by name; None if the server is honest."""
    if not pick("server", request.server, {"honest": False, "malicious": True}):
        if request.name in MALICIOUS:
            raise BadInput(
                f"attack = {request.name}: changes the weights that are sent, so it needs --server malicious"
            )
        return None
    if request.run is not None:
        raise BadInput("--server malicious: only for an untrained network (--dataset); the server of a run was honest")
    for option in ("iterations", "restarts", "prior"):
        if getattr(request, option) is not None:
            raise BadInput(f"{option}: the attack {request.name!r} takes no such number")
    if request.told_labels:
        raise BadInput(f"--told-labels: the attack {request.name!r} has no use for labels")
    return pick("attack", request.name, MALICIOUS).value


def _baited(scene: Scene, trap: Imprint | Fishing, seed: int) -> Scene:
    """Return the scene with the weights that the server sends in place of those it drew."""
    leak, _ = attack_run.leak_of(scene, int(scene.victims(1, seed)[0]), attack_run.public_half(scene.dataset))
    trap.refuse(leak)
    return scenes.fresh(scene.plan, scene.dataset, scene.tap, scene.readings, trap.planted(leak))


def _named(name: str) -> Any:
    """Return an attack of ours by its name, or the user's own, `package.module:Name`."""
    if not own_code.is_name(name):
        return pick("attack", name, ATTACKS | INFERENCES).value
    with own_code.may_import():
        return mountable(codec.own_part(name, "attack", {}))


def _attack(name: str, iterations: int | None, restarts: int | None) -> Attack:
    """Take an attack by name, with another budget if one is given."""
    value: Any = _named(name)
    fields = getattr(value, "__dataclass_fields__", {})
    changes = {k: v for k, v in {"iterations": iterations, "restarts": restarts}.items() if v is not None}
    for option in changes:
        if option not in fields:
            raise BadInput(f"{option}: the attack {name!r} takes no such number")
        whole(option, changes[option], most=MOST_TRIES)
    changed: Attack = replace(value, **changes) if changes else value
    return changed


def _with_prior(request: AttackRequest) -> Attack:
    """Take the attack that is asked for, with the prior that is asked for."""
    chosen = _attack(request.name, request.iterations, request.restarts)
    if request.prior is None:
        return chosen
    prior = pick("prior", request.prior, MAP_PRIORS)
    if not (isinstance(chosen, Matching) and isinstance(chosen.prior, Gaussian)):
        raise BadInput(f"prior = {request.prior}: the attack {request.name!r} takes none; map and unrolled do")
    return replace(chosen, prior=prior)


def _with_labels(chosen: Any) -> Attack:
    """Let an attack take the labels that it is told."""
    with_labels: Attack = replace(chosen, labels=Granted())
    return with_labels


def _of_run(folder: Path, data_dir: Path | None, surface: Surface, view: str, rounds: str, batch: int | None) -> Scene:
    plan = store.read_plan(folder)
    data = load(plan.dataset, data_dir=data_dir, **plan.loading)
    tap = Tap.at(plan, surface, view)
    if batch is not None:
        if batch not in (plan.batch, 1) or (batch == 1 and not tap.single and plan.batch != 1):
            raise BadInput(
                f"batch = {batch}: this run shows batches of {1 if tap.single else plan.batch} at this surface"
            )
        tap = replace(tap, single=batch == 1 and surface is Surface.EXAMPLE)
    wanted = tuple(sorted(rounds_from(rounds, "round"))) if rounds else None
    return scenes.of_run(folder, plan, data, tap, wanted)


def _fresh(request: AttackRequest, data: Dataset, surface: Surface) -> Scene:
    """Resolve the plan that an untrained network is attacked under."""
    for key in ("batch", "local_steps"):
        if getattr(request, key) is not None:
            whole(key, getattr(request, key))
    Tap(surface, request.view)
    if request.cohort is not None and request.view != AGGREGATE:
        raise BadInput("--cohort: only for --view aggregate; the other views read one client")
    changes = {"learning_rate": request.lr, "seed": request.seed, "target": request.target}
    given = {key: value for key, value in changes.items() if value is not None}
    tweaks = Tweaks(**{field.name: getattr(request, field.name) for field in fields(Tweaks)})
    method = tweaks.of(chosen(method_named(request.method or "non-private"), data))
    plan = resolve(locate(request.dataset or ""), data, method, given)
    own = plan.features is not None or bool(plan.preparation)
    usual = "attack" if data.is_image and min(data.shape[:2]) >= 8 and not own else "trained"
    model = pick("network", request.network or usual, scenes.networks(plan.model))
    # Features are those of the trained model; another network reads the examples themselves.
    features = plan.features if model == plan.model else None
    plan = replace(plan, model=model, features=features, noise_source=NoiseSource.SEEDED)
    plan = scenes.as_paper(plan, surface, request.batch, request.local_steps)
    if request.cohort is not None:
        plan = replace(plan, cohort=whole("cohort", request.cohort))
    tap = Tap(surface, request.view, surface is Surface.EXAMPLE and plan.batch == 1)
    return scenes.fresh(plan, data, tap, request.readings)


def carry_out(scene: Scene, chosen: Attack, victims: int, rule: str, seed: int) -> Outcome:
    """Attack with a progress bar of victims; then a note counts those whose records were told from others."""
    with bar(f"{chosen.name} at surface {int(scene.tap.surface)}", victims, 0) as advance:

        def told_apart(victim: int) -> None:
            advance(f"picking records out of others: {victim + 1} of {victims}", 0)

        return attack_run.attack(
            scene, chosen, victims, rule, seed, done=lambda victim: advance(""), told_apart=told_apart
        )
