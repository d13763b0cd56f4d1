"""What holds for all tests."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _compiled_programs_end_with_their_module():
    """Drop compiled programs after each module: no other uses them, and a worker held gigabytes of them at its end."""
    yield
    jax.clear_caches()
