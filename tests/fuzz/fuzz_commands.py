"""A grammar of command lines: small plans that would end in a moment, of which a few words are made hostile."""

import random
from collections.abc import Iterator
from pathlib import Path

from fuzz_world import TINY, World

WHOLE = ("0", "-1", "1.5", "nan", "inf", "", "three", "100000000000000000000", "-100000000000000000000", "2147483648",
         "4294967296", "9223372036854775808", "1000000000", "1e20", "٣", "0x10", " 2", "1_0", "\x00", "²")  # fmt: skip
REAL = ("nan", "inf", "-inf", "-1", "0", "-0.0", "1e20", "1e300", "1e-320", "1e-30", "", "much", "1,5", "\x00", "1e999")
WORD = ("", "ü☃", "x" * 5000, "\x00", "nan", "../..", "a b", "\udcff", "NON-PRIVATE", "0", "None", "[]", ":", "flat:",
        "flat:nan", "per-layer:-1", "dirichlet:nan", "dirichlet:1e-320", "dirichlet:", "1,2", ",", "\n",
        "a\nb")  # fmt: skip
METHODS = ("non-private", "fed-cdp", "fed-sdp", "fed-alpha-cdp")

RUN = {
    "whole": ("--rounds", "--clients", "--cohort", "--client-size", "--local-steps", "--batch", "--seed", "--watch"),
    "real": ("--lr", "--clip", "--sigma", "--sigma-end", "--delta", "--max-epsilon", "--target-accuracy"),
    "word": ("--method", "--decay", "--draw", "--sensitivity", "--sampling", "--cohort-sampling", "--partition",
             "--noise-source", "--accountant", "--threat-model", "--target", "--watch", "--engine", "--clip"),
    "path": ("--dataset", "--data-dir", "--out"),
    "flag": ("--train-all", "--resume", "--dry-run", "--json", "--no-attack", "--no-such-option"),
}  # fmt: skip
ATTACK = {
    "whole": ("--victims", "--iterations", "--batch", "--local-steps", "--readings", "--restarts", "--seed",
              "--surface", "--round"),
    "real": ("--lr", "--clip", "--sigma", "--sigma-end"),
    "word": ("--method", "--attack", "--view", "--network", "--rule", "--decay", "--draw", "--sensitivity", "--target",
             "--surface", "--round"),
    "path": ("--dataset", "--data-dir", "--out"),
    "flag": ("--told-labels", "--json", "--no-such-option"),
}  # fmt: skip
ACCOUNT = {
    "whole": ("--steps", "--rounds", "--local-steps", "--layers", "--batch", "--participations", "--copies"),
    "real": ("--sigma", "--q", "--delta", "--sigma-end", "--client-q"),
    "word": ("--decay", "--draw", "--sampling", "--adjacency", "--threat-model"),
    "flag": ("--json", "--no-such-option"),
}
SOLVE = {
    "whole": ("--rounds", "--local-steps", "--layers", "--batch", "--participations", "--copies"),
    "real": ("--target-epsilon", "--q", "--delta", "--sigma", "--sigma-end", "--client-q", "--clip", "--s-dyn"),
    "word": ("--solve", "--decay", "--draw", "--sampling", "--adjacency", "--threat-model"),
    "flag": ("--json", "--no-such-option"),
}
FAST = {"--sampling": "fixed-pass"}  # Poisson batches take the accountant many seconds
POOLS = {"whole": WHOLE, "real": REAL, "word": WORD}


def command(dice: random.Random, world: World, out: Path) -> list[str]:
    """Give the words of one command; what it writes goes to `out` unless a hostile word says otherwise."""
    verb = dice.choices(("run", "attack", "account", "plan", "other"), (35, 20, 20, 13, 12))[0]
    return {"run": _run, "attack": _attack, "account": _account, "plan": _plan, "other": _other}[verb](dice, world, out)


def _run(dice: random.Random, world: World, out: Path) -> list[str]:
    given: dict[str, str | None] = {**TINY, "--rounds": "1", "--method": dice.choice(METHODS), "--out": str(out)}
    if dice.random() < 0.1:
        given = {"--dataset": dice.choice(world.data), "--rounds": "1", "--out": str(out)}
    return ["run", *_spoiled(dice, world, given, RUN)]


def _attack(dice: random.Random, world: World, out: Path) -> list[str]:
    common: dict[str, str | None] = {"--attack": "analytic", "--victims": "2", "--surface": "2", "--out": str(out)}
    if dice.random() < 0.5:
        run = dice.choice((str(world.seeded), str(world.secret), *world.odd))
        return ["attack", run, *_spoiled(dice, world, common, ATTACK)]
    return ["attack", *_spoiled(dice, world, {**common, "--dataset": "digits", "--network": "mlp"}, ATTACK)]


def _account(dice: random.Random, world: World, out: Path) -> list[str]:
    given: dict[str, str | None] = {"--sigma": "6", "--q": "0.1", "--rounds": "2", "--local-steps": "2"} | FAST
    return ["account", *_spoiled(dice, world, given, ACCOUNT)]


def _plan(dice: random.Random, world: World, out: Path) -> list[str]:
    given: dict[str, str | None] = {
        "--target-epsilon": "4",
        "--q": "0.1",
        "--rounds": "2",
        "--threat-model": "server",
    } | FAST
    return ["plan", *_spoiled(dice, world, given, SOLVE)]


def _other(dice: random.Random, world: World, out: Path) -> list[str]:
    path, word = dice.choice(world.odd), dice.choice(WORD)
    return dice.choice(
        (
            ["list", word],
            ["list", dice.choice(("methods", "attacks", "decays", "threats", "datasets", "tables")), "--json"],
            ["data", "where", word],
            ["data", "where", "digits", "--data-dir", path],
            ["data", "verify", "cancer", "--data-dir", path],
            ["data", "fetch", word],
            ["data", word],
            ["report", path],
            ["report", str(world.seeded), "--out", path],
            ["report", str(world.seeded), str(world.secret), "--out", str(out)],
            ["predict", str(world.seeded), path],
            ["predict", path, path, "--json"],
            ["export", str(world.seeded), "--out", path],
            ["run", "--dataset", "synthetic", "--model", f"{word}:{word}", "--dry-run"],
            ["table", word],
            ["table", "accountants", "--scale", word, "--out", str(out)],
            ["table", "accountants", "--minutes", dice.choice(("nan", "-1", "-inf", "")), "--out", path],
            ["serve", "--port", dice.choice(("0", "-1", "70000", "100000000000000000000", "nan", ""))],
            ["serve", str(world.folder / "missing"), "--port", "8799"],
            ["bench", word or "x", "--json"],
            [word],
            ["--" + word.strip("-") + "x"],
        )
    )


def _spoiled(dice: random.Random, world: World, given: dict[str, str | None], options: dict[str, tuple[str, ...]]):
    """Give a command's options, of which up to three were made hostile, dropped or added."""
    for _ in range(dice.choices((0, 1, 2, 3), (4, 60, 26, 10))[0]):
        kind = dice.choices(tuple(options), [3 if name in ("whole", "real") else 2 for name in options])[0]
        option = dice.choice(options[kind])
        if kind == "flag":
            given[option] = None
        elif dice.random() < 0.06:
            given.pop(option, None)
        else:
            given[option] = dice.choice((*world.odd, *world.data) if kind == "path" else POOLS[kind])
    return list(_words(given))


def _words(given: dict[str, str | None]) -> Iterator[str]:
    for option, value in given.items():
        yield option
        if value is not None:
            yield value


KEYS = ("dataset", "method", "clients", "cohort", "rounds", "local_steps", "batch", "client_size", "learning_rate",
        "target", "train_all", "model", "partition", "sampling", "cohort_sampling", "noise_source", "seed", "delta",
        "target_accuracy", "max_epsilon", "accountant", "threat_model", "minimum_cohort", "rouns", '"a b"')  # fmt: skip
VALUES = ('"3"', "3.5", "true", "[]", "{}", "nan", "inf", "-inf", "1979-05-27", "-1", "0", "100000000000000000000",
          '"ü☃"', '""', '"\\u0000"', "1e-320", "1e300", "[1, 2]", '["a"]', "{kind = 3}", '{kind = "Mlp"}',
          '{kind = "Mlp", hidden = [100000000]}', '{kind = "Mlp", hidden = []}', '{kind = "Mlp", hidden = [-1]}',
          '{kind = "Mlp", hidden = ["a"]}', '{kind = "Mlp", hidden = [1.5]}', '{kind = "Cnn", first = 1000000000}',
          '{kind = "AttackNet", width = nan}', '{kind = "Dirichlet", alpha = inf}', '{kind = "Dirichlet"}',
          '{kind = "Poisson", more = 1}', '{name = "m"}', '{name = 1, surface = "example"}',
          '{name = "m", surface = 2}', '{name = "m", clip = {kind = "Flat", c = nan}}',
          '{name = "m", clip = {kind = "Flat", c = 1e-320}, noise = {kind = "Constant", sigma = 1.0}}',
          '{name = "m", noise = {kind = "Linear", start = 1.0}}', '{name = "m", prune = {kind = "Smallest", mu = 2}}',
          '{name = "m", noise = {kind = "Cyclic", start = 1.0, cycles = 100000000000000000000}}')  # fmt: skip
PLAN = {
    "dataset": '"synthetic"', "method": '"fed-cdp"', "clients": "4", "cohort": "2", "rounds": "1", "local_steps": "1",
    "batch": "2", "client_size": "20", "sampling": '{kind = "FixedPass"}', "partition": '{kind = "Iid"}',
}  # fmt: skip


def plan_file(dice: random.Random) -> bytes:
    """Give the content of a plan file: a small plan with up to three wrong values, or something that is no plan."""
    if dice.random() < 0.25:
        return dice.choice(
            (
                b"", b"\n\n# nothing\n", bytes(dice.randrange(256) for _ in range(200)), b"\xef\xbb\xbfrounds = 1\n",
                b"a = " + b"[" * 5000, b"a = " + b"{b = " * 2000, b"[[[", b"rounds = 1\nrounds = 2\n", b"[plan]\n",
                b"[a." + b".".join([b"b"] * 3000) + b"]\n", b"rounds", b"= 1", b"\x00", b'dataset = "' + b"x" * 100000,
                b"rounds = 1\r", b"seed = 0x" + b"f" * 5000 + b"\n", b"seed = " + b"9" * 5000 + b"\n",
            )
        )  # fmt: skip
    lines = dict(PLAN)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        lines[dice.choice(KEYS)] = dice.choice(VALUES)
    return "".join(f"{key} = {value}\n" for key, value in lines.items()).encode()
