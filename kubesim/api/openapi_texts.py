"""The texts of the OpenAPI documents: upstream's own sentences, read at run time from an installed package.

``lightkube-models`` carries those of the release in the docstrings of its models. It is not imported: its files are
read. They have lost their paragraphs; where words are parted by anything but one space stands in
``schema/openapi_spaces.json``. Without the package the documents have no texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from kubesim.schema.openapi_table import spaces_of

TYPE = re.compile(r'^class (\w+)\(.*?\):\n    r?"""(.*?)"""', re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"\n      \* \*\*(\w+)\*\* ``[^`]*``(?: - )?")
RENAMED = {"except_": "except", "from_": "from", "continue_": "continue"}
"""Names of fields that Python keeps for itself."""
Texts = dict[str, str]


@cache
def descriptions(name: str) -> Texts:
    """Return the texts of a type's fields by their JSON names, and its own under ""; the name is the full one."""
    *_, group, version, kind = name.split(".")
    for module in (f"{group}_{version}", version):
        found = _module(module).get(kind)
        if found:
            spaces = spaces_of(name)
            return {field: _spaced(text, spaces.get(field, {})) for field, text in found.items()}
    return {}


@cache
def _module(name: str) -> dict[str, Texts]:
    """Return the texts of a module's types, their words parted by one space."""
    spec = find_spec("lightkube")
    folders = spec.submodule_search_locations if spec else None
    path = Path(next(iter(folders)), "models", f"{name}.py") if folders else None
    if path is None or not path.exists():
        return {}
    return {kind: dict(_texts(doc)) for kind, doc in TYPE.findall(path.read_text(encoding="utf-8"))}


def _texts(doc: str) -> Iterator[tuple[str, str]]:
    """Yield (field, text) of a model's docstring: of the type itself first."""
    own, *fields = FIELD.split(doc.replace("\n\n      **parameters**\n", ""))
    for name, text in zip(["", *fields[::2]], [own, *fields[1::2]], strict=True):
        if text.strip():
            yield RENAMED.get(name, name).replace("_", "-"), " ".join(text.split())


def _spaced(text: str, spaces: dict[str, str]) -> str:
    """Return a text with what stands between its words, by the place of the word before."""
    parted = [word + spaces.get(str(place), " ") for place, word in enumerate(text.split(" "))]
    return "".join(parted).rstrip()
