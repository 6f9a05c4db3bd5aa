"""Programs that change files: cp, mv, rm, mkdir, rmdir, touch, ln, chmod, chown, mktemp, truncate, dd, install."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime

from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory, File, Link, Node
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.users import number_of

DEEPEST = 64


def base(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1] or "/"


async def _missing(process: Process, args: list[str], least: int) -> None:
    if len(args) < 1:
        await kit.usage(process, "missing operand" if least < 2 else "missing file operand")
    if len(args) < least:
        await kit.usage(process, f"missing destination file operand after '{args[0]}'")


async def mkdir(process: Process) -> int:
    """Make directories."""
    opts = await kit.options(process, "m:pv", {"mode=": "m", "parents": "p", "verbose": "v"})
    await _missing(process, opts.args, 1)
    status = 0
    for name in opts.args:
        try:
            await _make_directory(process, name, opts)
        except FileError as error:
            text = "can't create directory" if process.busybox else "cannot create directory"
            shown = f"{text} '{name}'" if process.busybox else f"{text} '{name}'"
            status = await process.fail(f"{shown}: {error.text}")
    return status


async def _make_directory(process: Process, name: str, opts: kit.Options) -> None:
    if "p" in opts:
        made = "/" if name.startswith("/") else ""
        for part in filter(None, name.split("/")):
            made = f"{made.rstrip('/')}/{part}" if made else part
            node = process.view.find(made)
            if node is None:
                process.view.mkdir(made)
            elif not isinstance(node, Directory):
                raise FileError("ENOTDIR" if made != name.rstrip("/") else "EEXIST", name)
    else:
        process.view.mkdir(name)
    if "m" in opts:
        node = process.view.node(name)
        node.mode = changed_mode(node, opts.get("m"), 0) or node.mode
    if "v" in opts:
        await process.write(f"mkdir: created directory '{name}'\n")


async def rmdir(process: Process) -> int:
    """Remove empty directories."""
    opts = await kit.options(process, "pv", {"ignore-fail-on-non-empty": "i", "parents": "p"})
    await _missing(process, opts.args, 1)
    status = 0
    for name in opts.args:
        try:
            process.view.remove(name, directory=True)
        except FileError as error:
            if "i" not in opts:
                text = f"'{name}'" if process.busybox else f"failed to remove '{name}'"
                status = await process.fail(f"{text}: {error.text}")
    return status


async def rm(process: Process) -> int:
    """Remove files and trees."""
    opts = await kit.options(
        process, "dfiIrRv", {"recursive": "r", "force": "f", "verbose": "v", "dir": "d", "no-preserve-root": "n"}
    )
    if not opts.args and "f" not in opts:
        await _missing(process, opts.args, 1)
    status = 0
    for name in opts.args:
        if base(name) in (".", ".."):
            status = await process.fail(f"refusing to remove '.' or '..' directory: skipping '{name}'")
        elif process.view.find(name) is process.view.files.root and opts.any("rR"):
            await process.fail("it is dangerous to operate recursively on '/'")
            status = await process.fail("use --no-preserve-root to override this failsafe")
        else:
            status = await _remove(process, name, opts, 0) or status
    return status


async def _remove(process: Process, name: str, opts: kit.Options, depth: int) -> int:
    await process.tick()
    node = process.view.find(name, follow=False)
    status = 0
    try:
        if node is None:
            if "f" in opts:
                return 0
            process.view.node(name, follow=False)
        if isinstance(node, Directory) and not opts.any("rRd"):
            raise FileError("EISDIR", name)
        if isinstance(node, Directory) and opts.any("rR") and depth < DEEPEST:
            for below in node.names():
                status = await _remove(process, f"{name.rstrip('/')}/{below}", opts, depth + 1) or status
        process.view.remove(name, directory=isinstance(node, Directory))
    except FileError as error:
        text = f"can't remove '{name}'" if process.busybox and error.code == "ENOENT" else f"cannot remove '{name}'"
        if process.busybox and error.code == "EISDIR":
            return await process.fail(f"'{name}' is a directory")
        return await process.fail(f"{text}: {error.text}")
    if "v" in opts:
        what = "directory " if isinstance(node, Directory) else ""
        await process.write(f"removed {what}'{name}'\n")
    return status


async def touch(process: Process) -> int:
    """Make files or set their times."""
    opts = await kit.options(process, "acd:hmr:t:", {"no-create": "c", "date=": "d", "reference=": "r"})
    await _missing(process, opts.args, 1)
    moment = _moment(process, opts)
    if moment is None:
        return await process.fail(f"invalid date format '{opts.get('d') or opts.get('t')}'")
    status = 0
    for name in opts.args:
        try:
            node = process.view.find(name)
            if node is None and "c" in opts:
                continue
            node = node or process.view.file(name)
            if process.view.place(name).readonly:
                raise FileError("EROFS", name)
            node.mtime = moment
        except FileError as error:
            text = f"{name}" if process.busybox else f"cannot touch '{name}'"
            status = await process.fail(f"{text}: {error.text}")
    return status


def _moment(process: Process, opts: kit.Options) -> float | None:
    if "r" in opts:
        node = process.view.find(opts.get("r"))
        return node.mtime if node else None
    word = opts.get("d") or opts.get("t")
    if not word:
        return process.machine.now()
    for form in (
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%d",
        "%Y%m%d%H%M",
        "%Y%m%d%H%M.%S",
    ):
        try:
            return datetime.strptime(word, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None


async def ln(process: Process) -> int:
    """Make links."""
    opts = await kit.options(process, "sfnvrT", {"symbolic": "s", "force": "f", "no-dereference": "n"})
    await _missing(process, opts.args, 1)
    *targets, name = opts.args if len(opts.args) > 1 else [opts.args[0], base(opts.args[0])]
    status = 0
    for target in targets:
        place = name
        if isinstance(process.view.find(name, follow="n" not in opts), Directory):
            place = f"{name.rstrip('/')}/{base(target)}"
        try:
            if "f" in opts and process.view.find(place, follow=False):
                process.view.remove(place)
            if "s" in opts:
                process.view.add(place, Link(target=target))
            else:
                _hard(process, target, place)
        except FileError as error:
            sort = "symbolic" if "s" in opts else "hard"
            text = f"{place}" if process.busybox else f"failed to create {sort} link '{place}'"
            status = await process.fail(f"{text}: {error.text}")
    return status


def _hard(process: Process, target: str, place: str) -> None:
    node = process.view.node(target, follow=False)
    if isinstance(node, Directory):
        raise FileError("EPERM", place)
    node.links += 1
    try:
        process.view.add(place, node)
    except FileError:
        node.links -= 1
        raise


async def cp(process: Process) -> int:
    """Copy files and trees."""
    opts = await kit.options(
        process,
        "adfiLnpPrRsuvTt:",
        {"recursive": "r", "archive": "a", "force": "f", "verbose": "v", "preserve?": "p"},
    )
    return await _transfer(process, opts, move=False)


async def mv(process: Process) -> int:
    """Move files and trees."""
    opts = await kit.options(process, "finuvTt:", {"force": "f", "verbose": "v", "no-clobber": "n"})
    return await _transfer(process, opts, move=True)


async def _transfer(process: Process, opts: kit.Options, *, move: bool) -> int:
    args = [*opts.args, opts.get("t")] if "t" in opts else opts.args
    await _missing(process, args, 2)
    *sources, target = args
    inside = isinstance(process.view.find(target), Directory) and "T" not in opts
    if len(sources) > 1 and not inside:
        return await process.fail(
            f"target '{target}' is not a directory" if not process.busybox else f"{target}: Not a directory"
        )
    status = 0
    for source in sources:
        place = f"{target.rstrip('/')}/{base(source)}" if inside else target
        work = _move_one if move else _copy_one
        status = await work(process, source, place, opts) or status
    return status


async def _move_one(process: Process, source: str, place: str, opts: kit.Options) -> int:
    if "n" in opts and process.view.find(place, follow=False):
        return 0
    try:
        here, there = process.view.place(source, follow=False), process.view.place(place, follow=False)
        if here.node is not None and here.node is there.node:
            return await process.fail(f"'{source}' and '{place}' are the same file")
        process.view.rename(source, place)
    except FileError as error:
        if error.code == "ENOENT" and process.view.find(source, follow=False) is None:
            text = f"can't rename '{source}'" if process.busybox else f"cannot stat '{source}'"
        elif process.busybox:
            text = f"can't rename '{source}'"
        else:
            text = f"cannot move '{source}' to '{place}'"
        return await process.fail(f"{text}: {error.text}")
    if "v" in opts:
        await process.write(f"renamed '{source}' -> '{place}'\n")
    return 0


async def _copy_one(process: Process, source: str, place: str, opts: kit.Options) -> int:
    recursive = opts.any("rRa")
    try:
        node = process.view.node(source, follow=not (opts.any("adP") or recursive and "L" not in opts))
    except FileError as error:
        text = f"can't stat '{source}'" if process.busybox else f"cannot stat '{source}'"
        return await process.fail(f"{text}: {error.text}")
    if isinstance(node, Directory) and not recursive:
        text = (
            f"omitting directory '{source}'"
            if process.busybox
            else f"-r not specified; omitting directory '{source}'"
        )
        return await process.fail(text)
    if "n" in opts and process.view.find(place):
        return 0
    there = process.view.find(place, follow=False)
    if there is node:
        return await process.fail(f"'{source}' and '{place}' are the same file")
    if isinstance(node, Directory) and f"{process.view.place(place).path}/".startswith(
        f"{process.view.place(source).path}/"
    ):
        return await process.fail(f"cannot copy a directory, '{source}', into itself, '{place}'")
    return await _copy(process, node, source, place, opts, 0)


async def _copy(process: Process, node: Node, source: str, place: str, opts: kit.Options, depth: int) -> int:
    await process.tick()
    if "v" in opts:
        await process.write(f"'{source}' -> '{place}'\n")
    try:
        if isinstance(node, Directory):
            if not isinstance(process.view.find(place), Directory):
                process.view.mkdir(place, node.mode)
        elif isinstance(node, Link):
            if process.view.find(place, follow=False):
                process.view.remove(place)
            process.view.add(place, Link(target=node.target))
        else:
            _copy_file(process, node, source, place)
        if opts.any("ap"):
            copy = process.view.node(place, follow=False)
            copy.mode, copy.mtime, copy.uid, copy.gid = node.mode, node.mtime, node.uid, node.gid
    except FileError as error:
        verb = "can't create" if process.busybox else "cannot create regular file"
        if error.code == "EACCES" and not process.view.may(node, 4):
            verb = "can't open" if process.busybox else "cannot open"
            return await process.fail(
                f"{verb} '{source}'" + ("" if process.busybox else " for reading") + f": {error.text}"
            )
        return await process.fail(f"{verb} '{place}': {error.text}")
    status = 0
    if isinstance(node, Directory) and depth < DEEPEST:
        for name in node.names():
            below = node.get(name)
            if below is not None:
                path = f"{source.rstrip('/')}/{name}"
                status = await _copy(process, below, path, f"{place.rstrip('/')}/{name}", opts, depth + 1) or status
    return status


def _copy_file(process: Process, node: Node, source: str, place: str) -> None:
    if not process.view.may(node, 4):
        raise FileError("EACCES", source)
    new = process.view.find(place) is None
    copy = process.view.file(place, append=False)
    if isinstance(copy, File):
        process.view.store(copy, bytes(node.content()) if isinstance(node, File) else b"")
        if new:
            copy.mode = node.mode & ~process.view.umask
        if isinstance(node, File):
            copy.program, copy.platform = node.program, node.platform


def changed_mode(node: Node, spec: str, umask: int) -> int | None:
    """Return the mode after chmod's ``spec``; None for a wrong one."""
    if re.fullmatch(r"[0-7]{1,4}", spec):
        return int(spec, 8)
    mode = node.mode
    for clause in spec.split(","):
        match = re.fullmatch(r"([ugoa]*)((?:[-+=][rwxXst]*|[-+=][ugo])+)", clause)
        if not match:
            return None
        who = match[1] or "a"
        for op, letters in re.findall(r"([-+=])([rwxXstugo]*)", match[2]):
            mode = _apply(
                mode, who.replace("a", "ugo"), op, letters, isinstance(node, Directory), 0 if match[1] else umask
            )
    return mode


def _apply(mode: int, who: str, op: str, letters: str, folder: bool, umask: int) -> int:
    bits = 0
    for letter in letters:
        if letter in "rwx":
            bits |= {"r": 4, "w": 2, "x": 1}[letter]
        elif letter == "X" and (folder or mode & 0o111):
            bits |= 1
        elif letter in "ugo":
            bits |= mode >> {"u": 6, "g": 3, "o": 0}[letter] & 7
    special = (0o4000 if "u" in who else 0) | (0o2000 if "g" in who else 0) if "s" in letters else 0
    special |= 0o1000 if "t" in letters else 0
    mask = sum(7 << {"u": 6, "g": 3, "o": 0}[each] for each in set(who))
    change = (sum(bits << {"u": 6, "g": 3, "o": 0}[each] for each in set(who)) & ~umask) | special
    if op == "+":
        return mode | change
    if op == "-":
        return mode & ~change
    return mode & ~mask | change


async def chmod(process: Process) -> int:
    """Change permissions."""
    argv = [re.sub(r"^-(?=[rwxst]+$)", "\0-", word) for word in process.argv[1:]]
    opts = await kit.options(process, "Rfvc", {"recursive": "R", "verbose": "v", "reference=": "r"}, argv=argv)
    args = [word.removeprefix("\0") for word in opts.args]
    if len(args) < 2:
        await kit.usage(process, f"missing operand after '{args[0]}'" if args else "missing operand")
    spec, *names = args
    status = 0
    for name in names:
        status = await _chmod(process, name, spec, recursive="R" in opts) or status
    return status


async def _chmod(process: Process, name: str, spec: str, *, recursive: bool) -> int:
    try:
        if process.view.place(name).readonly:
            raise FileError("EROFS", name)
        process.view.node(name)
        for path, node in process.view.tree(name) if recursive else [(name, process.view.node(name))]:
            await process.tick()
            mode = changed_mode(node, spec, process.view.umask)
            if mode is None:
                if process.busybox:
                    return await process.fail(f"invalid mode '{spec}'")
                await kit.usage(process, f"invalid mode: '{spec}'")
                return 1
            if process.view.uid not in (0, node.uid):
                raise FileError("EPERM", path)
            node.mode = mode
    except FileError as error:
        text = f"{name}" if process.busybox else f"cannot access '{name}'"
        if error.code in ("EPERM", "EROFS"):
            text = f"{name}" if process.busybox else f"changing permissions of '{name}'"
        return await process.fail(f"{text}: {error.text}")
    return 0


async def chown(process: Process) -> int:
    """Change owners, or with chgrp groups."""
    opts = await kit.options(process, "Rfhv", {"recursive": "R"})
    if len(opts.args) < 2:
        await kit.usage(process, "missing operand")
    spec, *names = opts.args
    owner, _, group = spec.replace(".", ":", 1).partition(":") if process.name == "chown" else ("", "", spec)
    uid = number_of(process.view, owner) if owner else -1
    gid = number_of(process.view, group, "/etc/group") if group else -1
    if uid is None or gid is None:
        what = "user" if process.name == "chown" else "group"
        return await process.fail(f"unknown user {owner}" if process.busybox else f"invalid {what}: '{spec}'")
    status = 0
    for name in names:
        try:
            if process.view.uid != 0:
                raise FileError("EPERM", name)
            node = process.view.node(name)
            for _, each in process.view.tree(name) if "R" in opts else [(name, node)]:
                each.uid, each.gid = each.uid if uid < 0 else uid, each.gid if gid < 0 else gid
        except FileError as error:
            text = f"changing ownership of '{name}'" if error.code == "EPERM" else f"cannot access '{name}'"
            status = await process.fail(f"{name if process.busybox else text}: {error.text}")
    return status


async def mktemp(process: Process) -> int:
    """Make a file or directory with a new name."""
    opts = await kit.options(process, "dp:qtu", {"directory": "d", "tmpdir?": "p"})
    template = opts.args[0] if opts.args else "tmp.XXXXXXXXXX"
    folder = opts.get("p") or process.env.get("TMPDIR", "/tmp")  # noqa: S108
    if not opts.args or "t" in opts or "p" in opts:
        template = f"{folder}/{template}"
    name = re.sub(
        "X{3,}$",
        lambda match: "".join(random.choices("abcdefghijkmnpqrstuvwxyzABCDEFGH23456789", k=len(match[0]))),
        template,
    )
    if name == template:
        return await process.fail(f"too few X's in template '{template}'")
    try:
        if "d" in opts:
            process.view.mkdir(name, 0o700)
        else:
            process.view.add(name, File(mode=0o600))
    except FileError as error:
        return await process.fail(f"failed to create file via template '{template}': {error.text}")
    await process.write(name + "\n")
    return 0


async def truncate(process: Process) -> int:
    """Cut or lengthen files."""
    opts = await kit.options(process, "s:c", {"size=": "s"})
    wanted = kit.number(opts.get("s").lstrip("+-"))
    if wanted is None:
        await kit.usage(process, "you must specify either '--size' or '--reference'")
        return 1
    for name in opts.args:
        try:
            node = process.view.file(name)
            if isinstance(node, File):
                before = len(node.data)
                sizes = {"+": before + wanted, "-": max(before - wanted, 0)}
                size = sizes.get(opts.get("s")[0], wanted)
                if size > process.view.files.limit:
                    raise FileError("EFBIG", name)
                process.view.store(node, bytes(node.data[:size]) + bytes(max(size - before, 0)))
        except FileError as error:
            return await process.fail(f"failed to truncate '{name}' at {wanted} bytes: {error.text}")
    return 0


async def dd(process: Process) -> int:
    """Copy blocks."""
    words = dict(word.partition("=")[::2] for word in process.argv[1:])
    block = kit.number(words.get("bs", "512")) or 512
    count = kit.number(words.get("count", "")) if "count" in words else None
    try:
        source = process.open(words["if"]) if "if" in words else process.fds[0]
        target = process.open(words["of"], "w") if "of" in words else process.fds[1]
    except FileError as error:
        return await process.fail(f"failed to open '{error.path}': {error.text}")
    done = full = 0
    block = min(block, 1 << 20)
    while count is None or full < count:
        data = await source.read(block)
        await process.tick(8)
        if not data:
            break
        try:
            await target.write(data)
        except FileError as error:
            return await process.fail(f"error writing '{words.get('of', 'standard output')}': {error.text}")
        done += len(data)
        full += 1
    if words.get("status") != "none":
        await process.error(
            f"{full}+0 records in\n{full}+0 records out\n{done} bytes copied, 0.001 s, {human_rate(done)}\n"
        )
    return 0


def human_rate(done: int) -> str:
    """Return dd's rate for so many bytes in a millisecond."""
    return f"{done / 1000:.1f} MB/s"


async def sync(process: Process) -> int:
    """Nothing waits to be written."""
    return 0


TOOLS: dict[str, Tool] = {
    "mkdir": mkdir,
    "rmdir": rmdir,
    "rm": rm,
    "touch": touch,
    "ln": ln,
    "cp": cp,
    "mv": mv,
    "chmod": chmod,
    "chown": chown,
    "chgrp": chown,
    "mktemp": mktemp,
    "truncate": truncate,
    "dd": dd,
    "sync": sync,
}
