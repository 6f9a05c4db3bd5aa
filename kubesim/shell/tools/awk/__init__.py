"""awk: ``command`` runs it, ``parse`` reads its programs."""

from kubesim.shell.tools.awk.command import TOOLS

__all__ = ["TOOLS"]
