"""`gradveil attack`: what an adversary makes of a plan's or a run's gradients."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gradveil.attacks.attack import Attack
from gradveil.attacks.labels import Granted
from gradveil.attacks.score import RULES
from gradveil.attacks.zoo import ATTACKS
from gradveil.cli import attack_output
from gradveil.cli.choices import Tweaks, method_named, pick, rounds_from
from gradveil.cli.output import bar, emit_json
from gradveil.data.dataset import Dataset
from gradveil.data.sources import load, locate
from gradveil.errors import BadInput
from gradveil.federation.leaks import Tap
from gradveil.federation.plan import NoiseSource
from gradveil.fields import whole
from gradveil.keys import LARGEST_SEED
from gradveil.leakage import attack_run, scenes
from gradveil.leakage.attack_run import Outcome
from gradveil.leakage.scenes import Scene
from gradveil.runs import store
from gradveil.runs.presets import chosen, resolve
from gradveil.surface import Surface

Opt = typer.Option
MOST_TRIES = 1_000_000
"""Iterations or restarts of an attack beyond which nobody waits for its end."""
SURFACES = {str(int(surface)): surface for surface in Surface}


def attack(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run folder; else --dataset.")] = None,
    dataset: Annotated[str | None, Opt(help="A name from `gradveil data list`, or a path to your own data.")] = None,
    target: Annotated[str | None, Opt(help="The column to predict, for a CSV file.")] = None,
    data_dir: Annotated[Path | None, Opt(help="Folder to look for datasets in first.")] = None,
    method: Annotated[str | None, Opt(help="A name from `gradveil list methods`; non-private if not given.")] = None,
    surface: Annotated[str, Opt(help="0 the server, 1 the client's update, 2 during local training.")] = "2",
    name: Annotated[str, Opt("--attack", help="A name from `gradveil list attacks`.")] = "cpl",
    victims: Annotated[int | None, Opt(help="How many clients are attacked; 10, or all if there are fewer.")] = None,
    iterations: Annotated[int | None, Opt(help="Most iterations; the attack's own number if not given.")] = None,
    view: Annotated[str, Opt(help="released; or arriving (surface 0), in_memory (surface 2).")] = "released",
    rounds: Annotated[str, Opt("--round", help="Of a run: rounds done before the reading; several are fused.")] = "",
    batch: Annotated[int | None, Opt(help="B; on a fresh network 1 at surface 2, else 3.")] = None,
    local_steps: Annotated[int | None, Opt(help="L on a fresh network, 1 if not given.")] = None,
    network: Annotated[str | None, Opt(help="attack, trained, or mlp (dense, with biases).")] = None,
    readings: Annotated[int, Opt(help="On a fresh network: how often the same record is read.")] = 1,
    told_labels: Annotated[bool, Opt("--told-labels", help="Tell the adversary the labels.")] = False,
    rule: Annotated[str, Opt(help="When an attack succeeds: default, paper or loss.")] = "default",
    restarts: Annotated[int | None, Opt(help="Starts of which the one with the smallest loss counts.")] = None,
    lr: Annotated[float | None, Opt(help="Learning rate of the clients.")] = None,
    clip: Annotated[str | None, Opt(help="C, or flat:C, or per-layer:C.")] = None,
    sigma: Annotated[float | None, Opt(help="Noise scale.")] = None,
    decay: Annotated[str | None, Opt(help="A name from `gradveil list decays`.")] = None,
    sigma_end: Annotated[float | None, Opt(help="Where the decay ends.")] = None,
    draw: Annotated[str | None, Opt(help="Noise for each unit, the sum, or the mean.")] = None,
    sensitivity: Annotated[str | None, Opt(help="clip-bound, l2-max, l2-max-of-mean, l2-max-as-coded.")] = None,
    keep_truth: Annotated[
        bool,
        Opt("--keep-truth", help="Own data: keep true records beside what was recovered, for report --show-truth."),
    ] = False,
    seed: Annotated[int, Opt(help="Decides the network, the victims and the starts.")] = 0,
    out: Annotated[Path | None, Opt(help="Folder for the record and the gallery.")] = None,
    as_json: Annotated[bool, Opt("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Attack gradients at one of the three surfaces and judge what was recovered.

    With --dataset: a fresh network and its first local step, as the paper. With a run folder: what was trained.
    """
    chosen = _attack(name, iterations, restarts)
    where = pick("surface", surface, SURFACES)
    pick("rule", rule, RULES)
    if not 0 <= seed <= LARGEST_SEED:
        raise BadInput(f"seed = {seed}: must lie between 0 and {LARGEST_SEED}")
    tweaks = Tweaks(clip=clip, sigma=sigma, decay=decay, sigma_end=sigma_end, draw=draw, sensitivity=sensitivity)
    fresh_only = {
        "--dataset": dataset, "--method": method, "--local-steps": local_steps, "--lr": lr, "--target": target,
        "--sigma": sigma, "--clip": clip, "--decay": decay, "--sigma-end": sigma_end, "--draw": draw,
        "--sensitivity": sensitivity,
    }  # fmt: skip
    if run is not None:
        unfit = [option for option, value in fresh_only.items() if value is not None]
        if unfit:
            raise BadInput(f"{unfit[0]}: belongs to a fresh network; the plan of {str(run)!r} is already settled")
        if readings != 1:
            raise BadInput("--readings: name several rounds of a run with --round 0,1,10 instead")
        if network not in (None, "trained"):
            raise BadInput(f"network = {network!r}: a run is attacked on the network it trained")
        scene = _of_run(run, data_dir, where, view, rounds, batch)
    else:
        if dataset is None:
            raise BadInput("attack: name a run folder, or a dataset with --dataset")
        if rounds:
            raise BadInput("--round: belongs to a run folder; a fresh network has done no round")
        whole("readings", readings, most=scenes.MOST_READINGS)
        data = load(dataset, data_dir=data_dir, target=target)
        changes = {"learning_rate": lr, "seed": seed, "target": target}
        scene = _fresh(dataset, data, method or "non-private", tweaks, changes, where, view, batch, local_steps, network, readings)  # fmt: skip  # noqa: E501
    folder = out or (run / "attacks" if run is not None else Path("runs") / "attacks")
    if told_labels:
        scene, chosen = replace(scene, told_labels=True), _with_labels(chosen)
    outcome = carry_out(scene, chosen, scenes.counted(scene, victims), rule, seed)
    saved = attack_output.save(outcome, scene, folder, keep_truth)
    if as_json:
        places = {"record": str(saved.record), "gallery": str(saved.gallery) if saved.gallery else None}
        return emit_json(outcome.record.plain() | places)
    attack_output.show(outcome.record, saved)


def _attack(name: str, iterations: int | None, restarts: int | None) -> Attack:
    """Take an attack by name, with another budget if one is given."""
    value: Any = pick("attack", name, ATTACKS).value
    fields = value.__dataclass_fields__
    changes = {k: v for k, v in {"iterations": iterations, "restarts": restarts}.items() if v is not None}
    for option in changes:
        if option not in fields:
            raise BadInput(f"{option}: the attack {name!r} takes no such number")
        whole(option, changes[option], most=MOST_TRIES)
    changed: Attack = replace(value, **changes)
    return changed


def _with_labels(chosen: Any) -> Attack:
    """Let an attack take the labels that it is told."""
    told: Attack = replace(chosen, labels=Granted())
    return told


def _of_run(folder: Path, data_dir: Path | None, surface: Surface, view: str, rounds: str, batch: int | None) -> Scene:
    if not (folder / store.PLAN).exists():
        raise BadInput(f"{str(folder)!r}: is not a run folder")
    plan = store.read_plan(folder)
    data = load(plan.dataset, data_dir=data_dir, target=plan.target, train_all=plan.train_all)
    tap = Tap.at(plan, surface, view)
    if batch is not None:
        if batch not in (plan.batch, 1) or (batch == 1 and not tap.single and plan.batch != 1):
            raise BadInput(
                f"batch = {batch}: this surface of the run shows batches of {1 if tap.single else plan.batch}"
            )
        tap = replace(tap, single=batch == 1 and surface is Surface.EXAMPLE)
    wanted = tuple(sorted(rounds_from(rounds, "round"))) if rounds else None
    return scenes.of_run(folder, plan, data, tap, wanted)


def _fresh(
    name: str,
    data: Dataset,
    method: str,
    tweaks: Tweaks,
    changes: dict[str, Any],
    surface: Surface,
    view: str,
    batch: int | None,
    local_steps: int | None,
    network: str | None,
    readings: int,
) -> Scene:
    """Resolve the plan that a fresh network is attacked under."""
    for key, value in (("batch", batch), ("local_steps", local_steps)):
        if value is not None:
            whole(key, value)
    Tap(surface, view)
    given = {key: value for key, value in changes.items() if value is not None}
    plan = resolve(locate(name), data, tweaks.of(chosen(method_named(method), data)), given)
    by_default = "attack" if data.is_image and min(data.shape[:2]) >= 8 else "trained"
    model = pick("network", network or by_default, scenes.networks(plan.model))
    plan = scenes.as_paper(replace(plan, model=model, noise_source=NoiseSource.SEEDED), surface, batch, local_steps)
    return scenes.fresh(plan, data, Tap(surface, view, surface is Surface.EXAMPLE and plan.batch == 1), readings)


def carry_out(scene: Scene, chosen: Attack, victims: int, rule: str, seed: int) -> Outcome:
    """Attack with a progress bar of victims."""
    with bar(f"{chosen.name} at surface {int(scene.tap.surface)}", victims, 0) as advance:
        return attack_run.attack(scene, chosen, victims, rule, seed, done=lambda victim: advance(""))
