"""The Kubernetes project's test image, whose programs lie with the conformance suite, for tests of containers."""

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "deploy/testcluster/conformance/agnhost"
IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.53"

if "agnhost" not in sys.modules:
    spec = importlib.util.spec_from_file_location(
        "agnhost", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
    )
    sys.modules["agnhost"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["agnhost"])
    sys.modules["agnhost"].register()
