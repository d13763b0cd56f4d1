"""The example of three hospitals over Flower runs as it stands, with real processes."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "three_nodes.py"


@pytest.mark.flower
def test_three_files_of_different_size_train_by_one_schema():
    result = runpy.run_path(str(EXAMPLE))["main"]()
    assert result["accuracy"] > 0.6
    assert [(c["name"], c["examples"], c["participations"]) for c in result["clients"]] == [
        ("city", 600, 3), ("county", 150, 3), ("island", 20, 3)
    ]  # fmt: skip
    (against_server,) = [g for g in result["guarantees"] if g["threat_model"] == "server"]
    assert 0 < max(c["epsilon"] for c in result["clients"]) <= against_server["epsilon"] < 8
    assert not any("encoding" in caveat for caveat in against_server["caveats"])
