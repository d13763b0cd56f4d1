"""What holds for all tests."""

import ctypes
import gc
import sys

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _compiled_programs_end_with_their_module():
    """Drop compiled programs after each module: no other uses them, and a worker held gigabytes of them at its end.

    glibc keeps what was freed until it is asked: after tests/laws/test_engines.py 1.3 GB stay resident, then 0.35 GB.
    """
    yield
    jax.clear_caches()
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)
