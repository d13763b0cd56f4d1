"""Compiled programs are cached on disk, so that only the first run of a kind waits for the compiler.

They are dropped from memory when there are too many. Every program takes a megabyte or more, and memory maps, of which
Linux grants a process 65,530 by default: XLA crashes without a Python exception when they run out.
"""

import gc
import math
import os
from pathlib import Path

import jax
from platformdirs import user_cache_dir

MAPS, STATM = Path("/proc/self/maps"), Path("/proc/self/statm")
MOST_MAPS = 20_000


def drop_programs_if_many(most_maps: int = MOST_MAPS, most_bytes: float = math.inf) -> bool:
    """Drop all compiled programs if the process has too many memory maps or bytes in memory; return whether.

    Where the system does not tell (no /proc), nothing is dropped.
    """
    if not MAPS.exists() or (MAPS.read_bytes().count(b"\n") <= most_maps and resident() <= most_bytes):
        return False
    jax.clear_caches()
    gc.collect()
    return True


def resident() -> int:
    """Return the bytes of this process that are in memory, 0 where the system does not tell."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if STATM.exists() else 0


def keep_compiled_programs() -> None:
    """Point JAX's compilation cache to the user's cache folder, unless the user chose one."""
    if jax.config.values["jax_compilation_cache_dir"]:
        return
    folder = Path(os.environ.get("GRADVEIL_CACHE") or user_cache_dir("gradveil")) / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
