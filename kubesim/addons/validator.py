"""The GPU operator's validator: it ends where the driver of its node does not work, and is started again."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.clock import Timer
from kubesim.kubelet.duties import Post

CHECK_S = 0.1
FAILED = 'level=info msg="Error: error validating driver installation: {}"'


@dataclass(frozen=True, slots=True)
class Validator:
    """The program of one node."""

    timer: Timer

    def stop(self) -> None:
        """Check no more."""
        self.timer.cancel()


def begin(post: Post) -> Validator:
    """Check the driver."""

    def check() -> None:
        if why := post.machines.gpus(post.node).nvml_error:
            post.die(FAILED.format(why))

    return Validator(post.clock.call_later(CHECK_S, check))
