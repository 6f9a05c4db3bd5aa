"""A virtual tree of files: layers of an image, mounts that containers share, devices. Nothing here is on a disk."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kubesim.shell.errors import FileError
from kubesim.shell.share import Disk, Memory, Room
from kubesim.shell.sparse import Writer, kept, space, whole

MOST_LINKS = 40
HIDDEN = ""
"""The kind of a mount that nobody is told of: a computed part of a disk."""
LONGEST_NAME = 255
_numbers = itertools.count(131_073)


@dataclass(slots=True, kw_only=True)
class Node:
    """What every entry of a directory has. ``mtime`` is in seconds since 1970."""

    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: float = 0.0
    links: int = 1
    number: int = field(default_factory=lambda: next(_numbers))


@dataclass(slots=True, kw_only=True)
class File(Node):
    """A regular file. ``program`` names the tool that it is, if it is one; ``make`` computes the data of /proc."""

    data: bytes | bytearray = b""
    program: str = ""
    platform: str = ""
    make: Callable[[], bytes] | None = None
    memory: Memory | None = None
    """The file system in memory in which it is, if it is in one."""

    def content(self) -> bytes | bytearray:
        """Return what reading gives now."""
        return self.make() if self.make else self.data


@dataclass(slots=True, kw_only=True)
class Link(Node):
    """A symbolic link; ``leads`` is where a link of /proc goes, whatever its text says."""

    target: str
    mode: int = 0o777
    leads: Directory | None = None


@dataclass(slots=True, kw_only=True)
class Device(Node):
    """A character device: ``kind`` is null, zero, full, random, tty or stdio."""

    kind: str
    mode: int = 0o666
    major: int = 1
    minor: int = 3
    sink: Callable[[bytes], None] | None = None
    """Takes what is written to it; without one it is lost."""


@dataclass(slots=True, kw_only=True)
class Directory(Node):
    """A directory over an optional ``lower`` one that is never written to: what is touched is copied up."""

    mode: int = 0o755
    lower: Directory | None = None
    entries: dict[str, Node | None] = field(default_factory=dict)
    memory: Memory | None = None
    """The file system in memory in which it is, if it is in one."""

    def get(self, name: str) -> Node | None:
        """Return the entry, copied up from the layer below."""
        if name in self.entries:
            return self.entries[name]
        node = self.lower.get(name) if self.lower else None
        if node is None:
            return None
        if isinstance(node, Directory):
            copy: Node = Directory(mode=node.mode, uid=node.uid, gid=node.gid, mtime=node.mtime, lower=node)
        else:
            copy = replace(node)
        self.entries[name] = copy
        return copy

    def names(self) -> list[str]:
        """Return the sorted names of the entries."""
        below = self.lower.names() if self.lower else []
        gone = {name for name, node in self.entries.items() if node is None}
        return sorted({*below, *self.entries} - gone)

    def put(self, name: str, node: Node) -> None:
        """Add or replace an entry."""
        self.entries[name] = node

    def drop(self, name: str) -> None:
        """Take an entry away, in the layer below, too."""
        if self.lower is not None:
            self.entries[name] = None
        else:
            self.entries.pop(name, None)


@dataclass(slots=True)
class Listing(Directory):
    """A directory whose entries are computed when somebody looks, as in /proc."""

    find: Callable[[str], Node | None] = field(default=lambda name: None, kw_only=True)
    all: Callable[[], list[str]] = field(default=list, kw_only=True)

    def get(self, name: str) -> Node | None:
        """Return the entry as it is now."""
        return self.find(name)

    def names(self) -> list[str]:
        """Return the names that there are now."""
        return self.all()

    def put(self, name: str, node: Node) -> None:
        """Refuse."""
        raise FileError("EACCES", name)

    def drop(self, name: str) -> None:
        """Refuse."""
        raise FileError("EPERM", name)


@dataclass(slots=True)
class Mount:
    """A directory that stands at a path of this tree; the same object may stand in other containers' trees."""

    directory: Directory
    readonly: bool = False
    source: str = "tmpfs"
    kind: str = "tmpfs"


@dataclass(slots=True)
class Place:
    """Where a path leads: the directory, the name in it, the entry if there is one, and the path without links."""

    directory: Directory
    name: str
    node: Node | None
    path: str
    readonly: bool


@dataclass(slots=True)
class Files:
    """The tree of one container. ``limit`` bounds the bytes that its processes may add."""

    root: Directory
    mounts: dict[str, Mount] = field(default_factory=dict)
    limit: int = 64 << 20
    most_nodes: int = 50_000
    used: int = 0
    nodes: int = 0
    shared: Room | None = None
    """What the containers of its cluster may add together."""
    disk: Disk | None = None
    """The disk of its node: where there is one, what is more than is kept is only counted."""
    touched: Callable[[], None] | None = None
    """Called when a process has changed something."""
    outer: Files | None = None
    """The tree to whose account this one belongs."""
    on_memory: Callable[[], None] | None = None
    """Called when more is in memory of what its processes have written there."""

    def within(self, root: Directory, mounts: dict[str, Mount]) -> Files:
        """Return a tree with another root that goes to the account of this one (chroot)."""
        return Files(root, mounts, self.limit, self.most_nodes, disk=self.disk, touched=self.touched, outer=self)

    @property
    def in_memory(self) -> int:
        """The bytes of memory that what its processes have written into file systems there takes."""
        found = {id(at.directory.memory): at.directory.memory for at in self.mounts.values()}
        return sum(memory.by.get(id(self), 0) for memory in found.values() if memory is not None)

    def charge(self, size: int, nodes: int = 0, *, on_disk: int | None = None, memory: Memory | None = None) -> None:
        """Count growth: ``size`` bytes that are kept, and ``on_disk`` (as many) on the node's disk, or in ``memory``.

        Raises FileError when a disk is full.
        """
        if self.outer is not None:
            self.outer.charge(size, nodes, on_disk=on_disk, memory=memory)
            return
        on_disk = size if on_disk is None else on_disk
        if size > 0 and self.used + size > self.limit or nodes > 0 and self.nodes + nodes > self.most_nodes:
            raise FileError("ENOSPC")
        if not self._take(on_disk, memory):
            raise FileError("ENOSPC")
        size = max(size, -self.used)
        if self.shared is not None and not self.shared.take(size):
            self._take(-on_disk, memory)
            raise FileError("ENOSPC")
        self.used += size
        self.nodes = max(self.nodes + nodes, 0)
        if self.touched is not None:
            self.touched()
        if memory is not None and on_disk > 0 and self.on_memory is not None:
            self.on_memory()

    def _take(self, size: int, memory: Memory | None) -> bool:
        """Count bytes where they lie; False where there is no room for them."""
        if memory is not None:
            return memory.charge(size, id(self))
        return self.disk is None or self.disk.take(size)

    def keeps(self, size: int) -> bool:
        """Tell whether so many bytes more can be kept, or have to be because nothing else counts them."""
        if self.outer is not None:
            return self.outer.keeps(size)
        full = (
            self.used + size > self.limit or self.shared is not None and self.shared.used + size > self.shared.limit
        )
        return self.disk is None or not full

    def discard(self) -> None:
        """Let go of everything: the container is gone. What of it was on its node's disk is the kubelet's to say."""
        if self.shared is not None:
            self.shared.take(-self.used)
        for at in self.mounts.values():
            if at.directory.memory is not None:
                at.directory.memory.by.pop(id(self), None)
        self.used = self.nodes = 0
        self.root = Directory()
        self.mounts.clear()

    def mount(self, path: str, mount: Mount) -> None:
        """Put a directory where ``path`` leads through the links of the image, making it where it is missing."""
        trail, names, todo = [self.root], [""], _parts(path)
        while todo:
            name = todo.pop()
            below = trail[-1].get(name)
            if name == "..":
                del trail[max(len(trail) - 1, 1) :], names[max(len(names) - 1, 1) :]
            elif isinstance(below, Link):
                todo += _parts(below.target)
                if below.target.startswith("/"):
                    del trail[1:], names[1:]
            else:
                if not isinstance(below, Directory):
                    below = Directory()
                    trail[-1].put(name, below)
                trail.append(below)
                names.append(name)
        self.mounts["/".join(names) or "/"] = mount

    def walk(self, path: str, cwd: str = "/", *, follow: bool = True, user: tuple[int, int] = (0, 0)) -> Place:
        """Find ``path``; raises FileError where a directory on the way is missing, closed or not one."""
        whole = path if path.startswith("/") else f"{cwd}/{path}"
        if len(whole) > 4096:
            raise FileError("ENAMETOOLONG", path)
        todo = _parts(whole)
        readonly = "/" in self.mounts and self.mounts["/"].readonly
        trail: list[tuple[str, Directory, bool]] = [("/", self.root, readonly)]
        return self._steps(trail, todo, path, follow=follow, user=user)

    def _steps(
        self,
        trail: list[tuple[str, Directory, bool]],
        todo: list[str],
        asked: str,
        *,
        follow: bool,
        user: tuple[int, int],
    ) -> Place:
        links = 0
        while todo:
            name = todo.pop()
            at, directory, readonly = trail[-1]
            if name == "..":
                del trail[1 if len(trail) == 1 else -1 :]
                continue
            if not allowed(directory, 1, user):
                raise FileError("EACCES", asked)
            path = f"{at.rstrip('/')}/{name}"
            mount = self.mounts.get(path)
            node = mount.directory if mount else directory.get(name)
            if isinstance(node, Link) and (todo or follow):
                links += 1
                if links > MOST_LINKS:
                    raise FileError("ELOOP", asked)
                if node.leads is not None:
                    trail.append((path, node.leads, readonly))
                    continue
                todo += _parts(node.target)
                if node.target.startswith("/"):
                    del trail[1:]
            elif isinstance(node, Directory):
                trail.append((path, node, mount.readonly if mount else readonly))
            elif todo:
                raise FileError("ENOENT" if node is None else "ENOTDIR", asked)
            else:
                _check_end(node, name, asked)
                return Place(directory, name, node, path, readonly)
        path, directory, readonly = trail[-1]
        above = trail[-2][1] if len(trail) > 1 else directory
        return Place(above, path.rsplit("/", 1)[-1], directory, path, readonly)


def _parts(path: str) -> list[str]:
    """Return the names of a path, the first one last."""
    return [part for part in path.split("/") if part and part != "."][::-1]


def _check_end(node: Node | None, name: str, asked: str) -> None:
    if node is not None and asked.endswith("/") and not isinstance(node, Link):
        raise FileError("ENOTDIR", asked)
    if len(name) > LONGEST_NAME:
        raise FileError("ENAMETOOLONG", asked)


def allowed(node: Node, want: int, user: tuple[int, int]) -> bool:
    """Tell whether ``user`` (uid, gid) may read (4), write (2) or enter/execute (1)."""
    if user[0] == 0:
        return want != 1 or isinstance(node, Directory) or bool(node.mode & 0o111)
    shift = 6 if node.uid == user[0] else 3 if node.gid == user[1] else 0
    return bool(node.mode >> shift & want)


@dataclass(slots=True)
class View(Writer):
    """The files as one process sees them: its working directory, user and umask, and the time."""

    files: Files
    now: Callable[[], float]
    cwd: str = "/"
    uid: int = 0
    gid: int = 0
    umask: int = 0o022

    def place(self, path: str, *, follow: bool = True) -> Place:
        """Find where a path leads; the entry itself may be missing."""
        if not path:
            raise FileError("ENOENT", path)
        return self.files.walk(path, self.cwd, follow=follow, user=(self.uid, self.gid))

    def node(self, path: str, *, follow: bool = True) -> Node:
        """Return the entry; raises FileError where there is none."""
        node = self.place(path, follow=follow).node
        if node is None:
            raise FileError("ENOENT", path)
        return node

    def find(self, path: str, *, follow: bool = True) -> Node | None:
        """Return the entry or None."""
        try:
            return self.node(path, follow=follow)
        except FileError:
            return None

    def may(self, node: Node, want: int) -> bool:
        """Tell whether this process may read (4), write (2) or execute (1)."""
        return allowed(node, want, (self.uid, self.gid))

    def directory(self, path: str) -> Directory:
        """Return a directory that may be listed."""
        node = self.node(path)
        if not isinstance(node, Directory):
            raise FileError("ENOTDIR", path)
        if not self.may(node, 4):
            raise FileError("EACCES", path)
        return node

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        node = self.node(path)
        if isinstance(node, Directory):
            raise FileError("EISDIR", path)
        if not self.may(node, 4):
            raise FileError("EACCES", path)
        return whole(node.content()) if isinstance(node, File) else b""

    def content(self, path: str) -> bytes | None:
        """Return a file's bytes, or None where there is no file."""
        node = self.find(path)
        return bytes(node.content()) if isinstance(node, File) else None

    def file(self, path: str, *, append: bool = True, exclusive: bool = False) -> Node:
        """Return the file at ``path`` to be written to, made or emptied as asked."""
        place = self.place(path)
        node = place.node
        if isinstance(node, Directory):
            raise FileError("EISDIR", path)
        if node is None:
            node = File(mode=0o666 & ~self.umask)
            self.add(path, node)
            return node
        if exclusive:
            raise FileError("EEXIST", path)
        if place.readonly:
            raise FileError("EROFS", path)
        if not self.may(node, 2) or isinstance(node, File) and node.make:
            raise FileError("EACCES", path)
        if isinstance(node, File) and not append:
            self.store(node, b"")
        return node

    def write(self, path: str, data: bytes) -> None:
        """Make or replace the file at ``path``."""
        node = self.file(path, append=False)
        if isinstance(node, File):
            self.store(node, data)

    def link(self, target: str, path: str) -> None:
        """Give a file another name. Raises FileError."""
        node = self.node(target, follow=False)
        if isinstance(node, Directory):
            raise FileError("EPERM", path)
        self.add(path, node, new=False)
        node.links += 1

    def add(self, path: str, node: Node, *, new: bool = True) -> None:
        """Add an entry of this user at ``path``, which must be free."""
        place = self.place(path, follow=False)
        if place.node is not None:
            raise FileError("EEXIST", path)
        self.change(place, path)
        self.files.charge(0, 1)
        if new:
            node.uid, node.gid, node.mtime = self.uid, self.gid, self.now()
        if isinstance(node, File | Directory):
            node.memory = place.directory.memory
        place.directory.put(place.name, node)

    def change(self, place: Place, path: str) -> None:
        """Make sure that entries of the place's directory may change; raises FileError."""
        if place.readonly:
            raise FileError("EROFS", path)
        if not self.may(place.directory, 2):
            raise FileError("EACCES", path)
        place.directory.mtime = self.now()
        if self.files.touched is not None:
            self.files.touched()

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        """Make a directory."""
        self.add(path.rstrip("/") or "/", Directory(mode=mode & ~self.umask))

    def remove(self, path: str, *, directory: bool = False) -> None:
        """Take away a file, or an empty directory when asked to."""
        place = self.place(path.rstrip("/") or "/", follow=False)
        node = place.node
        if node is None:
            raise FileError("ENOENT", path)
        if isinstance(node, Directory) != directory:
            raise FileError("ENOTDIR" if directory else "EISDIR", path)
        if isinstance(node, Directory) and node.names():
            raise FileError("ENOTEMPTY", path)
        if place.path in self.files.mounts or place.path == "/":
            raise FileError("EBUSY", path)
        self.change(place, path)
        place.directory.drop(place.name)
        node.links -= 1
        gone, memory = (node.data, node.memory) if isinstance(node, File) and node.links < 1 else (b"", None)
        self.files.charge(-kept(gone), -1, on_disk=-space(gone), memory=memory)

    def rename(self, old: str, new: str) -> None:
        """Move an entry over a free name, a file or an empty directory."""
        start, end = self.place(old.rstrip("/"), follow=False), self.place(new.rstrip("/"), follow=False)
        node = start.node
        if node is None:
            raise FileError("ENOENT", old)
        if start.path in self.files.mounts or end.path in self.files.mounts:
            raise FileError("EBUSY", old)
        if isinstance(node, Directory) and f"{end.path}/".startswith(f"{start.path}/"):
            raise FileError("EINVAL", new)
        if isinstance(end.node, Directory) and isinstance(node, Directory) and end.node.names():
            raise FileError("ENOTEMPTY", new)
        if isinstance(end.node, Directory) != isinstance(node, Directory) and end.node is not None:
            raise FileError("EISDIR" if isinstance(end.node, Directory) else "ENOTDIR", new)
        self.change(start, old)
        self.change(end, new)
        if isinstance(node, File) and node.memory is not (memory := end.directory.memory):
            self.files.charge(0, on_disk=space(node.data), memory=memory)
            self.files.charge(0, on_disk=-space(node.data), memory=node.memory)
            node.memory = memory
        start.directory.drop(start.name)
        end.directory.put(end.name, node)

    def tree(self, path: str, depth: int = 64) -> Iterator[tuple[str, Node]]:
        """Yield ``path`` and everything below it, a directory before its entries; links are not followed."""
        node = self.find(path, follow=False)
        if node is None:
            return
        yield path, node
        if isinstance(node, Directory) and depth > 0:
            for name in node.names():
                yield from self.tree(f"{path.rstrip('/')}/{name}", depth - 1)
