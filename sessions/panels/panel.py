"""The declaration of a panel: all that the observer, the pages and the sockets have to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sessions.kinds import Kind
from sessions.panels.subject import Context, Subject


@dataclass(frozen=True, slots=True)
class Panel:
    """One part of a page that changes by itself; its template is ``panels/<name>.html``.

    ``roles`` may see it; ``content`` returns what the template shows. ``reads`` are the kinds whose changes have it
    drawn anew: they are watched, and only the observer knows them. ``all_namespaces``: changes in other sessions'
    namespaces count, too. ``mirrors`` the candidate's work: not drawn in quiet time. ``pushed`` to all who look; else
    drawn for one person. ``kept``: holds no form, so that a page may show the observer's drawing of it. ``place`` is
    where the live page shows it; ``fetched`` the name of the address from which a page fetches it once it stands.
    """

    name: str
    title: str
    roles: frozenset[str]
    content: Callable[[Subject], Context]
    reads: tuple[Kind, ...] = ()
    all_namespaces: bool = False
    mirrors: bool = False
    pushed: bool = True
    kept: bool = False
    place: str = ""
    fetched: str = ""

    @property
    def template(self) -> str:
        """Return the path of its template."""
        return f"panels/{self.name}.html"
