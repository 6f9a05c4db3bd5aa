"""Adds the fault library to every container of a node that gets a GPU; ``--remove`` takes it out again.

A container runtime applies the node's CDI specification, a file under /etc/cdi, when a container is given a device of
its kind. What is added there is in no pod's specification, image or environment: two files, and /etc/ld.so.preload,
which the dynamic linker reads in every program. It needs the specification as JSON:
``nvidia-ctk cdi generate --format=json --output=/etc/cdi/nvidia.json``.

Format: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

LIBRARY, CONTROL, PRELOAD = "/run/nvidia/libnvidia-ml-host.so.1", "/run/nvidia/gpu-control", "/etc/ld.so.preload"
"""Where they are in a container. The library's name is one that a GPU's container may well have."""
OPTIONS = ["ro", "nosuid", "nodev", "bind"]


def main(arguments: list[str]) -> int:
    """Change the specification; 1 with a message where it is none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--spec", type=Path, default=Path("/etc/cdi/nvidia.json"))
    folder = "has libcudafault.so, gets ld.so.preload"
    parser.add_argument("--folder", type=Path, default=Path("/opt/cuda-fault"), help=folder)
    parser.add_argument("--control", type=Path, default=Path(CONTROL))
    parser.add_argument("--remove", action="store_true")
    given = parser.parse_args(arguments)
    try:
        spec = json.loads(given.spec.read_text(encoding="utf-8"))
        changed = without(spec) if given.remove else added(without(spec), given.folder, given.control)
    except (OSError, ValueError, TypeError, KeyError) as error:
        print(f"error: {given.spec} is no CDI specification in JSON: {error}", file=sys.stderr)
        return 1
    if not given.remove and not ready(given.folder, given.control):
        return 1
    replace(given.spec, json.dumps(changed, indent=2) + "\n")
    return 0


def ready(folder: Path, control: Path) -> bool:
    """Write what the dynamic linker reads; tell what is missing of the rest."""
    for file, remedy in ((folder / "libcudafault.so", "make -C native"), (control, "faultctl init")):
        if not file.is_file():
            print(f"error: {file} is missing. Run: {remedy}", file=sys.stderr)
            return False
    (folder / "ld.so.preload").write_text(f"{LIBRARY}\n", encoding="utf-8")
    return True


def added(spec: dict[str, Any], folder: Path, control: Path) -> dict[str, Any]:
    """Return the specification with our mounts among the edits that hold for all of its devices."""
    pairs = ((folder / "libcudafault.so", LIBRARY), (control, CONTROL), (folder / "ld.so.preload", PRELOAD))
    edits = dict(spec.get("containerEdits") or {})
    ours = [{"hostPath": str(host), "containerPath": inside, "options": OPTIONS} for host, inside in pairs]
    return {**spec, "containerEdits": {**edits, "mounts": [*(edits.get("mounts") or []), *ours]}}


def without(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the specification without our mounts. Raises ValueError where it is none."""
    if not isinstance(spec, dict) or "cdiVersion" not in spec or "devices" not in spec:
        raise ValueError("it has no cdiVersion or no devices")
    if not isinstance(spec.get("containerEdits"), dict) or not spec["containerEdits"].get("mounts"):
        return spec
    edits = spec["containerEdits"]
    kept = [mount for mount in edits["mounts"] if mount["containerPath"] not in (LIBRARY, CONTROL, PRELOAD)]
    return {**spec, "containerEdits": {**edits, "mounts": kept}}


def replace(path: Path, text: str) -> None:
    """Put a file in the place of another as a whole: a runtime may read it at any moment."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", delete=False, encoding="utf-8") as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
