"""Compiled programs are kept on disk, so that only the first run of a kind waits for the compiler."""

import os
from pathlib import Path

import jax
from platformdirs import user_cache_dir


def keep_compiled_programs() -> None:
    """Point JAX's compilation cache to the user's cache folder, unless the user chose one."""
    if jax.config.values["jax_compilation_cache_dir"]:
        return
    folder = Path(os.environ.get("GRADVEIL_CACHE") or user_cache_dir("gradveil")) / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
