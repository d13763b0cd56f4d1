"""Compiled programs are cached on disk, so that only the first run of a kind waits for the compiler.

They are dropped from memory when there are too many: every program takes memory maps, of which Linux grants a process
65,530 by default, and XLA crashes without a Python exception when they run out.
"""

import os
from pathlib import Path

import jax
from platformdirs import user_cache_dir

MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000


def drop_programs_if_many(limit: int = MOST_MAPS) -> bool:
    """Drop all compiled programs from memory if the process has more than `limit` memory maps; return whether."""
    if not MAPS.exists() or MAPS.read_bytes().count(b"\n") <= limit:
        return False
    jax.clear_caches()
    return True


def keep_compiled_programs() -> None:
    """Point JAX's compilation cache to the user's cache folder, unless the user chose one."""
    if jax.config.values["jax_compilation_cache_dir"]:
        return
    folder = Path(os.environ.get("GRADVEIL_CACHE") or user_cache_dir("gradveil")) / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
