"""The Terraform code of a session: fetched from its toolbox, and laid back into it."""

from __future__ import annotations

from collections.abc import Mapping

from faults import selectors
from faults.code_archive import MAX_BYTES, MAX_FILES
from faults.engine.model import CommandLimits
from faults.errors import ClusterError, FaultError
from faults.injectors import terraform_code, terraform_runs
from faults.models import FaultRun
from faults.toolbox_place import CODE, NAME

NO_CODE = "This interview has no Terraform code."
LIMITS = CommandLimits(seconds=30.0, output_bytes=3 * MAX_BYTES)
_KINDS = " -o ".join(f"-name '*.{end}'" for end in ("tf", "tfvars", "tf.json", "tfvars.json", "md", "hcl"))
_READ = rf"""cd {CODE} && find . -type f ! -path '*/.*/*' \( {_KINDS} \) -size -128k | sort | head -n {MAX_FILES} |
while IFS= read -r file; do printf '%s\n' "= $file"; base64 "$file"; done"""
_CLEAR = rf"find {CODE} -type f ! -path '*/.*/*' \( {_KINDS} \) -exec rm -f {{}} +"


def read_code(*, run: FaultRun) -> dict[str, str]:
    """Return the code in the toolbox of an environment, by path. Raises FaultError and ClusterError."""
    kube, namespace = selectors.kube_for(run.cluster), _namespace(run)
    code, output = kube.run_command(namespace, NAME, NAME, ("bash", "-c", _READ), LIMITS)
    if code:
        raise ClusterError(f"The code could not be read: {output[-300:]}")
    return dict(terraform_code.unpacked(output))


def write_code(*, run: FaultRun, files: Mapping[str, str]) -> None:
    """Lay code into the toolbox in the place of what is there; what Terraform has made beside it stays.

    Raises FaultError and ClusterError.
    """
    _namespace(run)
    kube = selectors.kube_for(run.cluster)
    terraform_runs.run(kube, f"mkdir -p {CODE} && {_CLEAR}")
    terraform_code.write_files(kube, files)


def _namespace(run: FaultRun) -> str:
    box = selectors.toolbox_of(run)
    if box is None or box.terraform is None:
        raise FaultError(NO_CODE)
    return box.namespace
