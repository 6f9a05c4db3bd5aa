"""From a pack's files to a Pack, or to one clear sentence about what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from faults.checks import expressions
from faults.checks.model import CommandRead, LogRead, ObjectRead, Read
from faults.packs import (
    building,
    command_blocks,
    exercises,
    hints,
    only,
    requires,
    safe_yaml,
    shell_lines,
    steps,
    workspaces,
    wrong_turns,
)
from faults.packs.building import read
from faults.packs.course import check_course
from faults.packs.errors import PackError
from faults.packs.files import check_names
from faults.packs.model import Obj, Source
from faults.packs.pack import CLUSTER, Pack
from faults.packs.placeholders import names_in
from faults.packs.right_checks import check_rights

DOCUMENT = "scenario.yaml"
MAX_COMBINATIONS = 1000
MAX_KEPT = 64
TEXTS = ("statement.md", "brief.md")
SCHEMAS = (1, 2)
"""The forms of packs, by their ``schema``. Stored versions without a number are of the first."""
READS = "; a read is of objects (apiVersion, kind), or one of logs, promql, access, page, command, state, cloud"
_SCHEMA = Path(__file__).with_name("schema.yaml")


def parse(files: Mapping[str, str]) -> Pack:
    """Return the pack that these files (path inside the pack -> text) make. Raises ``PackError``.

    A pack is a value that nobody changes: who brings the same files again gets the same one, not 20 ms of reading.
    """
    return _parse(tuple(sorted(files.items())))


@lru_cache(maxsize=MAX_KEPT)
def _parse(items: tuple[tuple[str, str], ...]) -> Pack:
    files = dict(items)
    check_names(files)
    for name in (DOCUMENT, *TEXTS):
        if not files.get(name, "").strip():
            raise PackError(name, "", "is missing or empty")
    for name, text in files.items():
        safe_yaml.check_text(name, text)
    code = {name: files[name] for name in sorted(files) if workspaces.is_workspace(name)}
    own = {name: files[name] for name in sorted(files) if name not in code}
    source = Source(
        document=_document(files[DOCUMENT]),
        manifests={name: _objects(name, own[name]) for name in own if "/" in name},
        texts={name: own[name] for name in own if name != DOCUMENT},
        workspace=code,
    )
    _check_whole(source)
    hints.check(source, own)
    return Pack.from_source(source, template=source, namespaces=source.document["namespaces"])


def _document(text: str) -> Obj:
    document = _anchor_levels_as_text(safe_yaml.load_one(DOCUMENT, text))
    _check_number(document)
    error = best_match(_validator().iter_errors(document))
    if error is not None:
        raise PackError(DOCUMENT, _place(error), error.message[:500] + _valid_reads(error))
    assert isinstance(document, dict)
    document = exercises.complete(document)
    steps.check_forms(document)
    return document


def _check_number(document: Any) -> None:
    """Refuse what a newer program wrote before anything else is found wrong with it."""
    number = document.get("schema", 1) if isinstance(document, dict) else 1
    if number not in SCHEMAS or isinstance(number, bool):
        known = " and ".join(map(str, SCHEMAS))
        raise PackError(DOCUMENT, "schema", f"{str(number)[:40]} is unknown here; known are {known}")


def _anchor_levels_as_text(document: Any) -> Any:
    """Let people write the levels of anchors as plain numbers; JSON Schema knows only text keys."""
    rubric = document.get("rubric") if isinstance(document, dict) else None
    for row in rubric if isinstance(rubric, list) else []:
        if isinstance(row, dict) and isinstance(row.get("anchors"), dict):
            row["anchors"] = {str(level): text for level, text in row["anchors"].items()}
    return document


@lru_cache(maxsize=1)
def _validator() -> Draft202012Validator:
    schema = safe_yaml.load_one(_SCHEMA.name, _SCHEMA.read_text(encoding="utf-8"))
    return Draft202012Validator(schema)


def _valid_reads(error: ValidationError) -> str:
    """Return which reads there are, where one is none of them."""
    return READS if len(error.absolute_path) >= 2 and error.absolute_path[-2] == "reads" else ""


def _place(error: ValidationError) -> str:
    return ".".join(str(part) for part in error.absolute_path)


def _objects(name: str, text: str) -> list[Obj]:
    objects = safe_yaml.load_all(name, text)
    for number, obj in enumerate(objects, start=1):
        where = f"document {number}"
        if not isinstance(obj, dict) or not all(isinstance(obj.get(key), str) for key in ("apiVersion", "kind")):
            raise PackError(name, where, "is not a Kubernetes object: apiVersion and kind are needed")
        if not isinstance(obj.get("metadata"), dict) or not isinstance(obj["metadata"].get("name"), str):
            raise PackError(name, where, "has no metadata.name; packs use fixed names")
    if not objects:
        raise PackError(name, "", "holds no object")
    return objects


def _check_whole(source: Source) -> None:
    document = source.document
    check_rights(document)
    _check_images(document)
    _check_variants(document)
    only.check(document)
    command_blocks.check(source.texts, building.variants(document))
    requires.check(document)
    shell_lines.check(document)
    _check_files(source)
    workspaces.check(document, source.workspace, _placeholders(document))
    steps.check_contents(source)
    steps.check_namespaces(source)
    _check_placeholders(source)
    _check_unique(document)
    for list_name in ("symptom", "checks", "guards"):
        for number, row in enumerate(document[list_name]):
            _check_condition(row, f"{list_name}.{number}")
    _check_needs(document)
    check_course(document)
    wrong_turns.check(document)


def _check_images(document: Obj) -> None:
    """Only practice clusters have registries that serve a pack's images."""
    if document.get("images") and document["requires"]["tiers"] != ["practice"]:
        raise PackError(
            DOCUMENT, "images", "only practice clusters can have them; leave the others out of requires.tiers"
        )


def _check_variants(document: Obj) -> None:
    """Rows of linked values; packs of before there were rows have parameters with choices."""
    if ("variants" in document) == ("parameters" in document):
        raise PackError(DOCUMENT, "variants", "is needed: at least five rows with the same names (and no parameters)")
    for name, row in document.get("parameters", {}).items():
        if row["default"] not in row["choices"]:
            raise PackError(DOCUMENT, f"parameters.{name}.default", "is not one of the choices")
    if math.prod(len(row["choices"]) for row in document.get("parameters", {}).values()) > MAX_COMBINATIONS:
        raise PackError(DOCUMENT, "parameters", f"have more than {MAX_COMBINATIONS} combinations")
    first, *others = document.get("variants", [{}])
    for number, row in enumerate(others, start=1):
        if different := sorted(row.keys() ^ first.keys()):
            raise PackError(DOCUMENT, f"variants.{number}", f"differs from the first in {', '.join(different)}")


def _check_files(source: Source) -> None:
    used = set()
    for where, name in _files_used(source.document):
        used.add(name)
        if name not in source.manifests:
            raise PackError(DOCUMENT, where, f"there is no file {name}")
    for name in sorted(set(source.manifests) - used):
        raise PackError(name, "", "is not used by any step; remove it or name it in scenario.yaml")


def _files_used(document: Obj) -> Iterator[tuple[str, str]]:
    for number, step in enumerate(document["inject"]):
        if "file" in step:
            yield f"inject.{number}", step["file"]
    for list_name in ("solutions", "wrong_turns"):
        for index, route in enumerate(document.get(list_name, [])):
            yield from ((f"{list_name}.{index}.lines", name) for name in shell_lines.files_named(route))
            for number, step in enumerate(route.get("steps", [])):
                if "file" in step:
                    yield f"{list_name}.{index}.steps.{number}", step["file"]


def _placeholders(document: Obj) -> set[str]:
    known = {f"namespace.{name}" for name in document["namespaces"]}
    known |= {f"parameter.{name}" for name in building.variants(document)[0]}
    return known | {CLUSTER + name for name in document.get("cluster-values", {})}


def _check_placeholders(source: Source) -> None:
    known = _placeholders(source.document)
    for file, content in [(DOCUMENT, source.document), *source.manifests.items(), *source.texts.items()]:
        for name in names_in(content):
            if name not in known:
                raise PackError(file, f"${{{name}}}", f"no such placeholder; known are: {', '.join(sorted(known))}")


def _check_unique(document: Obj) -> None:
    for where, rows in (
        ("checks and guards", document["checks"] + document["guards"]),
        ("rubric", document["rubric"]),
        ("milestones", document.get("milestones", [])),
        ("solutions and wrong_turns", [*document["solutions"], *document.get("wrong_turns", [])]),
    ):
        _refuse_repeats(where, (row["key"] for row in rows))


def _refuse_repeats(where: str, keys: Iterable[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise PackError(DOCUMENT, where, f"the key {key} is there twice")
        seen.add(key)


def _check_condition(row: Obj, where: str) -> None:
    reads = {name: read(entry) for name, entry in row["reads"].items()}
    for name, entry in reads.items():
        if isinstance(entry, LogRead | CommandRead) and not _is_of_pods(reads.get(entry.pods)):
            raise PackError(
                DOCUMENT, f"{where}.reads.{name}", f"{entry.pods} is not a read of pods in this condition"
            )
    for field in ("expr", "found"):
        try:
            expressions.check_names(row[field], reads)
        except expressions.ExpressionError as exc:
            raise PackError(DOCUMENT, f"{where}.{field}", str(exc)) from exc


def _is_of_pods(entry: Read | None) -> bool:
    return isinstance(entry, ObjectRead) and (entry.api_version, entry.kind) == ("v1", "Pod")


def _check_needs(document: Obj) -> None:
    """A check may need only checks above it, so there is no circle and one pass in order is enough."""
    for list_name in ("checks", "guards"):
        above: set[str] = set()
        for number, row in enumerate(document[list_name]):
            for key in row.get("needs", []):
                if key not in above:
                    raise PackError(DOCUMENT, f"{list_name}.{number}.needs", f"{key} is not a key above it")
            above.add(row["key"])
