"""The os module's files and descriptors, and ``open``, on the container's tree."""

import _io
import _pyio
import builtins
import errno
import io
import os
import posix
import sys

from machine import LINUX, ask, error, start

CHUNK = 1 << 20


def text(path, name="open"):
    """Return a path as text."""
    try:
        path = os.fspath(path)
    except TypeError:
        kind = type(path).__name__
        message = f"{name}: path should be string, bytes, os.PathLike or integer, not {kind}"
        raise TypeError(message) from None
    path = os.fsdecode(path)
    if not path:
        raise error("OSError", [errno.ENOENT, os.strerror(errno.ENOENT), path])
    if "\0" in path:
        raise ValueError("embedded null byte" if name != "stat" else "stat: embedded null character in path")
    return path


def open_(path, flags, mode=0o777, *, dir_fd=None):
    return ask("open", path=text(path), flags=flags, mode=mode)


def close(fd):
    ask("close", fd=fd)


def read(fd, length, /):
    return ask("read", fd=fd, count=length).encode("latin-1")


def readinto(fd, buffer, /):
    view = memoryview(buffer).cast("B")
    data = read(fd, len(view))
    view[: len(data)] = data
    return len(data)


def write(fd, data, /):
    view = memoryview(data).cast("B")
    for at in range(0, len(view), CHUNK):
        ask("write", fd=fd, data=str(view[at : at + CHUNK], "latin-1"))
    return len(view)


def stat(path, *, dir_fd=None, follow_symlinks=True):
    return facts(ask("stat", path=path if isinstance(path, int) else text(path, "stat"), follow=follow_symlinks))


def facts(values):
    mode, inode, device, links, uid, gid, size, at, blocks = values
    times = [int(at)] * 3 + [float(at)] * 3 + [int(at * 1e9)] * 3
    return os.stat_result((mode, inode, device, links, uid, gid, size, *times, 4096, blocks, 0))


class DirEntry:
    """An entry of a folder, as scandir yields it."""

    def __init__(self, folder, name, kind, inode):
        self.name, self._kind, self._inode = name, kind, inode
        self.path = os.path.join(folder, name)

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return f"<DirEntry {self.name!r}>"

    def inode(self):
        return self._inode

    def is_symlink(self):
        return self._kind == 0o120000

    def is_junction(self):
        return False

    def _is(self, kind, follow):
        if follow and self.is_symlink():
            try:
                return os.stat(self.path).st_mode & 0o170000 == kind
            except FileNotFoundError:
                return False
        return self._kind == kind

    def is_dir(self, *, follow_symlinks=True):
        return self._is(0o040000, follow_symlinks)

    def is_file(self, *, follow_symlinks=True):
        return self._is(0o100000, follow_symlinks)

    def stat(self, *, follow_symlinks=True):
        return os.stat(self.path, follow_symlinks=follow_symlinks)


class Entries:
    """The iterator that scandir returns."""

    def __init__(self, path):
        name = text(path, "scandir")
        found = [DirEntry(name, *each) for each in ask("scandir", path=name)]
        if isinstance(path, bytes):
            for each in found:
                each.name, each.path = os.fsencode(each.name), os.fsencode(each.path)
        self._rest = iter(found)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._rest)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self._rest = iter(())


def listdir(path=None):
    return [each.name for each in Entries("." if path is None else path)]


def scandir(path=None):
    return Entries("." if path is None else path)


def one(name, *names, optional=()):
    """Return a function of a path and further arguments that a call of this name answers."""

    def function(path, *values, dir_fd=None, follow_symlinks=True, **more):
        kept = {**dict(zip(names, values, strict=False)), **more}
        return ask(name, path=text(path, name), **{key: int(value) for key, value in kept.items()})

    function.__name__ = name
    return function


def two(name):
    """Return a function of two paths; its error names both."""

    def function(src, dst, *, src_dir_fd=None, dst_dir_fd=None, target_is_directory=False, follow_symlinks=True):
        try:
            ask(name, src=text(src, name), dst=text(dst, name))
        except OSError as failed:
            raise error("OSError", [failed.errno, failed.strerror, src, None, dst]) from None

    function.__name__ = name
    return function


def utime(path, times=None, *, ns=None, dir_fd=None, follow_symlinks=True):
    moment = ns[1] / 1e9 if ns else times[1] if times else None
    ask("utime", path=text(path, "utime"), mtime=moment)


def readlink(path, *, dir_fd=None):
    return ask("readlink", path=text(path, "readlink"))


def truncate(path, length):
    ask("ftruncate", fd=path, size=length) if isinstance(path, int) else ask("truncate", path=text(path), size=length)


def pread(fd, length, offset, /):
    lseek(fd, offset, 0)
    return read(fd, length)


def lseek(fd, position, whence=0, /):
    return ask("lseek", fd=fd, offset=position, whence=whence)


def dup2(fd, fd2, inheritable=True):
    return ask("dup", fd=fd, to=fd2)


def getcwd():
    return ask("getcwd")


def statvfs(path):
    return os.statvfs_result(ask("statvfs", path=text(path, "statvfs")))


FUNCTIONS = {
    "open": open_,
    "close": close,
    "read": read,
    "readinto": readinto,
    "write": write,
    "stat": stat,
    "lstat": lambda path, *, dir_fd=None: stat(path, follow_symlinks=False),
    "fstat": lambda fd: stat(fd),
    "listdir": listdir,
    "scandir": scandir,
    "DirEntry": DirEntry,
    "mkdir": one("mkdir", "mode"),
    "rmdir": one("rmdir"),
    "unlink": one("unlink"),
    "remove": one("unlink"),
    "chmod": one("chmod", "mode"),
    "chown": one("chown", "uid", "gid"),
    "lchown": one("chown", "uid", "gid"),
    "access": one("access", "mode"),
    "chdir": one("chdir"),
    "rename": two("rename"),
    "replace": two("rename"),
    "symlink": two("symlink"),
    "link": two("link"),
    "readlink": readlink,
    "utime": utime,
    "truncate": truncate,
    "ftruncate": truncate,
    "lseek": lseek,
    "pread": pread,
    "isatty": lambda fd: ask("isatty", fd=fd),
    "dup": lambda fd: ask("dup", fd=fd),
    "dup2": dup2,
    "pipe": lambda: tuple(ask("pipe")),
    "getcwd": getcwd,
    "getcwdb": lambda: os.fsencode(getcwd()),
    "umask": lambda mask: ask("umask", mask=mask),
    "fsync": lambda fd: ask("isatty", fd=int(fd)) and None,
    "fdatasync": lambda fd: ask("isatty", fd=int(fd)) and None,
    "sync": lambda: None,
    "statvfs": statvfs,
    "get_terminal_size": lambda fd=1: os.terminal_size(ask("get_terminal_size", fd=fd)),
    "get_inheritable": lambda fd: False,
    "set_inheritable": lambda fd, inheritable: None,
    "get_blocking": lambda fd: True,
    "set_blocking": lambda fd, blocking: None,
    "strerror": lambda code: LINUX["strerror"].get(str(code), f"Unknown error {code}"),
}


def install():
    """Put everything in place, before the modules that use it are imported."""
    for name, function in FUNCTIONS.items():
        if getattr(function, "__name__", "<lambda>") in ("<lambda>", "open_", "function"):
            function.__name__ = name
        function = switching(function, getattr(os, name, None))
        setattr(posix, name, function)
        setattr(os, name, function)
    for module in (posix, os):
        vars(module).update(LINUX["posix"])
    os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks = set(), {os.stat}, {os.stat}
    for name in ("BufferedReader", "BufferedWriter", "BufferedRandom", "TextIOWrapper"):
        setattr(_pyio, name, getattr(_io, name))
    _pyio.IncrementalNewlineDecoder = _io.IncrementalNewlineDecoder
    _pyio.open.__module__ = "_io"
    _pyio.FileIO.__module__ = "_io"
    opener = switching(_pyio.open, _io.open)
    code_opener = switching(open_code, _io.open_code)
    for module in (_io, io):
        module.FileIO, module.open_code = _pyio.FileIO, code_opener
    before = builtins.open
    for module in [*sys.modules.values()]:  # some have imported open by name
        for name in [name for name, value in vars(module).items() if value is before]:
            setattr(module, name, opener)
    pure = _pyio.open.__func__
    words = {"can't have read/write/append mode at once": "must have exactly one of create/read/write/append mode"}
    constants = [words.get(each, each) if isinstance(each, str) else each for each in pure.__code__.co_consts]
    pure.__code__ = pure.__code__.replace(co_consts=tuple(constants))


def open_code(path):
    return _pyio.open(path, "rb")


def switching(new, old):
    """Return a function that is the build's own as long as modules are imported from its files."""
    if old is None or isinstance(new, type):
        return new

    def function(*args, **named):
        return new(*args, **named) if start else old(*args, **named)

    function.__name__ = function.__qualname__ = new.__name__
    return function


def standard_streams():
    """Make sys.stdin, stdout and stderr of the first three descriptors."""
    unbuffered, terminals = start["unbuffered"], start["terminals"]
    sys.stdin = stream(0, "r", "strict", terminals[0], False)
    sys.stdout = stream(1, "w", "strict", terminals[1], unbuffered)
    sys.stderr = stream(2, "w", "backslashreplace", True, unbuffered)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def stream(fd, mode, errors, lines, unbuffered):
    raw = Raw(fd, mode, closefd=False)
    raw.name = ("<stdin>", "<stdout>", "<stderr>")[fd]
    buffer = _io.BufferedReader(raw) if fd == 0 else raw if unbuffered else _io.BufferedWriter(raw)
    made = _io.TextIOWrapper(
        buffer, "utf-8", errors, newline="\n" if fd else None, line_buffering=lines, write_through=unbuffered
    )
    made.mode = mode
    return made


class Raw(_pyio.FileIO):
    """A standard stream, which needs no question to be opened."""

    name = ""

    def __init__(self, fd, mode, closefd=False):
        self._fd, self._closefd = fd, closefd
        self._readable, self._writable = mode == "r", mode == "w"
        self._stat_atopen = None
        self._seekable = False if start["terminals"][fd] else None

    def isatty(self):
        return start["terminals"][self._fd]


Raw.__name__ = Raw.__qualname__ = "FileIO"
Raw.__module__ = "_io"
