"""``nvidia-smi mig``: listing, making and removing GPU instances."""

from __future__ import annotations

from kubesim.gpu.mig import MigError, jpegs, multiprocessors, profile, remaining
from kubesim.gpu.smi.view import Seen, View, chosen, texts

_RULE = "+-------------------------------------------------------------------------------+"
_INSTANCE_RULE = "+---------------------------------------------------------+"
_COMPUTE_RULE = "+--------------------------------------------------------------------+"
NOT_ENABLED = "No MIG-enabled devices found."


def profiles(view: View, only: list[str]) -> tuple[str, int]:
    """Return the answer to ``-lgip`` and its exit status."""
    lines = [line for seen in _enabled(view, only) for line in _profiles(seen)]
    return ("\n".join([texts()["profiles"], *lines]) + "\n", 0) if lines else (NOT_ENABLED + "\n", 6)


def instances(view: View, only: list[str]) -> tuple[str, int]:
    """Return the answer to ``-lgi`` and its exit status."""
    seen = _enabled(view, only)
    if not seen:
        return NOT_ENABLED + "\n", 6
    lines: list[str] = []
    for item in seen:
        for found in sorted(item.device.instances, key=lambda one: (one.profile.name, one.id)):
            name, place = f"MIG {found.profile.name}", f"{found.start}:{found.size}"
            lines += [
                f"|{item.number:>4}  {name:<19}{found.profile.id:>4}{found.id:>9}{place:>14}     |",
                _INSTANCE_RULE,
            ]
    if not lines:
        return "No GPU instances found: Not Found\n", 6
    return "\n".join([texts()["instances"], *lines]) + "\n", 0


def compute_instances(view: View, only: list[str]) -> tuple[str, int]:
    """Return the answer to ``-lci`` and its exit status."""
    seen = _enabled(view, only)
    if not seen:
        return NOT_ENABLED + "\n", 6
    lines: list[str] = []
    for item in seen:
        for found in sorted(item.device.instances, key=lambda one: one.id):
            name, number = f"MIG {found.profile.name.split('+')[0]}", f"{found.id:>5}"
            lines += [
                f"|{item.number:>4}{number:>8}       {name:<18}{found.profile.slices - 1:>3}{0:>10}"
                f"{f'0:{found.profile.slices}':>14}    |",
                _COMPUTE_RULE,
            ]
    if not lines:
        return "No compute instances found: Not Found\n", 6
    return "\n".join([texts()["compute_instances"], *lines]) + "\n", 0


def create(view: View, only: list[str], names: str) -> tuple[str, int]:
    """Make the instances that ``-cgi`` names, each with its compute instance."""
    out = ""
    for seen in _enabled(view, only):
        for name in names.split(","):
            try:
                made = view.board.create_instance(seen.device.index, name, view.at)
            except MigError as error:
                number = _number(seen, name)
                out += f"Unable to create a GPU instance on GPU {seen.number:>2} using profile {number}: {error}\n"
                return out + "Failed to create GPU instances: " + str(error) + "\n", 19
            out += (
                f"Successfully created GPU instance ID {made.id:>2} on GPU {seen.number:>2} "
                f"using profile MIG {made.profile.name} (ID {made.profile.id:>2})\n"
                f"Successfully created compute instance ID  0 on GPU {seen.number:>2} GPU instance ID {made.id:>2} "
                f"using profile MIG {made.profile.name.split('+')[0]} (ID {made.profile.slices - 1:>2})\n"
            )
    return (out, 0) if out else (NOT_ENABLED + "\n", 6)


def destroy(view: View, only: list[str], numbers: list[str]) -> tuple[str, int]:
    """Remove instances by number; all of them where none is named."""
    out = ""
    for seen in _enabled(view, only):
        for found in sorted(seen.device.instances, key=lambda one: one.id):
            if numbers and str(found.id) not in numbers:
                continue
            try:
                view.board.destroy_instance(seen.device.index, found.id, view.at)
            except MigError as error:
                out += f"Unable to destroy GPU instance ID {found.id:>2} from GPU {seen.number:>2}: {error}\n"
                return out + f"Failed to destroy GPU instances: {error}\n", 19
            out += f"Successfully destroyed GPU instance ID {found.id:>2} from GPU {seen.number:>2}\n"
    return (out, 0) if out else ("No GPU instances found: Not Found\n", 6)


def _enabled(view: View, only: list[str]) -> list[Seen]:
    return [seen for seen in chosen(view, only) if seen.device.mig_mode]


def _number(seen: Seen, name: str) -> int | str:
    try:
        return profile(seen.device.product, name).id
    except MigError:
        return name


def _profiles(seen: Seen) -> list[str]:
    product, lines = seen.device.product, list[str]()
    for item in product.mig.values():
        free = f"{remaining(product, seen.device.instances, item)}/{item.most}"
        sms = multiprocessors(product, item.slices)
        lines += [
            f"|{seen.number:>4}  MIG {item.name:<14}{item.id:>4}{free:>8}{item.memory_gib:>12.2f}"
            f"{'No':>9}{sms:>7}{item.decoders:>6}{0:>6}   |",
            f"|{'':57}{item.copy_engines:>7}{jpegs(product, item):>6}{item.ofas:>6}   |",
            _RULE,
        ]
    return lines
