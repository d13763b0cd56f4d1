"""Damage to the folder of a finished run, and the verbs that read such a folder afterwards."""

import random
import shutil
from pathlib import Path

from fuzz_world import World

CONTENTS = (b"", b"{}", b"[]", b"null", b"3", b'"text"', b"\x00" * 100, b"\xff\xfe", b"[" * 5000, b'{"round": 0}\n',
            b"rounds = 1\n", b'{"rounds": ["a"]}')  # fmt: skip


def damage(dice: random.Random, world: World, out: Path) -> tuple[str, list[str]]:
    """Copy a run to `out`, damage one or two of its files, and give what was done and the command to try."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(dice.choice((world.seeded, world.secret)), out)
    told = [_hurt(dice, out) for _ in range(dice.choice((1, 1, 1, 2)))]
    verb = dice.choice(
        (
            ["run", "--resume", "--out", str(out)],
            ["run", "--resume", "--out", str(out), "--json"],
            ["report", str(out)],
            ["attack", str(out), "--attack", "map", "--iterations", "1", "--victims", "1"],
        )
    )
    return "; ".join(told), verb


def _hurt(dice: random.Random, folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".html", ".png"))
    if not files:
        return "nothing is left"
    victim, way = dice.choice(files), dice.choice(("cut", "flip", "digit", "content", "delete", "folder", "double"))
    old = victim.read_bytes()
    at = dice.randrange(len(old)) if old else 0
    match way:
        case "cut":
            victim.write_bytes(old[:at])
        case "flip":
            victim.write_bytes(old[:at] + bytes([(old[at] if old else 0) ^ 1 << dice.randrange(8)]) + old[at + 1 :])
        case "digit":
            digits = [i for i, byte in enumerate(old) if 48 <= byte <= 57]
            at = dice.choice(digits) if digits else 0
            victim.write_bytes(old[:at] + str(dice.randrange(10)).encode() + old[at + 1 :])
        case "content":
            victim.write_bytes(dice.choice(CONTENTS))
        case "double":
            victim.write_bytes(old + old)
        case _:
            victim.unlink()
            if way == "folder":
                victim.mkdir()
    return f"{way} {victim.relative_to(folder)} at {at}"
