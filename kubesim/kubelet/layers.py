"""What processes have written over the files of an image, or into a volume."""

from __future__ import annotations

from kubesim.shell.files import Directory, File, Listing

BLOCK = 4096


def taken(top: Directory) -> int:
    """Return the bytes that the files below a directory take, in whole blocks: those of an image are not its own."""
    total, todo = 0, [top]
    while todo:
        directory = todo.pop()
        below = directory.lower.entries if directory.lower is not None else {}
        for name, node in directory.entries.items():
            if isinstance(node, Directory) and not isinstance(node, Listing):
                todo.append(node)
            elif isinstance(node, File) and not _same(node, below.get(name)):
                total += -(-len(node.data) // BLOCK) * BLOCK
    return total


def _same(node: File, below: object) -> bool:
    return isinstance(below, File) and node.data is below.data
