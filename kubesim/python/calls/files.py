"""Files and descriptors: what the os module's functions ask of the container's tree."""

from __future__ import annotations

import posixpath
import stat as modes
from functools import cache
from zipfile import ZipFile

from kubesim.python.build import SOURCES, component
from kubesim.python.calls.registry import LINUX, blocking, call
from kubesim.shell.errors import FileError
from kubesim.shell.files import Device, Directory, File, Link, Node
from kubesim.shell.handles import Handle, OpenFile, Pipe
from kubesim.shell.machine import Process
from kubesim.shell.sparse import space

O_ACCMODE, O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_TRUNC, O_APPEND = (
    LINUX["posix"][f"O_{name}"] for name in ("ACCMODE", "RDONLY", "WRONLY", "CREAT", "EXCL", "TRUNC", "APPEND")
)
MAX_READ = 1 << 20
MAX_DESCRIPTORS = 1024
BLOCK = 4096


def handle(process: Process, fd: int) -> Handle:
    """Return what a descriptor stands for; raises FileError."""
    found = process.fds.get(fd)
    if found is None:
        raise FileError("EBADF")
    return found


def added(process: Process, new: Handle, at: int | None = None) -> int:
    """Give a handle the lowest free descriptor, or ``at``; raises FileError."""
    number = at if at is not None else next(n for n in range(MAX_DESCRIPTORS + 1) if n not in process.fds)
    if number >= MAX_DESCRIPTORS:
        raise FileError("EMFILE")
    old, process.fds[number] = process.fds.get(number), new.share()
    if old is not None:
        old.release()
    return number


@call
async def open_(process: Process, path: str, flags: int, mode: int = 0o777) -> int:
    """Open a file as open(2) does."""
    way = flags & O_ACCMODE
    view = process.view
    node = view.find(path)
    if node is None and not flags & O_CREAT and view.place(path).node is None and _ordinary(path):
        raise FileError("ENOENT", path)
    if node is not None and flags & O_CREAT and flags & O_EXCL:
        raise FileError("EEXIST", path)
    if isinstance(node, Directory):
        if way != O_RDONLY or flags & O_CREAT:
            raise FileError("EISDIR", path)
        return added(process, OpenFile(view, view.directory(path), path, readable=True, writable=False, append=False))
    made = node is None
    letter = "r" if way == O_RDONLY and not flags & O_CREAT else "w" if flags & O_TRUNC else "+"
    if way == O_WRONLY and letter == "+":
        letter = "a"
    opened = process.open(path, letter)
    if isinstance(opened, OpenFile):
        if made:
            opened.node.mode = mode & ~view.umask & 0o7777
        append = bool(flags & O_APPEND)
        opened = OpenFile(view, opened.node, path, readable=way != O_WRONLY, writable=way != O_RDONLY, append=append)
    return added(process, opened)


def _ordinary(path: str) -> bool:
    return not path.startswith(("/dev/", "/proc/"))


@call
async def close(process: Process, fd: int) -> None:
    """Close a descriptor."""
    handle(process, fd)
    process.fds.pop(fd).release()


@blocking
async def read(process: Process, fd: int, count: int) -> str:
    """Read bytes, which travel as the characters with their numbers."""
    return (await process.read(min(count, MAX_READ), fd)).decode("latin-1")


@call
async def write(process: Process, fd: int, data: str) -> int:
    """Write all of such bytes."""
    await handle(process, fd).write(data.encode("latin-1"))
    await process.tick()
    return len(data)


@call
async def lseek(process: Process, fd: int, offset: int, whence: int) -> int:
    """Move the position in a file."""
    found = handle(process, fd)
    if not isinstance(found, OpenFile):
        raise FileError("ESPIPE")
    bases = (0, found.position, _size(found.node))
    if whence not in range(3) or (base := bases[whence]) + offset < 0:
        raise FileError("EINVAL")
    found.position = base + offset
    return found.position


@call
async def ftruncate(process: Process, fd: int, size: int) -> None:
    """Cut or lengthen an open file."""
    found = handle(process, fd)
    if not isinstance(found, OpenFile) or not isinstance(found.node, File):
        raise FileError("EINVAL")
    _cut(process, found.node, size)


@call
async def truncate(process: Process, path: str, size: int) -> None:
    """Cut or lengthen a file."""
    node = process.view.node(path)
    if not isinstance(node, File):
        raise FileError("EISDIR" if isinstance(node, Directory) else "EINVAL", path)
    if not process.view.may(node, 2):
        raise FileError("EACCES", path)
    _cut(process, node, size)


def _cut(process: Process, node: File, size: int) -> None:
    if size > len(node.data):
        process.view.lengthen(node, size, hole=True)
    else:
        process.view.store(node, bytes(node.data[:size]))


@call
async def isatty(process: Process, fd: int) -> bool:
    """Tell whether a descriptor is a terminal."""
    return handle(process, fd).tty


@call
async def get_terminal_size(process: Process, fd: int) -> list[int]:
    """Return columns and lines."""
    handle(process, fd)
    terminal = process.tty(fd)
    if terminal is None:
        raise FileError("ENOTTY")
    rows, columns = terminal.size
    return [columns, rows]


@call
async def dup(process: Process, fd: int, to: int | None = None) -> int:
    """Copy a descriptor."""
    return added(process, handle(process, fd), to)


@call
async def pipe(process: Process) -> list[int]:
    """Make a pipe: the descriptors of its two ends."""
    made = Pipe()
    return [added(process, made.reader), added(process, made.writer)]


def _size(node: Node | None) -> int:
    return len(node.content()) if isinstance(node, File) else len(node.target) if isinstance(node, Link) else 0


def _kind(node: Node) -> int:
    kinds = {Directory: modes.S_IFDIR, Link: modes.S_IFLNK, Device: modes.S_IFCHR}
    return next((bits for sort, bits in kinds.items() if isinstance(node, sort)), modes.S_IFREG)


def _facts(node: Node) -> list[float]:
    """Return mode, inode, device, links, uid, gid, size, mtime, blocks."""
    folder = isinstance(node, Directory)
    size = BLOCK if folder else _size(node)
    taken = 8 if folder else -(-space(node.data) // BLOCK) * 8 if isinstance(node, File) else 0
    links = 2 if isinstance(node, Directory) else node.links
    return [_kind(node) | node.mode, node.number, 66, links, node.uid, node.gid, size, node.mtime, taken]


@call
async def stat(process: Process, path: str | int, follow: bool = True) -> list[float]:
    """Return the facts of an entry, or of what a descriptor stands for."""
    if isinstance(path, str):
        return _facts(process.view.node(path, follow=follow))
    found = handle(process, path)
    if isinstance(found, OpenFile):
        return _facts(found.node)
    kind = modes.S_IFCHR | 0o620 if found.tty else modes.S_IFIFO | 0o600
    return [kind, 3 + path, 13, 1, process.view.uid, process.view.gid, 0, process.machine.now(), 0]


@call
async def scandir(process: Process, path: str) -> list[list[object]]:
    """Return name, kind and inode of every entry of a folder."""
    folder = process.view.directory(path)
    found = [(name, folder.get(name)) for name in folder.names()]
    place = process.view.place(path).path.rstrip("/")
    mounted = {posixpath.basename(at) for at in process.view.files.mounts if posixpath.dirname(at) == (place or "/")}
    return [[name, modes.S_IFDIR if name in mounted else _kind(node), node.number] for name, node in found if node]


@call
async def mkdir(process: Process, path: str, mode: int = 0o777) -> None:
    """Make a folder."""
    process.view.mkdir(path, mode)


@call
async def rmdir(process: Process, path: str) -> None:
    """Remove an empty folder."""
    process.view.remove(path, directory=True)


@call
async def unlink(process: Process, path: str) -> None:
    """Remove a file."""
    process.view.remove(path)


@call
async def rename(process: Process, src: str, dst: str) -> None:
    """Move an entry."""
    process.view.rename(src, dst)


@call
async def symlink(process: Process, src: str, dst: str) -> None:
    """Make a symbolic link."""
    process.view.add(dst, Link(target=src))


@call
async def link(process: Process, src: str, dst: str) -> None:
    """Give a file another name."""
    process.view.link(src, dst)


@call
async def readlink(process: Process, path: str) -> str:
    """Return where a symbolic link leads."""
    node = process.view.node(path, follow=False)
    if not isinstance(node, Link):
        raise FileError("EINVAL", path)
    return node.target


@call
async def chmod(process: Process, path: str, mode: int) -> None:
    """Change permissions."""
    _own(process, path).mode = mode & 0o7777


@call
async def chown(process: Process, path: str, uid: int, gid: int) -> None:
    """Change owners."""
    node = _own(process, path)
    if process.view.uid and (uid, gid) not in ((-1, -1), (node.uid, node.gid)):
        raise FileError("EPERM", path)
    node.uid, node.gid = node.uid if uid < 0 else uid, node.gid if gid < 0 else gid


@call
async def utime(process: Process, path: str, mtime: float | None = None) -> None:
    """Change the time of the last change."""
    _own(process, path).mtime = process.machine.now() if mtime is None else mtime


def _own(process: Process, path: str) -> Node:
    place, node = process.view.place(path), process.view.node(path)
    if place.readonly:
        raise FileError("EROFS", path)
    if process.view.uid not in (0, node.uid):
        raise FileError("EPERM", path)
    return node


@call
async def access(process: Process, path: str, mode: int) -> bool:
    """Tell whether an entry may be used so."""
    node = process.view.find(path)
    if node is None or mode & 2 and process.view.place(path).readonly:
        return False
    return all(process.view.may(node, bit) for bit in (4, 2, 1) if mode & bit)


@call
async def statvfs(process: Process, path: str) -> list[int]:
    """Return size and use of the disk on which something is, as shutil.disk_usage wants them."""
    process.view.node(path)
    disk = process.view.files.disk
    total, used = (disk.limit, disk.look()) if disk is not None else (100 << 30, 20 << 30)
    blocks, free = total // BLOCK, (total - used) // BLOCK
    return [BLOCK, BLOCK, blocks, free, free, total >> 14, (total - used) >> 14, (total - used) >> 14, 0, 255]


@call
async def getcwd(process: Process) -> str:
    """Return the working directory."""
    return process.cwd


@call
async def chdir(process: Process, path: str) -> None:
    """Change it."""
    node = process.view.node(path)
    if not isinstance(node, Directory):
        raise FileError("ENOTDIR", path)
    if not process.view.may(node, 1):
        raise FileError("EACCES", path)
    process.view.cwd = process.view.place(path).path


@call
async def umask(process: Process, mask: int) -> int:
    """Set the mask of new files; returns the old one."""
    old, process.view.umask = process.view.umask, mask & 0o777
    return old


@call
async def source(process: Process, path: str) -> str | None:
    """Return a source of the standard library."""
    try:
        return _sources().read(path).decode()
    except KeyError:
        return None


@cache
def _sources() -> ZipFile:
    return ZipFile(component().with_name(SOURCES))
