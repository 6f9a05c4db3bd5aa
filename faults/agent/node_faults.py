"""Faults of one node: begun under a lease, one a second, and ended at their deadline or with the lease.

A fault is on the disk before its first line is in the log. An agent that died in between looks into the log when it
starts: a fault whose lines are missing there has not happened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from faults.agent.clocks import NodeClock
from faults.agent.cuda_control import CudaControl
from faults.agent.driver_lines import Lines, reset_line, xid_lines
from faults.agent.gpus import FOLDER, Gpu, list_gpus
from faults.agent.kernel_log import BY_MODULE, ERROR, INFO, WRITERS, KernelLog, Record
from faults.agent.refusals import Refusal, invalid, too_many, unsupported
from faults.agent.state import Fault, StateFile

MAX_S = 8 * 3600
MIN_PAUSE_S = 1.0
MAX_LEASES = 64
LOG, CUDA, COMBINED = "log", "cuda", "combined"
NAMED = re.compile(r"NVRM: GPU at PCI:([0-9a-f:]+): GPU-")
SERIAL = re.compile(r"NVRM: GPU Board Serial Number: ([0-9A-Za-z]+)")


class NodeFaults:
    """Those of one node."""

    def __init__(
        self,
        clock: NodeClock,
        log: KernelLog,
        file: StateFile,
        gpus: Path = FOLDER,
        cuda: CudaControl | None = None,
    ) -> None:
        self._clock, self._log, self._file, self._gpus, self._cuda = clock, log, file, gpus, cuda
        self._state = file.load(clock.boot_id)
        self._drop_what_did_not_happen()

    @property
    def refusal(self) -> str:
        """Return why no fault can happen here; empty where one can."""
        return self._log.refusal

    @property
    def cuda_refusal(self) -> str:
        """Return why programs cannot be made to fail here; empty where they can."""
        return "the agent was started without --cuda-control" if self._cuda is None else self._cuda.refusal

    @property
    def is_confirmed(self) -> bool:
        """Return whether lines are looked for in the log once they are written."""
        return self._log.is_readable

    def gpus(self) -> list[Gpu]:
        """Return the node's GPUs."""
        return list_gpus(self._gpus)

    def gpu(self, index: int) -> Gpu:
        """Return the GPU of a number. Raises Refusal where the node has none."""
        gpus = self.gpus()
        if not gpus:
            raise unsupported(f"{self._gpus} lists no GPU: NVIDIA's driver is not loaded on this node")
        if index >= len(gpus):
            raise invalid(f"gpu_id: a number from 0 to {len(gpus) - 1} is expected")
        return gpus[index]

    def lease(self, holder: str, seconds: float) -> float:
        """Let a holder keep faults for so long from now; 0 gives the lease back, and its faults end."""
        self.expire()
        leases = self._state.leases
        if holder not in leases and len(leases) >= MAX_LEASES:
            raise too_many(f"{MAX_LEASES} leases are live on this node", retry_after=60)
        until = self._clock.seconds() + seconds
        leases[holder] = until
        self._file.save(self._state)
        self.expire()
        return until

    def is_leased(self, holder: str) -> bool:
        """Return whether a holder has a live lease."""
        return self._state.leases.get(holder, 0.0) > self._clock.seconds()

    def active(self) -> list[Fault]:
        """Return the faults that are there."""
        self.expire()
        return list(self._state.faults.values())

    def find(self, name: str) -> Fault | None:
        """Return a fault that is there."""
        self.expire()
        return self._state.faults.get(name)

    def end_of(self, fault: Fault) -> float:
        """Return the moment at which a fault ends by itself."""
        return min(fault.until, self._state.leases.get(fault.lease, 0.0))

    def begin(self, wanted: Fault) -> Fault:
        """Let a fault happen. Raises Refusal where the node does not allow it; it is forgotten then."""
        now, state = self._clock.seconds(), self._state
        if 0 <= now - state.last < MIN_PAUSE_S:
            raise too_many("one fault per second at most; try again")
        gpu = self.gpu(wanted.gpu_id)
        self._log.refresh()
        lines = self._lines(wanted, gpu) if wanted.layers != CUDA else []
        if lines:
            self._require_writer(wanted, len(lines))
        state.faults[wanted.fault_id], state.last = replace(wanted, after=self._log.end), now
        self._file.save(state)
        if lines:
            self._write(wanted, lines)
        if wanted.layers != LOG:
            self._arm(wanted, gpu)
        return self._keep(replace(wanted, is_written=True), gpu)

    def end(self, name: str) -> None:
        """Take a fault back: the last one of a GPU ends with the line of a reset. Raises Refusal."""
        fault = self._state.faults[name]
        if fault.layers != LOG and self._cuda is not None:
            self._cuda.disarm(name)
        others = [other for other in self._state.faults.values() if other.gpu_id == fault.gpu_id and other != fault]
        gpu = next((gpu for gpu in self.gpus() if gpu.index == fault.gpu_id), None)
        if gpu is not None and gpu.uuid and fault.layers != CUDA and not others:
            self._log.write(INFO, [(0, reset_line(gpu))])
        del self._state.faults[name]
        self._file.save(self._state)

    def expire(self) -> None:
        """End what has run out; what the log does not take now is tried again at the next call."""
        now, state = self._clock.seconds(), self._state
        for name in [name for name, fault in state.faults.items() if self.end_of(fault) <= now]:
            try:
                self.end(name)
            except Refusal:
                continue
        held = {fault.lease for fault in state.faults.values()}
        over = [holder for holder, until in state.leases.items() if until <= now and holder not in held]
        for holder in over:
            del state.leases[holder]
        if over:
            with suppress(Refusal):  # in the file they are over as well: they have their moment
                self._file.save(state)

    def _require_writer(self, fault: Fault, count: int) -> None:
        if fault.writer == BY_MODULE:
            self._log.require_module()
        else:
            self._log.require_room(count)

    def _lines(self, fault: Fault, gpu: Gpu) -> Lines:
        named = _named_gpus(self._log.records)
        announce = bool(gpu.uuid) and gpu.bus not in {*named, *self._state.announced}
        return xid_lines(fault.xid_type, gpu, announce=announce, serial=named.get(gpu.bus, ""), seed=fault.fault_id)

    def _write(self, fault: Fault, lines: Lines) -> None:
        try:
            worded = [(after, WRITERS[fault.writer] + text) for after, text in lines]
            self._log.write(ERROR, worded, by_module=fault.writer == BY_MODULE)
        except Refusal:
            del self._state.faults[fault.fault_id]
            self._file.save(self._state)
            raise

    def _arm(self, fault: Fault, gpu: Gpu) -> None:
        """Make programs fail. Where they cannot be, the lines that were written are taken back with a reset's."""
        try:
            _required(self._cuda).arm(fault.fault_id, fault.xid_type, gpu, fault.until - self._clock.seconds())
        except Refusal:
            self.end(fault.fault_id)
            raise

    def _keep(self, fault: Fault, gpu: Gpu) -> Fault:
        self._state.faults[fault.fault_id] = fault
        if gpu.bus not in self._state.announced:
            self._state.announced.append(gpu.bus)
        self._file.save(self._state)
        return fault

    def _drop_what_did_not_happen(self) -> None:
        """Look for faults that an agent began and did not finish. Without a log to read they have happened."""
        for fault in [fault for fault in self._state.faults.values() if not fault.is_written]:
            if self._has_not_happened(fault):
                del self._state.faults[fault.fault_id]
            else:
                self._state.faults[fault.fault_id] = replace(fault, is_written=True)

    def _has_not_happened(self, fault: Fault) -> bool:
        """Return whether neither the log nor the CUDA library knows of a fault."""
        if fault.layers != LOG and self._cuda is not None and not self._cuda.refusal:
            if self._cuda.is_armed(fault.fault_id):
                return False
            if fault.layers == CUDA:
                return True
        return self._log.is_readable and not self._is_logged(fault)

    def _is_logged(self, fault: Fault) -> bool:
        """Return whether a line of a fault is there: then nothing is written again, though more may have been due."""
        gpu = next((gpu for gpu in self.gpus() if gpu.index == fault.gpu_id), None)
        lines = xid_lines(fault.xid_type, gpu, announce=False, seed=fault.fault_id) if gpu else []
        expected = {WRITERS[fault.writer] + text for _, text in lines}
        return any(record.sequence > fault.after and record.text in expected for record in self._log.records)


def _required(cuda: CudaControl | None) -> CudaControl:
    if cuda is None:
        raise unsupported("the agent was started without --cuda-control")
    return cuda


def _named_gpus(records: Iterable[Record]) -> dict[str, str]:
    """Return the addresses of the GPUs that the driver has named in the log, with their serial numbers."""
    found: dict[str, str] = {}
    bus = ""
    for record in records:
        if match := NAMED.search(record.text):
            bus = match[1]
            found.setdefault(bus, "")
        elif bus and (match := SERIAL.search(record.text)):
            found[bus] = match[1]
    return found
