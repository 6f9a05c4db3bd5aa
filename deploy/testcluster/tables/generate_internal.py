"""Writes ``internal.json``: how the API server's own Go types lie in memory, read from its Go module's types.go.

``python -m deploy.testcluster.tables.generate_internal FOLDER`` takes the folder of the module k8s.io/kubernetes.
Each type is a table of its fields in their order; a field is ``?`` where it may be null, then the type that it holds
(if that is a struct of the table), or the JSON of its zero value.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from kubesim.schema.internal import TABLE

FILES = ("resource", "core", "apps", "batch", "policy", "rbac", "networking", "storage")
ROOTS = (
    *("PodTemplateSpec", "RoleRef", "PodFailurePolicy", "SuccessPolicy", "Taint", "PersistentVolumeSource"),
    *("VolumeNodeAffinity", "ParentReference", "VolumeAttachmentSpec", "CSINodeDriver", "PodDisruptionBudgetSpec"),
    *("DeploymentStrategy", "StatefulSetUpdateStrategy", "DaemonSetUpdateStrategy"),
    *("ResourceClaimSpec", "ResourceClaimTemplateSpec", "AllocationResult"),
)
INLINED = "ObjectMeta"
"""The one embedded type that has names for JSON: an object's metadata is written among the fields of its owner."""
ZEROS = {
    "string": '""',
    "bool": "false",
    "IntOrString": "0",
    "Quantity": '"0"',
    "UID": '""',
    "Protocol": '""',
    "RawExtension": "null",
}
ZEROS |= dict.fromkeys(("int", "int32", "int64"), "0")
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_NAMED = re.compile(r"^type (\w+) ((?:string|int32|map\[)\S*)", re.M)
_FIELD = re.compile(r"^\t(\w+)(?: +(\S+))?(?: +`.*`)?(?: *//.*)?$")


class Types:
    """The Go types of some files."""

    def __init__(self, source: str) -> None:
        self.structs = dict(_STRUCT.findall(source))
        self.named = dict(_NAMED.findall(source))

    def table(self) -> dict[str, dict[str, str]]:
        """Return every type that the roots reach."""
        table: dict[str, dict[str, str]] = {}
        wanted = [*ROOTS]
        while wanted:
            name = wanted.pop()
            if name not in table:
                table[name] = dict(self._fields(name))
                wanted += [text.lstrip("?") for text in table[name].values() if text.lstrip("?") in self.structs]
        return table

    def _fields(self, name: str) -> list[tuple[str, str]]:
        fields = []
        for line in self.structs[name].splitlines():
            found = _FIELD.match(line)
            if found is None:
                continue
            field, kind = found.groups()
            if kind is not None and not kind.startswith("//"):
                fields.append((field, self._form(kind)))
            elif field in self.structs:
                fields += self._fields(field)
        if f"metav1.{INLINED}" in self.structs[name]:
            fields.insert(0, (INLINED, "{}"))
        return fields

    def _form(self, kind: str) -> str:
        bare = re.sub(r"^(\*|\[\]|map\[\w+\])+", "", kind)
        inner = bare.rpartition(".")[2]
        held = inner if inner in self.structs and "." not in bare.replace("api.", "").replace("core.", "") else ""
        if bare != kind or self.named.get(inner, "").startswith("map"):
            return f"?{held}"
        return held or ZEROS.get(inner) or ZEROS[self.named[inner]]


def main() -> None:
    """Read the folder that is named on the command line."""
    folder = Path(sys.argv[1])
    source = "\n".join((folder / "pkg/apis" / name / "types.go").read_text() for name in FILES)
    table = Types(source).table()
    text = json.dumps(dict(sorted(table.items())), indent=1)
    TABLE.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
