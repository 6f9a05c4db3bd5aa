"""The answer key: each scenario's brief, statement and solutions, with the names that this session has drawn."""

from __future__ import annotations

from dataclasses import dataclass

from faults.packs import Pack
from sessions.candidate_rights import rights_of
from sessions.models import SessionScenario
from sessions.panels.subject import Context, Subject, scenarios_of
from sessions.selectors import pack_for, toolbox_for


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A scenario's texts, with the names of its variant."""

    row: SessionScenario
    pack: Pack

    @property
    def is_open(self) -> bool:
        """Whether the cluster still has to choose names: it does when the scenario is injected."""
        return self.row.run is None and any(not value.image for value in self.pack.cluster_values.values())


def key(subject: Subject) -> Context:
    """Return the texts of every scenario, the candidate's rights and the way into the toolbox."""
    entries = [KeyEntry(row, pack_for(row)) for row in scenarios_of(subject.session)]
    return {
        "entries": entries,
        "rights": rights_of(entry.pack for entry in entries),
        "toolbox": toolbox_for(subject.session),
    }
