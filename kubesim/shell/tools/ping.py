"""ping: how far away somebody is."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean, pstdev

from kubesim.shell.errors import NetworkError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import network, resolve
from kubesim.shell.tools import kit
from kubesim.shell.wayout import Hop

FOREVER = 1 << 30
PAYLOAD = 56
UNKNOWN = "Name or service not known"


async def ping(process: Process) -> int:
    """Send echo requests and tell of the answers."""
    opts = await kit.options(process)
    if len(opts.args) != 1:
        await process.error("ping: usage error: Destination address required\n")
        return 1
    name = opts.args[0]
    try:
        address = (await resolve(process, name))[0]
        way = await network(process).path(address)
    except NetworkError:
        return await process.fail(f"{name}: {UNKNOWN}", 2)
    target = way[-1] if way and way[-1].address == address else None
    return await _Echo(process, opts, name, address, target).run()


@dataclass
class _Echo:
    """One run of ping."""

    process: Process
    opts: kit.Options
    name: str
    address: str
    target: Hop | None
    times: list[float] = field(default_factory=list)
    sent: int = 0

    async def run(self) -> int:
        size = int(self.opts.get("s")) if self.opts.get("s").isdecimal() else PAYLOAD
        await self.process.write(f"PING {self.name} ({self.address}) {size}({size + 28}) bytes of data.\n")
        began, interrupt = self.process.machine.now(), kit.Interrupt(self.process)
        await self._send(interrupt, size + 8)
        taken = round((self.process.machine.now() - began) * 1000) + (round(self.times[-1]) if self.times else 0)
        await self.process.write(self._summary(taken))
        return 0 if self.times else 1

    async def _send(self, interrupt: kit.Interrupt, size: int) -> None:
        count = int(self.opts.get("c", str(FOREVER)))
        pause, deadline = kit.decimal(self.opts.get("i"), 1.0), kit.decimal(self.opts.get("w"), float(FOREVER))
        limit = kit.decimal(self.opts.get("W"), 10.0)
        end = self.process.machine.now() + deadline
        while self.sent < count and self.process.machine.now() < end:
            self.sent += 1
            way = await network(self.process).path(self.address) if self.sent > 1 else [self.target]
            self.target = way[-1] if way and way[-1] is not None and way[-1].address == self.address else None
            if self.target is not None:
                self.times.append(self.target.measured(self.sent))
                await self._tell(self.target, self.times[-1], size)
            last = self.sent == count
            rest = end - self.process.machine.now()
            if not (last and self.target is not None) and await interrupt.sleep(min(limit if last else pause, rest)):
                return

    async def _tell(self, target: Hop, took: float, size: int) -> None:
        if "q" in self.opts:
            return
        place = self.address if self.name == self.address else f"{self.name} ({self.address})"
        answer = f"icmp_seq={self.sent} ttl={target.ttl} time={kit.significant(took)} ms"
        await self.process.write(f"{size} bytes from {place}: {answer}\n")
        await self.process.flush()

    def _summary(self, taken: int) -> str:
        lost = round(100 * (self.sent - len(self.times)) / max(self.sent, 1))
        head = f"\n--- {self.name} ping statistics ---\n{self.sent} packets transmitted, {len(self.times)} "
        low, mean, high = (min(self.times), fmean(self.times), max(self.times)) if self.times else (0.0, 0.0, 0.0)
        spread = pstdev(self.times) if self.times else 0.0
        rtt = f"rtt min/avg/max/mdev = {low:.3f}/{mean:.3f}/{high:.3f}/{spread:.3f} ms\n" if self.times else "\n"
        return f"{head}received, {lost}% packet loss, time {taken}ms\n{rtt}"


TOOLS: dict[str, Tool] = {"ping": ping}
