"""The pack itself. Frozen: a session keeps exactly the pack it was prepared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from faults.checks.model import Check, Condition
from faults.packs import building
from faults.packs.errors import PackError
from faults.packs.model import Criterion, Hint, InjectStep, Obj, Parameter, Requires, Solution, Source
from faults.packs.placeholders import substitute


@dataclass(frozen=True, slots=True)
class Pack:
    """A scenario. ``namespaces`` maps the pack's own names to default names in the cluster."""

    slug: str
    version: int
    title: str
    category: str
    difficulty: str
    minutes: int
    tags: tuple[str, ...]
    source: str
    requires: Requires
    images: tuple[Obj, ...]
    """The images that a practice cluster has for the pack, as its control API takes them."""
    rights: tuple[str, ...]
    namespaces: Mapping[str, str]
    parameters: Mapping[str, Parameter]
    inject: tuple[InjectStep, ...]
    symptom: tuple[Condition, ...]
    checks: tuple[Check, ...]
    guards: tuple[Check, ...]
    hints: tuple[Hint, ...]
    rubric: tuple[Criterion, ...]
    solutions: tuple[Solution, ...]
    statement: str
    brief: str
    template: Source = field(repr=False)

    def bind(self, namespaces: Mapping[str, str] | None = None, parameters: Mapping[str, str] | None = None) -> Pack:
        """Return the pack with every placeholder filled in; names that are not given take their defaults.

        Raises ``PackError`` for a namespace or parameter that the pack does not have, or a value it does not allow.
        """
        spaces = {**self.namespaces, **(namespaces or {})}
        values = {name: parameter.default for name, parameter in self.parameters.items()} | dict(parameters or {})
        self._refuse_unknown(spaces, values)
        names = {f"namespace.{name}": value for name, value in spaces.items()}
        names |= {f"parameter.{name}": value for name, value in values.items()}
        filled = Source(
            document=substitute(self.template.document, names),
            manifests=substitute(self.template.manifests, names),
            texts=substitute(self.template.texts, names),
        )
        return self.from_source(filled, template=self.template, namespaces=spaces)

    @classmethod
    def from_source(cls, source: Source, *, template: Source, namespaces: Mapping[str, str]) -> Pack:
        """Build a pack from a document that satisfies the schema, filled in or not."""
        document = source.document
        return cls(
            slug=document["slug"],
            version=document["version"],
            title=document["title"],
            category=document["category"],
            difficulty=document["difficulty"],
            minutes=document["minutes"],
            tags=tuple(document["tags"]),
            source=document["source"],
            requires=building.requires(document["requires"]),
            images=tuple(document.get("images", [])),
            rights=tuple(document.get("rights", [])),
            namespaces=dict(namespaces),
            parameters=building.parameters(document["parameters"]),
            inject=tuple(building.inject_step(step, source.manifests) for step in document["inject"]),
            symptom=tuple(building.condition(row) for row in document["symptom"]),
            checks=tuple(building.check(row) for row in document["checks"]),
            guards=tuple(building.check(row) for row in document["guards"]),
            hints=tuple(Hint(row["tier"], row["text"].strip()) for row in document["hints"]),
            rubric=tuple(building.criterion(row) for row in document["rubric"]),
            solutions=tuple(building.solution(row, source.manifests) for row in document["solutions"]),
            statement=source.texts["statement.md"],
            brief=source.texts["brief.md"],
            template=template,
        )

    def _refuse_unknown(self, spaces: Mapping[str, str], values: Mapping[str, str]) -> None:
        for name in sorted(set(spaces) - set(self.namespaces)):
            raise PackError("scenario.yaml", "namespaces", f"the pack has no namespace named {name}")
        for name, value in sorted(values.items()):
            if name not in self.parameters:
                raise PackError("scenario.yaml", "parameters", f"the pack has no parameter named {name}")
            if value not in self.parameters[name].choices:
                raise PackError("scenario.yaml", f"parameters.{name}", f"{value!r} is not one of its choices")
