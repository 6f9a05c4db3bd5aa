"""The device plugin's part of a kubelet: which containers have which GPUs, and what their processes do to them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from kubesim.api import quantity
from kubesim.errors import Obj
from kubesim.gpu.access import Access
from kubesim.gpu.board import GPU, Board
from kubesim.gpu.devices import Task
from kubesim.gpu.loads import loads
from kubesim.gpu.products import Product, products
from kubesim.gpu.xids import CUDA_ERRORS
from kubesim.kubelet.programs import Exit, Line, Output, Program

UPTIME = timedelta(days=9, hours=5, minutes=41)
"""How long a fresh cluster's nodes have been up."""
MIG_PREFIX = "nvidia.com/mig-"
PRODUCT_LABEL = "nvidia.com/gpu.product"
FIRST_PID = 4000
KILLED_CODE = 1
_TRACEBACK = """\
Traceback (most recent call last):
  File "/workspace/train.py", line 142, in <module>
    main()
  File "/workspace/train.py", line 118, in main
    loss.backward()
  File "/usr/local/lib/python3.12/dist-packages/torch/_tensor.py", line 648, in backward
    torch.autograd.backward(
  File "/usr/local/lib/python3.12/dist-packages/torch/autograd/__init__.py", line 353, in backward
    _engine_run_backward(
  File "/usr/local/lib/python3.12/dist-packages/torch/autograd/graph.py", line 824, in _engine_run_backward
    return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass
torch.AcceleratorError: CUDA error: {error}
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""  # noqa: E501


@dataclass
class NodeGpus:
    """The devices of one node; the board is made when it is first wanted."""

    node: str
    label: str = ""
    count: int = 0
    since: datetime | None = None
    victims: dict[str, Callable[[int], None]] = field(default_factory=dict)
    """Owner -> called with the CUDA error that ends its process."""

    @cached_property
    def board(self) -> Board:
        """The devices, their log and who has which."""
        known: Product = next((p for p in products().values() if p.label == self.label), products()["H100"])
        assert self.since is not None
        return Board(self.node, known, self.count, self.since - UPTIME, ended=self._ended)

    def allocate(self, owner: str, spec: Obj, now: datetime) -> dict[str, str]:
        """Give a container what its limits ask for and return the variables that come with it. Raises NoDevice."""
        limits = (spec.get("resources") or {}).get("limits") or {}
        for resource, amount in limits.items():
            if resource == GPU or resource.startswith(MIG_PREFIX):
                count = int(quantity.parse(str(amount)))
                if count:
                    self.board.allocate(owner, resource, count, now)
                    return self.board.environment(owner)
        return {}

    def start(
        self, owner: str, program: Program, argv: tuple[str, ...], at: datetime, die: Callable[[int], None]
    ) -> None:
        """Let a container's own process use its devices, if it is one that does."""
        if owner not in self.given:
            return
        name = argv[0] if argv else ""
        load = loads().get(program.load) or (loads()["small"] if "python" in name else None)
        if load is not None:
            self.victims[owner] = die
            pid = FIRST_PID + zlib.crc32(f"{owner}/{at.isoformat()}".encode()) % 4_000_000
            self.board.start(Task(pid, name, owner, load, at))

    def end(self, owner: str, at: datetime) -> None:
        """The container's process is gone."""
        self.victims.pop(owner, None)
        for device in self.board.devices if owner in self.given else ():
            for task in [task for task in device.tasks.values() if task.owner == owner]:
                device.end(task.pid, at)

    def release(self, owner: str, at: datetime) -> None:
        """Take back what a container had."""
        self.victims.pop(owner, None)
        if owner in self.given:
            self.board.release(owner, at)

    def access(self, owner: str, *, privileged: bool) -> Access:
        """Return what a container may see."""
        return Access(self.board, owner, privileged)

    @property
    def given(self) -> dict[str, object]:
        """The owners; nobody where the board was never wanted."""
        return dict(self.board.given) if "board" in self.__dict__ else {}

    def _ended(self, task: Task, error: int) -> None:
        die = self.victims.pop(task.owner, None)
        if die is not None:
            die(error)


def cut(program: Program, at: float, error: int) -> Program:
    """Return a program that goes on until ``at`` seconds and then dies of a CUDA error, as PyTorch tells of it."""
    text = _TRACEBACK.format(error=CUDA_ERRORS[error])
    last: list[Output] = [Line(at, line, "stderr") for line in text.splitlines()]

    def run(horizon: float, limit: int) -> list[Output]:
        before = [out for out in program.run(min(horizon, at), limit) if isinstance(out, Line) and out.at < at]
        return [*before, *last, Exit(at + 0.1, KILLED_CODE)] if horizon >= at else [*before]

    return Program(lambda horizon, limit: iter(run(horizon, limit)), term_code=program.term_code)
