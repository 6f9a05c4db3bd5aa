"""What a container may see of its node's devices and kernel log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kubesim.gpu.board import Board
from kubesim.gpu.kernel_log import KernelLog
from kubesim.gpu.smi.view import View


@dataclass(frozen=True, slots=True)
class Access:
    """What ``owner`` (namespace/pod/container) was given; ``privileged``: all of the node, and its log."""

    board: Board
    owner: str
    privileged: bool = False

    def view(self, at: datetime) -> View:
        """Return what nvidia-smi sees at a moment."""
        return View(self.board, at, "" if self.privileged else self.owner)

    @property
    def has_driver(self) -> bool:
        """Whether the container toolkit puts the driver's programs and libraries into the container."""
        return bool(self.board.devices) and self.board.toolkit and (self.privileged or self.owner in self.board.given)

    @property
    def log(self) -> KernelLog | None:
        """The node's kernel log, for who may read it."""
        return self.board.log if self.privileged else None
