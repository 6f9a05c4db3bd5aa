"""sed: ``command`` runs it, ``parse`` reads its scripts."""

from kubesim.shell.tools.sed.command import TOOLS

__all__ = ["TOOLS"]
