"""What processes have written over the files of an image, or into a volume."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

from kubesim.errors import Obj
from kubesim.shell.files import Directory, File, Link, Listing, Node
from kubesim.shell.sparse import Sparse, kept, space

BLOCK = 4096
MOST_KEPT = 256 << 10
"""How many bytes of one layer or volume outlive a restart of the process: files beyond that are left out."""
Birth = tuple[int, float]
NEVER: Birth = (0, 0.0)


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes and entries of a file system."""

    bytes: int = 0
    inodes: int = 0

    def __add__(self, other: Space) -> Space:
        return Space(self.bytes + other.bytes, self.inodes + other.inodes)


def weigh(top: Directory) -> Space:
    """Return what lies below a directory takes of a disk, in whole blocks: the files of an image are not its own."""
    total, count, todo = 0, 1, [top]
    while todo:
        directory = todo.pop()
        below = directory.lower.entries if directory.lower is not None else {}
        for name, node in directory.entries.items():
            if isinstance(node, Directory) and not isinstance(node, Listing):
                todo.append(node)
                count += node.lower is None
            elif isinstance(node, File) and not _same(node, below.get(name)):
                total += -(-space(node.data) // BLOCK) * BLOCK
                count += 1
    return Space(total, count)


def taken(top: Directory) -> int:
    """Return the bytes that the files below a directory take."""
    return weigh(top).bytes


def _same(node: File, below: object) -> bool:
    return isinstance(below, File) and node.data is below.data


def birth(now: float) -> Birth:
    """Return what tells nodes that are there already from those that are made or changed after ``now``."""
    return Node().number, now


def dump(top: Directory, since: Birth = NEVER) -> list[Obj]:
    """Return what has been written into a layer since ``birth``, by path: folders before their files."""
    found: list[Obj] = []
    left = MOST_KEPT
    for path, node, below in _walk(top):
        if _known(node, since) or _alike(node, below):
            continue
        entry: Obj = {"path": path}
        if node is not None:
            entry |= {"mode": node.mode, "uid": node.uid, "gid": node.gid, "mtime": node.mtime}
        if isinstance(node, File):
            if kept(node.data) > left:
                continue
            left -= kept(node.data)
            if isinstance(node.data, Sparse):
                entry |= {"size": node.data.size, "space": node.data.space}
            entry |= {
                "file": base64.b64encode(node.data[: kept(node.data)]).decode(),
                "program": node.program,
                "platform": node.platform,
            }
        elif isinstance(node, Link):
            entry["link"] = node.target
        found.append(entry)
    return found


def restore(top: Directory, entries: list[Obj]) -> None:
    """Bring back what ``dump`` has told of; a file that is there is changed in place, whoever has it open."""
    for entry in entries:
        *folders, name = entry["path"].split("/")
        here = top
        for folder in folders:
            below = here.get(folder)
            if not isinstance(below, Directory):
                below = Directory()
                here.put(folder, below)
            here = below
        if "mode" not in entry:
            here.drop(name)
            continue
        node = _made(entry, here.get(name))
        node.mode, node.uid, node.gid, node.mtime = (entry[key] for key in ("mode", "uid", "gid", "mtime"))
        here.put(name, node)


def _made(entry: Obj, there: Node | None) -> Node:
    if "link" in entry:
        return Link(target=entry["link"])
    if "file" not in entry:
        return there if isinstance(there, Directory) else Directory()
    file = there if isinstance(there, File) else File()
    file.number = File().number  # later than the birth of its layer
    file.data, file.program, file.platform = base64.b64decode(entry["file"]), entry["program"], entry["platform"]
    if "size" in entry:
        file.data = Sparse(file.data, entry["size"], entry["space"])
    return file


def _walk(top: Directory) -> Iterator[tuple[str, Node | None, Node | None]]:
    """Yield path, node (None: taken away) and what lies below it, of all that a layer has of its own."""
    todo = [("", top)]
    while todo:
        prefix, directory = todo.pop()
        lower = directory.lower.entries if directory.lower is not None else {}
        for name, node in directory.entries.items():
            if isinstance(node, Listing) or (isinstance(node, File) and node.make):
                continue
            if node is None or isinstance(node, File | Link) or type(node) is Directory:
                yield prefix + name, node, lower.get(name)
            if isinstance(node, Directory):
                todo.append((f"{prefix}{name}/", node))


def _known(node: Node | None, since: Birth) -> bool:
    """Whether a node was made with its layer and has not been written to; what is in a folder speaks for itself."""
    return node is not None and node.number < since[0] and (isinstance(node, Directory) or node.mtime <= since[1])


def _alike(node: Node | None, below: Node | None) -> bool:
    """Whether a node is only a copy of what lies below it."""
    if node is None or below is None or type(node) is not type(below):
        return False
    same = (node.mode, node.uid, node.gid) == (below.mode, below.uid, below.gid)
    if isinstance(node, File):
        return same and _same(node, below)
    return same and (not isinstance(node, Link) or node.target == getattr(below, "target", ""))


def empty_dirs(spec: Obj) -> dict[str, Obj]:
    """Return the volumes of a pod that are empty directories, by name."""
    return {each["name"]: each["emptyDir"] or {} for each in spec.get("volumes") or () if "emptyDir" in each}
