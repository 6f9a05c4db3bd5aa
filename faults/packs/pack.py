"""The pack itself. Frozen: a session keeps exactly the pack it was prepared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from faults.checks.model import Check, Condition, MetricRead
from faults.packs import building, command_blocks, course, only, requires, workspaces
from faults.packs.course import Milestone
from faults.packs.errors import PackError
from faults.packs.model import Criterion, Hint, InjectStep, Obj, Solution, Source, Variant, WrongTurn
from faults.packs.placeholders import substitute
from faults.packs.requires import ClusterValue, Requires
from faults.packs.rights import AccessRule
from faults.packs.workspaces import Workspace

CLUSTER = "cluster."
"""Begins the placeholders, and the stored parameters, of values that the cluster decides."""

SYMPTOM_SECONDS = 2.0
GPU_METRICS = "DCGM_"
"""Begins the names of the exporter's metrics."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A scenario. ``namespaces`` maps the pack's own names to default names in the cluster.

    ``existing`` are others in which it reads or changes objects; ``schema`` numbers the form it is written in.
    """

    schema: int
    slug: str
    version: int
    title: str
    category: str
    difficulty: str
    minutes: int
    par: int | None
    """Minutes in which a good candidate is done."""
    tags: tuple[str, ...]
    source: str
    requires: Requires
    images: tuple[Obj, ...]
    """The images that a practice cluster has for the pack, as its control API takes them."""
    rights: tuple[str, ...]
    """The rights that are words: what pods may be, by ``faults.packs.model.RIGHTS``."""
    access: tuple[AccessRule, ...]
    """The candidate's rights on top of those that every session gives."""
    workspace: Workspace | None
    """All about Terraform but its code, which the step has; None for most packs."""
    namespaces: Mapping[str, str]
    existing: tuple[str, ...]
    takes_away: tuple[str, ...]
    """Shares of the whole cluster that the fault takes, among those by which other scenarios may be judged."""
    needs_free: tuple[str, ...]
    """Resources that have to be free on every node."""
    variants: tuple[Variant, ...]
    cluster_values: Mapping[str, ClusterValue]
    """Values that the cluster decides, by name, each with its source."""
    inject: tuple[InjectStep, ...]
    symptom: tuple[Condition, ...]
    symptom_seconds: float
    """The longest time from the last change to the symptom, on a practice cluster by its own clock."""
    checks: tuple[Check, ...]
    guards: tuple[Check, ...]
    cause: tuple[str, ...]
    """Words that name the cause, which no hint of tier 1 does."""
    hints: tuple[Hint, ...]
    rubric: tuple[Criterion, ...]
    solutions: tuple[Solution, ...]
    milestones: tuple[Milestone, ...]
    discussion_points: tuple[str, ...]
    wrong_turns: tuple[WrongTurn, ...]
    statement: str
    brief: str
    template: Source = field(repr=False)

    @property
    def has_fault(self) -> bool:
        """Whether something is injected; an exercise without a fault begins on a healthy cluster, or without one."""
        return bool(self.template.document["inject"])

    @property
    def is_spoken(self) -> bool:
        """Whether it is only spoken about: it needs no cluster and has no checks."""
        return not self.has_fault and not self.template.document["checks"]

    def reworks(self, before: Pack) -> bool:
        """Whether this one, where it begins later, lays changes over the Terraform code of an earlier one."""
        goes_on = self.workspace is not None and before.slug in self.workspace.after
        return goes_on and bool(workspaces.changes_in(self.template.workspace))

    @property
    def is_judged_by_gpu_metrics(self) -> bool:
        """Whether a symptom, check or guard asks Prometheus about GPUs."""
        conditions = [*self.symptom, *(row.condition for row in (*self.checks, *self.guards))]
        reads = (read for condition in conditions for read in condition.reads.values())
        return any(isinstance(read, MetricRead) and GPU_METRICS in read.promql for read in reads)

    @property
    def exercise(self) -> str:
        """Return the kind of exercise: fault, task (checks alone) or spoken."""
        if self.has_fault:
            return "fault"
        return "spoken" if self.is_spoken else "task"

    def bind(self, namespaces: Mapping[str, str] | None = None, parameters: Mapping[str, str] | None = None) -> Pack:
        """Return the pack with every placeholder filled in: the first variant that has the given parameters.

        Steps, solutions and commands of other variants are left out. Parameters whose names begin with ``CLUSTER``
        are the values that a cluster has decided; for those that none has, there are words.

        Raises ``PackError`` for a namespace that the pack does not have, or where no variant has the parameters.
        """
        spaces = {**self.namespaces, **(namespaces or {})}
        for name in sorted(set(spaces) - set(self.namespaces)):
            raise PackError("scenario.yaml", "namespaces", f"the pack has no namespace named {name}")
        given = parameters or {}
        variant = self.variants_with({name: value for name, value in given.items() if not name.startswith(CLUSTER)})[
            0
        ]
        names = {f"namespace.{name}": value for name, value in spaces.items()}
        names |= {f"parameter.{name}": value for name, value in variant.items()}
        names |= {
            CLUSTER + name: given.get(CLUSTER + name, value.undecided(name))
            for name, value in self.cluster_values.items()
        }
        filled = Source(
            document=substitute(only.of_variant(self.template.document, variant), names),
            manifests=substitute(self.template.manifests, names),
            texts=substitute(self._texts_of(variant), names),
            workspace=workspaces.filled(self.template.workspace, names),
        )
        return self.from_source(filled, template=self.template, namespaces=spaces)

    def _texts_of(self, variant: Variant) -> dict[str, str]:
        return {name: command_blocks.of_variant(text, variant) for name, text in self.template.texts.items()}

    def access_of_every_variant(self, namespaces: Mapping[str, str]) -> tuple[AccessRule, ...]:
        """Return the rights that do not depend on the variant, with these names of namespaces."""
        return building.access_of_every_variant(self.template.document, {**self.namespaces, **namespaces})

    def steps_of(self, variant: Variant, cluster_value: str) -> list[InjectStep]:
        """Return a variant's steps in the pack's own namespaces, with one text for all that a cluster decides."""
        names = {f"namespace.{name}": value for name, value in self.namespaces.items()}
        names |= {f"parameter.{name}": value for name, value in variant.items()}
        names |= dict.fromkeys((CLUSTER + name for name in self.cluster_values), cluster_value)
        document = substitute(only.of_variant(self.template.document, variant), names)
        code = workspaces.filled(self.template.workspace, names)
        source = Source(document, substitute(self.template.manifests, names), {}, code)
        own = [*self.namespaces.values()]
        return [building.inject_step(row, source, own) for row in document.get("inject", [])]

    def variants_with(self, parameters: Mapping[str, str]) -> list[Variant]:
        """Return the variants that have these values, at least one. Raises ``PackError``."""
        found = [variant for variant in self.variants if parameters.items() <= variant.items()]
        if not found:
            wanted = ", ".join(f"{name}={value}" for name, value in sorted(parameters.items()))
            raise PackError("scenario.yaml", "variants", f"no variant has {wanted}")
        return found

    @classmethod
    def from_source(cls, source: Source, *, template: Source, namespaces: Mapping[str, str]) -> Pack:
        """Build a pack from a document that satisfies the schema, filled in or not."""
        document = source.document
        return cls(
            schema=document.get("schema", 1),
            slug=document["slug"],
            version=document["version"],
            title=document["title"],
            category=document["category"],
            difficulty=document["difficulty"],
            minutes=document["minutes"],
            par=document.get("par"),
            tags=tuple(document["tags"]),
            source=document["source"],
            requires=requires.build(document["requires"]),
            images=tuple(document.get("images", [])),
            rights=building.words(document),
            access=building.access(document, namespaces.values()),
            workspace=Workspace.load(document["workspace"]) if "workspace" in document else None,
            namespaces=dict(namespaces),
            existing=tuple(document.get("existing", [])),
            takes_away=tuple(document.get("takes-away", [])),
            needs_free=tuple(document.get("needs-free", [])),
            variants=building.variants(document),
            cluster_values=requires.build_values(document),
            inject=tuple(building.inject_step(step, source, [*namespaces.values()]) for step in document["inject"]),
            symptom=tuple(building.condition(row) for row in document["symptom"]),
            symptom_seconds=float(document.get("symptom_seconds", SYMPTOM_SECONDS)),
            checks=tuple(building.check(row) for row in document["checks"]),
            guards=tuple(building.check(row) for row in document["guards"]),
            cause=tuple(document.get("cause", [])),
            hints=tuple(Hint(row["tier"], row["text"].strip()) for row in document["hints"]),
            rubric=tuple(building.criterion(row) for row in document["rubric"]),
            solutions=tuple(building.solution(row, source) for row in document["solutions"]),
            milestones=course.milestones(document),
            discussion_points=tuple(text.strip() for text in document.get("discussion_points", [])),
            wrong_turns=tuple(building.wrong_turn(row, source) for row in document.get("wrong_turns", [])),
            statement=source.texts["statement.md"],
            brief=source.texts["brief.md"],
            template=template,
        )
