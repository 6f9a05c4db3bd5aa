"""A cluster's Prometheus: follows its configuration and the cluster, and keeps the database's targets in step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kubesim.metrics import discovery, relabel, rules
from kubesim.metrics.api import Prometheus, parse_duration
from kubesim.metrics.discovery import ConfigError, Found, Job, Lister
from kubesim.metrics.scrape import Exporter, Target

RETENTION_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What answers at an address: an exporter, or in Prometheus' words what stands in the way."""

    exporter: Exporter = lambda name, start, end: ()
    error: str = ""


@dataclass
class Monitor:
    """Targets by their address and labels; a refresh brings them up to date with the cluster."""

    objects: Lister
    probe: Callable[[str], Probe]
    """URL -> what answers there now."""
    server: Prometheus = field(default_factory=Prometheus)
    problem: str = ""
    """Why the newest configuration was not loaded; the one before it stays in force, as with the real one."""
    _text: str = ""
    _jobs: tuple[Job, ...] = ()
    _known: dict[tuple[str, str, tuple[tuple[str, str], ...]], Target] = field(default_factory=dict)

    def configure(self, text: str, rules_text: str = "", at: float = 0.0) -> None:
        """Load a ``prometheus.yml`` and a rules file at a moment; a bad one changes nothing but ``problem``."""
        try:
            jobs = discovery.load(text, parse_duration)
            groups = rules.load(rules_text, "/etc/prometheus/rules.yml")
        except (ConfigError, rules.RulesError) as error:
            self.problem = self.server.problem = str(error)
            return
        if text != self._text or self.problem:
            self.server.loaded = at
        self.problem, self._jobs, self._text = "", jobs, text
        self.server.config, self.server.problem = text, ""
        self.server.rules.groups = groups

    def find(self) -> list[Found]:
        """Return the targets that the configuration finds in the cluster now."""
        return [*discovery.targets(self._jobs, self.objects)]

    def refresh(self, at: float, targets: list[Found] | None = None) -> None:
        """Take in what was found (or find it): new targets begin, lost ones end, and each is up or down."""
        found = {_key(item): item for item in (self.find() if targets is None else targets)}
        for key, item in found.items():
            if key not in self._known:
                self._known[key] = self._target(item, at)
                self.server.database.targets.append(self._known[key])
        for key in [key for key in self._known if key not in found]:
            self._known.pop(key).until = at
        for target in self._known.values():
            probe = self.probe(target.url)
            target.exporter = probe.exporter if not probe.error else target.exporter
            target.error.set(at, probe.error)
        kept = [target for target in self.server.database.targets if target.until > at - RETENTION_S]
        self.server.database.targets = kept

    def _target(self, item: Found, at: float) -> Target:
        return Target(
            item.labels,
            self.probe(item.url).exporter,
            at,
            url=item.url,
            discovered=item.discovered,
            honor_labels=item.job.honor_labels,
            interval_s=item.job.interval_s,
            keep=lambda labels: relabel.apply(item.job.metric_relabelling, labels),
        )


def _key(item: Found) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    return item.job.name, item.url, tuple(sorted(item.labels.items()))
