"""What `federate demo` trains, and the policy that `federate policy` writes for secure sums."""

import tomllib

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from gradveil.aggregation.roster import KeyRoster, key_line
from gradveil.cli.federate import app
from gradveil.cli.federate_demo import plan_for, policy_of
from gradveil.deployment.policy import read
from gradveil.errors import BadInput
from gradveil.runs import store


def asked(method, **more):
    return {"dataset": "digits", "method": method, "seed": 0} | more


def test_fed_sum_becomes_a_plan_of_secure_sums_that_meets_its_target():
    plan = plan_for(3, asked("fed-sum", threat_model="aggregate"), 3.0, None)
    assert plan.secure_sum is not None
    assert (plan.secure_sum.nodes, plan.secure_sum.colluders, plan.secure_sum.fewest) == (3, 1, 3)
    assert (plan.clients, plan.cohort, plan.max_epsilon) == (3, 3, 3.0)
    assert plan.noise_source.value == "secret"
    assert policy_of(plan).methods == ("fed-sum",)


def test_other_methods_are_trained_in_the_open():
    plan = plan_for(2, asked("fed-cdp"), None, None)
    assert plan.secure_sum is None
    assert (plan.clients, plan.cohort, plan.rounds) == (30, 12, 4)
    assert "fed-cdp" in policy_of(plan).methods


@pytest.mark.parametrize(
    ("nodes", "settings", "why"),
    [
        (2, asked("fed-sum"), "nodes = 2: must be at least 3"),
        (31, asked("fed-cdp"), "between 1 and 30"),
        (3, asked("non-private"), "forbids it"),
        (3, {**asked("fed-cdp"), "dataset": "patients.csv"}, "takes a built-in dataset"),
    ],
)
def test_what_cannot_be_shown_is_refused(nodes, settings, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patients.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadInput, match=why):
        plan_for(nodes, settings, None, None)


def test_a_policy_for_a_roster_counts_sums_against_aggregate(tmp_path):
    keys = {f"site-{i}": key_line(ec.generate_private_key(ec.SECP384R1()).public_key()) for i in range(3)}
    roster, file = KeyRoster(keys), tmp_path / "roster.json"
    store.write_json(file, roster.plain())
    out = tmp_path / "policy.toml"
    asked = ["--methods", "fed-sum", "--roster", str(file), "--maximum-alone-epsilon", "2.5", "--minimum-nodes", "3"]
    done = CliRunner().invoke(app, ["policy", "--out", str(out), *asked], catch_exceptions=False)
    assert done.exit_code == 0
    written = tomllib.loads(out.read_text())
    assert written["roster"] == roster.digest
    policy = read(out)
    assert (policy.adversary, policy.maximum_alone_epsilon, policy.minimum_nodes) == ("aggregate", 2.5, 3)
