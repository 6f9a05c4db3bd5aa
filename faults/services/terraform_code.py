"""The Terraform code of a session: fetched from its toolbox, and laid back into it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress

from faults import selectors
from faults.code_archive import MAX_BYTES, MAX_FILES
from faults.engine.model import CommandLimits
from faults.errors import ClusterError, FaultError
from faults.injectors import terraform_code, terraform_runs
from faults.models import FaultRun
from faults.toolbox_place import CODE, HOME, NAME

NO_CODE = "This interview has no Terraform code."
LIMITS = CommandLimits(seconds=30.0, output_bytes=3 * MAX_BYTES)
_KINDS = " -o ".join(f"-name '*.{end}'" for end in ("tf", "tfvars", "tf.json", "tfvars.json", "md", "hcl"))
_FIND = rf"find . -type f ! -path '*/.*/*' \( {_KINDS} \) -size -128k | sort | head -n {MAX_FILES}"
"""Files that a download has; whatever else there is, an upload leaves alone."""
_READ = rf"""cd {CODE} && {_FIND} |
while IFS= read -r file; do printf '%s\n' "= $file"; base64 "$file"; done"""
_TAKE_OVER = rf"""(cd new && find . -type f) > names
cd {CODE}
while IFS= read -r file; do
  mkdir -p "$(dirname "$file")"
  if [ -d "$file" ]; then echo "$file is a folder here."; exit 1; fi
done < {{place}}/names
{_FIND} | while IFS= read -r file; do
  if [ ! -f "{{place}}/new/$file" ]; then printf '%s\n' "$file"; fi
done > {{place}}/gone
while IFS= read -r file; do mv -f "{{place}}/new/$file" "$file"; done < {{place}}/names
while IFS= read -r file; do rm -f "$file"; done < {{place}}/gone
"""
"""Nothing of the code that is in use changes before all of the new is on the same disk, with a folder for each."""


def read_code(*, run: FaultRun) -> dict[str, str]:
    """Return the code in the toolbox of an environment, by path. Raises FaultError and ClusterError."""
    kube, namespace = selectors.kube_for(run.cluster), _namespace(run)
    code, output = kube.run_command(namespace, NAME, NAME, ("bash", "-c", _READ), LIMITS)
    if code:
        raise ClusterError(f"The code could not be read: {output[-300:]}")
    return dict(terraform_code.unpacked(output))


def write_code(*, run: FaultRun, files: Mapping[str, str]) -> None:
    """Lay code into the toolbox in the place of what a download has; whatever else there is stays.

    It is unpacked beside, and then renamed file by file, so that an upload that fails changes nothing, and a shell in
    one of these folders stays there. Raises FaultError and ClusterError.
    """
    _namespace(run)
    kube = selectors.kube_for(run.cluster)
    place = f"{HOME}/.{secrets.token_hex(16)}"
    take_over = _TAKE_OVER.format(place=place)
    lines = ("set -e", f"mkdir -p {CODE}", f"mkdir -m 700 {place}", f"cd {place}", "mkdir new")
    try:
        terraform_code.execute(kube, "\n".join((*lines, terraform_code.script_of(files, "new") + take_over)))
    finally:
        with suppress(ClusterError):
            terraform_runs.run(kube, 'rm -rf "$1"', place)


def _namespace(run: FaultRun) -> str:
    box = selectors.toolbox_of(run)
    if box is None or box.terraform is None:
        raise FaultError(NO_CODE)
    return box.namespace
