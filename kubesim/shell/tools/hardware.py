"""What a node is made of: lsmod, modinfo, lspci, lscpu."""

from __future__ import annotations

from kubesim.gpu.board import Board
from kubesim.gpu.devices import Device
from kubesim.gpu.hardware import SPEEDS, Pci, bus, memories, modules
from kubesim.gpu.products import driver
from kubesim.shell.machine import Machine, Process
from kubesim.shell.tools import kit


def board_of(machine: Machine) -> Board | None:
    """Return the devices of the node beneath a machine."""
    return machine.devices.board if machine.devices is not None else None


async def lsmod(process: Process) -> int:
    """Show the kernel's modules."""
    await process.write(f"{'Module':<23} Size  Used by\n")
    for name, size, count, by in modules(board_of(process.machine)):
        await process.write(f"{name:<19} {size:>8}  {count}{' ' + ','.join(by) if by else ''}\n")
    return 0


async def modinfo(process: Process) -> int:
    """Tell of a module."""
    opts = await kit.options(process)
    if not opts.args:
        return await process.fail("ERROR: missing module or filename.")
    status = 0
    known = {name: by for name, _, _, by in modules(board_of(process.machine))}
    for word in opts.args:
        name = word.replace("-", "_")
        if name not in known:
            await process.error(f"modinfo: ERROR: Module {word} not found.\n")
            status = 1
            continue
        for line in _info(name, known, process.machine.kernel).splitlines():
            key, _, value = line.partition(":")
            field = opts.get("F")
            if not field or field == key:
                await process.write(f"{value.strip() if field else line}\n")
    return status


def _info(name: str, known: dict[str, list[str]], kernel: str) -> str:
    own = name.startswith("nvidia")
    firmware = "".join(f"firmware:       nvidia/{driver().version}/gsp_{each}.bin\n" for each in ("tu10x", "ga10x"))
    return kit.told(
        "hardware_module",
        name=name,
        kernel=kernel,
        path="updates/dkms" if own else f"kernel/{'drivers' if '_' not in name else 'net/netfilter'}",
        version=driver().version if own else kernel,
        license="Dual MIT/GPL" if own else "GPL",
        firmware=firmware if name == "nvidia" else "",
        source=f"{abs(hash_of(name)):024X}"[-24:],
        depends=",".join(other for other, by in known.items() if name in by),
    )


def hash_of(text: str) -> int:
    """Return a number that a text always has."""
    return int.from_bytes(text.encode() * 8, "big") * 0x9E3779B97F4A7C15F39CC0605CEDC835


async def lspci(process: Process) -> int:
    """Show the devices on the bus."""
    opts = await kit.options(process)
    await kit.no_operands(process, opts.args, "Usage: lspci [<switches>]")
    numbers = min(sum(flag == "n" for flag, _ in opts.given), 2)
    for each in bus(board_of(process.machine)):
        slot, ids = opts.get("s").lower().removeprefix("0000:"), opts.get("d").lower()
        if (slot and not each.address.startswith(slot)) or (ids and not each.ids.startswith(ids.rstrip(":"))):
            continue
        verbosity = sum(flag == "v" for flag, _ in opts.given)
        await process.write(("0000:" if "D" in opts else "") + each.line(numbers) + "\n")
        if verbosity or "k" in opts:
            await process.write("".join(f"\t{line}\n" for line in _details(each, verbosity)) + "\n" * bool(verbosity))
    return 0


def _details(each: Pci, verbosity: int) -> list[str]:
    if each.lost:
        return ["!!! Unknown header type 7f", "Kernel driver in use: nvidia", "Kernel modules: nvidia_drm, nvidia"]
    lines: list[str] = []
    if each.gpu is not None:
        lines = _gpu_details(each.gpu, verbosity)
    elif verbosity:
        lines = ["Flags: bus master, fast devsel, latency 0", "Capabilities: <access denied>"]
    if each.module:
        lines.append(f"Kernel driver in use: {each.module}")
    if each.gpu is not None:
        lines.append("Kernel modules: nvidia_drm, nvidia")
    return lines


def _gpu_details(gpu: Device, verbosity: int) -> list[str]:
    pci = gpu.product.pci
    lines = [f"Subsystem: NVIDIA Corporation Device {pci['subsystem'][:4].lower()}"]
    if not verbosity:
        return lines
    small, large = memories(gpu)
    base = 0xA000 + gpu.index * 0x200
    generation, width = gpu.trouble.narrow or (pci["generation"], pci["width"])
    values = {"slot": gpu.index + 3, "irq": 150 + gpu.minor, "gpu": gpu, "small": small, "large": large}
    lines += kit.told("lspci", first=f"{base >> 8:x}", second=f"{base:x}", **values).splitlines()
    if verbosity > 1:
        down = [generation < pci["generation"], width < pci["width"]]
        words = [" (downgraded)" if each else " (ok)" for each in down]
        lines += [
            f"\tLnkCap:\tPort #0, Speed {SPEEDS[pci['generation']]}, Width x{pci['width']}, ASPM not supported",
            f"\tLnkSta:\tSpeed {SPEEDS[generation]}{words[0]}, Width x{width}{words[1]}",
        ]
    return lines


def numa(machine: Machine) -> list[str]:
    """Return the lists of processors of a machine's memory nodes."""
    board = board_of(machine)
    if board is not None and board.devices and machine.cpus == board.product.machine.cpus:
        return list(board.product.numa)
    return [f"0-{machine.cpus - 1}" if machine.cpus > 1 else "0"]


async def lscpu(process: Process) -> int:
    """Show the processors."""
    cpus, nodes = process.machine.cpus, numa(process.machine)
    values = {"cpus": cpus, "online": f"0-{cpus - 1}" if cpus > 1 else "0", "threads": 2 if cpus > 1 else 1}
    await process.write(kit.told("lscpu", cores=max(cpus // 2 // len(nodes), 1), sockets=len(nodes), **values))
    for at, each in enumerate(nodes):
        await process.write(f"{f'  NUMA node{at} CPU(s):':<33}{each}\n")
    return 0


TOOLS = kit.named(lsmod, modinfo, lspci, lscpu)
