"""The toolbox's Terraform and a real one take turns on one state; skipped without ``TF_PLUGIN_DIR``."""

import json

import pytest

from kubesim.tests.contract.plain import Plain
from kubesim.tests.contract.terraform import CHANGES, EMPTY, terraform_in
from kubesim.tests.contract.terraform_toolbox import toolbox
from kubesim.tests.contract.test_terraform import copied, hard, state_of
from kubesim.tests.live import serving

pytestmark = pytest.mark.torture


@pytest.fixture
def both(tmp_path):
    """Real Terraform, the toolbox's, and their cluster, in one folder that real Terraform has got ready."""
    with serving(tmp_path, nodes=1) as live:
        folder = copied(tmp_path) / "tenants"
        real, cluster = terraform_in(folder, live.kubeconfig), Plain("kubesim", live.kubeconfig)
        cluster("POST", "/api/v1/namespaces", {"metadata": {"name": "platform"}})
        real.init()

        def ours(*arguments):
            done = toolbox(folder, live.kubeconfig, *arguments)
            assert done.returncode in (EMPTY, CHANGES), done.stderr
            return done

        def want(**gpus):
            tenants = {name: {"team": "vision", "gpus": count} for name, count in gpus.items()}
            (folder / "terraform.tfvars.json").write_text(json.dumps({"tenants": tenants}))

        yield real, ours, want, cluster


def test_each_takes_the_others_state_for_its_own(both):
    real, ours, want, cluster = both
    want(one=4, two=4)
    ours("apply", "-auto-approve")
    assert real.plan() == EMPTY
    want(one=1, two=4)
    real("apply", "-auto-approve")
    assert ours("plan", "-detailed-exitcode").returncode == EMPTY
    assert hard(cluster, "one") == {"requests.nvidia.com/gpu": "1"}
    want(one=1)
    ours("apply", "-auto-approve")
    assert real.plan() == EMPTY
    serials = [state_of(cluster, "platform")[1]["serial"]]
    want(one=1, three=2)
    real("apply", "-auto-approve")
    assert ours("plan", "-detailed-exitcode").returncode == EMPTY
    ours("destroy", "-auto-approve")
    serials.append(state_of(cluster, "platform")[1]["serial"])
    assert serials == sorted(set(serials))
    assert "No objects need to be destroyed" in real("destroy", "-auto-approve")
