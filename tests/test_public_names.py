import subprocess
import sys

import gradveil


def test_every_public_name_can_be_used_and_the_list_is_sorted():
    assert [name for name in gradveil.__all__ if getattr(gradveil, name) is None] == []
    assert gradveil.__all__ == sorted(gradveil.__all__)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(gradveil, "no_such_name")


def test_importing_gradveil_alone_does_not_start_jax():
    code = "import gradveil, sys; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
