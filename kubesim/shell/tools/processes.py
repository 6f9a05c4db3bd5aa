"""Programs about processes and the machine: ps, top, kill, sleep, timeout, free, uname, id, date, env, watch."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

from kubesim.shell import conditions, printf
from kubesim.shell.errors import FileError, StartError
from kubesim.shell.machine import DEFAULT_PATH, Process, Tool
from kubesim.shell.programs import find
from kubesim.shell.signals import NAMES, number
from kubesim.shell.tools import kit
from kubesim.shell.tools.paths import run
from kubesim.shell.tools.users import name_of, number_of

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


async def true(process: Process) -> int:
    """Succeed."""
    return 0


async def false(process: Process) -> int:
    """Fail."""
    return 1


async def echo(process: Process) -> int:
    """Print the arguments."""
    args, newline, escaped = process.argv[1:], True, False
    while args and re.fullmatch(r"-[neE]+", args[0]):
        newline = newline and "n" not in args[0]
        escaped = escaped or "e" in args[0]
        args = args[1:]
    text, stop = printf.escapes(" ".join(args), echo=True) if escaped else (" ".join(args), False)
    await process.write(text + ("\n" if newline and not stop else ""))
    return 0


async def printf_(process: Process) -> int:
    """Print formatted arguments."""
    if len(process.argv) < 2:
        await kit.usage(process, "missing operand")
    formatter = printf.Formatter(process.argv[1], process.argv[2:], quoting=True, now=process.machine.now)
    try:
        await process.write(formatter.text())
    except printf.FormatError as error:
        return await process.fail(f"{error}: invalid conversion specification")
    for _, word in formatter.problems:
        await process.fail(f"invalid number '{word}'" if process.busybox else f"'{word}': expected a numeric value")
    return int(bool(formatter.problems))


async def test(process: Process) -> int:
    """Evaluate a condition."""
    args = process.argv[1:]
    if process.name == "[":
        if args[-1:] != ["]"]:
            return await process.fail("missing ']'", 2)
        args = args[:-1]
    try:
        return int(not conditions.single(process, args))
    except conditions.TestError as error:
        return await process.fail(error.text("bash"), 2)


async def yes(process: Process) -> int:
    """Print a word again and again."""
    line = " ".join(process.argv[1:] or ["y"]) + "\n"
    block = (line * (4096 // len(line) + 1)).encode("utf-8", "surrogateescape")
    while True:
        await process.write(block)
        await process.tick(8)


def seconds(word: str) -> float | None:
    """Return a duration such as 1.5m; None for a wrong one."""
    if word in ("infinity", "inf"):
        return 1e9
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{0,9})?|\.\d{1,9})([smhd]?)", word)
    return float(match[1]) * UNITS.get(match[2], 1.0) if match else None


async def sleep(process: Process) -> int:
    """Wait on the clock."""
    if len(process.argv) < 2:
        await kit.usage(process, "missing operand")
    total = 0.0
    for word in process.argv[1:]:
        length = seconds(word)
        if length is None:
            if process.busybox:
                return await process.fail(f"invalid number '{word}'")
            await kit.usage(process, f"invalid time interval '{word}'")
        total += length or 0.0
    await process.sleep(total)
    return 0


async def timeout(process: Process) -> int:
    """Run a program for a limited time."""
    opts = await kit.options(
        process, "k:s:v", {"signal=": "s", "kill-after=": "k", "preserve-status": "p", "foreground": "f"}, stop=True
    )
    if len(opts.args) < 2:
        await kit.usage(process, "missing operand")
    length = seconds(opts.args[0])
    if length is None:
        await kit.usage(process, f"invalid time interval '{opts.args[0]}'")
    name = NAMES.get(number(opts.get("s", "TERM")) or 15, "TERM")
    try:
        child = process.run(opts.args[1:])
    except StartError as error:
        shown = f"can't execute '{opts.args[1]}'" if process.busybox else f"failed to run command '{opts.args[1]}'"
        return await process.fail(f"{shown}: {error.text}", error.code)
    process.handlers["TERM"] = child.signal
    ended = asyncio.ensure_future(child.wait())
    clock = asyncio.ensure_future(process.machine.clock.sleep(length or 1e9))
    try:
        await asyncio.wait({ended, clock}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return ended.result()
        child.signal(name)
        if "k" in opts:
            later = asyncio.ensure_future(process.machine.clock.sleep(seconds(opts.get("k")) or 0))
            await asyncio.wait({ended, later}, return_when=asyncio.FIRST_COMPLETED)
            later.cancel()
            child.signal("KILL")
        status = await child.wait()
        return status if "p" in opts or process.busybox else 137 if name == "KILL" else 124
    finally:
        ended.cancel()
        clock.cancel()


async def env(process: Process) -> int:
    """Show the environment or run a program in another."""
    opts = await kit.options(process, "iu:0C:", {"ignore-environment": "i", "unset=": "u", "chdir=": "C"}, stop=True)
    found = {} if "i" in opts else {name: text for name, text in process.env.items() if name not in opts.all("u")}
    args = opts.args
    while args and "=" in args[0]:
        name, _, text = args.pop(0).partition("=")
        found[name] = text
    if not args:
        await process.write("".join(f"{name}={text}\n" for name, text in found.items()))
        return 0
    try:
        program = find(process.view, args, found.get("PATH", DEFAULT_PATH))
    except StartError as error:
        shown = f"can't execute '{args[0]}'" if process.busybox else f"'{args[0]}'"
        return await process.fail(f"{shown}: {error.text}", error.code)
    return await become(process, program, found)


async def become(process: Process, program: object, env: dict[str, str]) -> int:
    """Go on as another program."""
    process.program, process.env = program, env  # type: ignore[assignment]
    process.argv = list(process.program.argv)
    return await process.machine.tools[process.program.tool](process)


async def nohup(process: Process) -> int:
    """Run a program that hang-ups do not end."""
    process.handlers["HUP"] = None
    args = process.argv[1:]
    if args[:1] == ["-n"]:
        args = args[2:]
    try:
        return await become(process, find(process.view, args, process.env.get("PATH", DEFAULT_PATH)), process.env)
    except StartError as error:
        return await process.fail(f"failed to run command '{(args or [''])[0]}': {error.text}", error.code)


async def printenv(process: Process) -> int:
    """Show variables of the environment."""
    if len(process.argv) == 1:
        await process.write("".join(f"{name}={text}\n" for name, text in process.env.items()))
    for name in process.argv[1:]:
        if name not in process.env:
            return 1
        await process.write(process.env[name] + "\n")
    return 0


async def id_(process: Process) -> int:
    """Show who runs this."""
    opts = await kit.options(process, "ugGnr", {"user": "u", "group": "g", "name": "n"})
    view = process.view
    uid, gid = view.uid, view.gid
    if opts.args:
        found = number_of(view, opts.args[0])
        if found is None:
            shown = f"unknown user {opts.args[0]}" if process.busybox else f"'{opts.args[0]}': no such user"
            return await process.fail(shown)
        uid = gid = found
    user, group = name_of(view, uid), name_of(view, gid, "/etc/group")
    if opts.any("u"):
        text = user if "n" in opts else str(uid)
    elif opts.any("gG"):
        text = group if "n" in opts else str(gid)
    else:
        named = [
            f"{value}({name})" if name != str(value) else str(value) for value, name in ((uid, user), (gid, group))
        ]
        text = f"uid={named[0]} gid={named[1]} groups={named[1]}"
    await process.write(text + "\n")
    return 0


async def whoami(process: Process) -> int:
    """Show the user's name."""
    name = name_of(process.view, process.view.uid)
    if name.isdecimal():
        shown = f"unknown uid {name}" if process.busybox else f"cannot find name for user ID {name}"
        return await process.fail(shown)
    await process.write(name + "\n")
    return 0


async def hostname(process: Process) -> int:
    """Show the machine's name."""
    machine = process.machine
    flag = process.argv[1] if len(process.argv) > 1 else ""
    if flag and not flag.startswith("-"):
        return await process.fail(
            "sethostname: Operation not permitted" if process.busybox else "you must be root to change the host name"
        )
    await process.write((machine.address if flag in ("-i", "-I") else machine.hostname) + "\n")
    return 0


async def uname(process: Process) -> int:
    """Show what system this is; all nodes are amd64."""
    opts = await kit.options(process, "asnrvmpio", {"all": "a", "machine": "m", "kernel-release": "r"})
    words = {
        "s": "Linux",
        "n": process.machine.hostname,
        "r": process.machine.kernel,
        "v": "#1 SMP Tue Mar 4 18:08:31 UTC 2025",
        "m": "x86_64",
        "p": "x86_64",
        "i": "x86_64",
        "o": "GNU/Linux",
    }
    if "a" in opts:
        chosen = list("snrvmo")
    else:
        chosen = [flag for flag in words if flag in opts] or ["s"]
    if process.busybox:
        words["o"] = "Linux"
    await process.write(" ".join(words[flag] for flag in chosen) + "\n")
    return 0


async def nproc(process: Process) -> int:
    """Count processors."""
    await process.write(f"{process.machine.cpus}\n")
    return 0


async def date(process: Process) -> int:
    """Show the time."""
    opts = await kit.options(
        process, "d:uR I::r:s:".replace(" ", ""), {"date=": "d", "utc": "u", "iso-8601?": "I", "rfc-3339=": "rfc"}
    )
    now = process.machine.clock.now().astimezone(UTC)
    moment = now
    if "r" in opts:
        node = process.view.find(opts.get("r"))
        moment = datetime.fromtimestamp(node.mtime, UTC) if node else now
    if "d" in opts:
        found = _date(opts.get("d"), now)
        if found is None:
            return await process.fail(
                f"invalid date '{opts.get('d')}'" if process.busybox else f"invalid date '{opts.get('d')}'"
            )
        moment = found
    form = next((word[1:] for word in opts.args if word.startswith("+")), "")
    if "I" in opts:
        form = {"": "%Y-%m-%d", "date": "%Y-%m-%d"}.get(opts.get("I"), "%Y-%m-%dT%H:%M:%S+00:00")
    elif "R" in opts:
        form = "%a, %d %b %Y %H:%M:%S +0000"
    await process.write(strftime(moment, form or "%a %b %e %H:%M:%S UTC %Y") + "\n")
    return 0


def strftime(moment: datetime, form: str) -> str:
    """Format a time with GNU's extensions."""
    values = {
        "s": str(int(moment.timestamp())),
        "N": f"{moment.microsecond * 1000:09d}",
        "3N": f"{moment.microsecond // 1000:03d}",
        "F": f"{moment:%Y-%m-%d}",
        "T": f"{moment:%H:%M:%S}",
        "R": f"{moment:%H:%M}",
        "Z": "UTC",
        "z": "+0000",
        "e": f"{moment.day:2d}",
        "D": f"{moment:%m/%d/%y}",
        "n": "\n",
        "t": "\t",
        ":z": "+00:00",
        "-d": str(moment.day),
        "-m": str(moment.month),
        "-H": str(moment.hour),
        "%": "%",
        "r": f"{moment:%I:%M:%S %p}",
        "k": f"{moment.hour:2d}",
        "h": f"{moment:%b}",
        "P": f"{moment:%p}".lower(),
    }

    def one(match: re.Match[str]) -> str:
        known = values.get(match[1])
        return (
            known
            if known is not None
            else moment.strftime("%" + match[1])
            if match[1] in "aAbBcdHIjmMpSuUVwWyYxXGgC"
            else match[0]
        )

    return re.sub(r"%(3N|:z|-[dmH]|.)", one, form)


def _date(word: str, now: datetime) -> datetime | None:
    if word.startswith("@") and re.fullmatch(r"@-?\d{1,11}(\.\d+)?", word):
        return datetime.fromtimestamp(float(word[1:]), UTC)
    named = {"now": 0, "today": 0, "": 0, "yesterday": -86400, "tomorrow": 86400}
    if word in named:
        return now + timedelta(seconds=named[word])
    match = re.fullmatch(r"([+-]?\d{1,8}) (second|sec|minute|min|hour|day|week)s?( ago)?", word)
    if match:
        size = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400, "week": 604800}[match[2]]
        return now + timedelta(seconds=int(match[1]) * size * (-1 if match[3] else 1))
    try:
        found = datetime.fromisoformat(word.replace("Z", "+00:00").removesuffix(" UTC"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# processes


def _clock(span: float) -> str:
    return f"{int(span) // 3600:02d}:{int(span) // 60 % 60:02d}:{int(span) % 60:02d}"


async def ps(process: Process) -> int:
    """Show processes."""
    words = process.argv[1:]
    flags = "".join(word.lstrip("-") for word in words if "=" not in word and word not in ("-o",))
    machine = process.machine
    rows = sorted(machine.processes.values(), key=lambda each: each.pid)
    if process.busybox:
        await process.write("PID   USER     TIME  COMMAND\n")
        for each in rows:
            await process.write(f"{each.pid:5d} {name_of(process.view, each.view.uid):<8}  0:00 {_command(each)}\n")
        return 0
    if "-o" in words or any(word.startswith("-o") for word in words):
        return await _ps_columns(process, rows, words)
    return await _ps_forms(process, rows, flags)


def _command(each: Process) -> str:
    return " ".join(each.argv)[:200] or "{" + each.name + "}"


async def _ps_forms(process: Process, rows: list[Process], flags: str) -> int:
    wide = process.tty(1).size[1] if process.tty(1) else 10_000  # type: ignore[union-attr]
    if "u" in flags and "-" not in flags:
        await process.write("USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n")
        for each in rows:
            tty = "pts/0" if each.terminal else "?"
            state = ("T" if each.stopped else "R" if each is process else "S") + (
                "s" if each.pid == each.group else ""
            )
            line = (
                f"{name_of(process.view, each.view.uid):<8} {each.pid:7d}  0.0  0.0   4624  3584 {tty:<8} {state:<4} "
                f"{each.started:%H:%M}   0:00 {_command(each)}"
            )
            await process.write(line[:wide] + "\n")
    elif "f" in flags:
        await process.write("UID          PID    PPID  C STIME TTY          TIME CMD\n")
        for each in rows:
            tty = "pts/0" if each.terminal else "?"
            line = (
                f"{name_of(process.view, each.view.uid):<8} {each.pid:7d} {each.parent:7d}  0 {each.started:%H:%M} "
                f"{tty:<8} 00:00:00 {_command(each)}"
            )
            await process.write(line[:wide] + "\n")
    else:
        await process.write("    PID TTY          TIME CMD\n")
        everyone = any(flag in flags for flag in "eAax")
        for each in rows:
            if everyone or each.terminal is process.terminal:
                tty = "pts/0" if each.terminal else "?"
                await process.write(f"{each.pid:7d} {tty:<8} 00:00:00 {each.name[:15]}\n")
    return 0


async def _ps_columns(process: Process, rows: list[Process], words: list[str]) -> int:
    spec = ""
    for at, word in enumerate(words):
        if word.startswith("-") and word.endswith("o") and at + 1 < len(words):
            spec += "," + words[at + 1]
        elif word.startswith("-o"):
            spec += "," + word[2:]
    columns = [piece for piece in spec.split(",") if piece]
    titles = {
        "pid": "PID",
        "ppid": "PPID",
        "cmd": "CMD",
        "args": "COMMAND",
        "comm": "COMMAND",
        "user": "USER",
        "stat": "STAT",
        "etime": "ELAPSED",
        "%cpu": "%CPU",
        "%mem": "%MEM",
        "rss": "RSS",
        "tty": "TT",
        "pcpu": "%CPU",
        "pmem": "%MEM",
    }
    wide = {"pid": 7, "ppid": 7, "%cpu": 4, "%mem": 4, "pcpu": 4, "pmem": 4, "rss": 5, "etime": 11}
    heads = [
        titles.get(name.partition("=")[0], name.upper()) if "=" not in name else name.partition("=")[2]
        for name in columns
    ]
    names = [name.partition("=")[0] for name in columns]
    table = [heads] if any(heads) else []
    for each in rows:
        values = {
            "pid": str(each.pid),
            "ppid": str(each.parent),
            "cmd": _command(each),
            "args": _command(each),
            "comm": each.name,
            "user": name_of(process.view, each.view.uid),
            "stat": "S",
            "rss": "3584",
            "tty": "?",
            "etime": _clock(process.machine.now() - each.started.timestamp())[3:],
        }
        table.append([values.get(name, "0.0") for name in names])
    for row in table:
        cells = [
            f"{cell:>{wide[name]}}" if name in wide else f"{cell:<8}" for cell, name in zip(row, names, strict=True)
        ]
        await process.write(" ".join(cells).rstrip() + "\n")
    return 0


async def kill(process: Process) -> int:
    """Send a signal."""
    args, name = process.argv[1:], "TERM"
    if args[:1] == ["-l"]:
        await process.write(" ".join(NAMES.values()) + "\n")
        return 0
    if args[:1] and args[0].startswith("-") and len(args) > 1:
        word = args.pop(0)[1:]
        value = number(args.pop(0) if word == "s" else word)
        if value is None:
            return await process.fail(f"bad signal name '{word}'" if process.busybox else f"invalid signal: {word}")
        name = NAMES.get(value, "")
    status = 0
    for word in args:
        try:
            pid = int(word) if re.fullmatch(r"-?\d{1,9}", word) else 0
            if pid and name:
                process.machine.kill(pid, name)
            elif pid not in process.machine.processes:
                raise KeyError(word)
        except KeyError:
            shown = f"can't kill pid {word}: No such process" if process.busybox else f"({word}): No such process"
            status = await process.fail(shown)
    return status


async def pgrep(process: Process) -> int:
    """Find processes by name, or with pkill signal them."""
    args = process.argv[1:]
    name = "TERM"
    if process.name == "pkill" and args and re.fullmatch(r"-(\d+|[A-Z]+)", args[0]):
        name = NAMES.get(number(args.pop(0)[1:]) or 15, "TERM")
    opts = await kit.options(process, "acflnoxu:P:v", {"full": "f", "list-name": "l", "exact": "x"}, argv=args)
    if not opts.args:
        await kit.usage(process, "no matching criteria specified")
    try:
        pattern = (
            re.compile(opts.args[0][:200])
            if re.fullmatch(r"[\w./ :=^$|-]*", opts.args[0])
            else re.compile(re.escape(opts.args[0]))
        )
    except re.error:
        return 2
    found = []
    for each in list(process.machine.processes.values()):
        text = " ".join(each.argv)[:1000] if "f" in opts else each.name
        hit = pattern.fullmatch(text) if "x" in opts else pattern.search(text)
        if hit and each is not process:
            found.append(each)
    for each in found:
        if process.name == "pkill":
            each.signal(name, inside=True)
        elif "c" not in opts:
            shown = f" {' '.join(each.argv)}" if "a" in opts else f" {each.name}" if "l" in opts else ""
            await process.write(f"{each.pid}{shown}\n")
    if "c" in opts:
        await process.write(f"{len(found)}\n")
    return int(not found)


async def free(process: Process) -> int:
    """Show memory."""
    opts = await kit.options(process, "bkmghtws:", {"human": "h", "mega": "m", "giga": "g"})
    total = process.machine.memory
    used, shared, cache = total // 5, 4 << 20, total // 4
    rest = total - used - cache
    values = [total, used, rest, shared, cache, total - used]

    def shown(value: int) -> str:
        if "h" in opts:
            for unit in ("B", "Ki", "Mi", "Gi"):
                if value < 1024 or unit == "Gi":
                    return f"{value:.1f}{unit}" if isinstance(value, float) and value < 10 else f"{int(value)}{unit}"
                value = value / 1024  # type: ignore[assignment]
        factor = 1 if "b" in opts else 1 << 20 if "m" in opts else 1 << 30 if "g" in opts else 1024
        return str(value // factor)

    await process.write("               total        used        free      shared  buff/cache   available\n")
    await process.write("Mem:    " + " ".join(f"{shown(value):>11}" for value in values)[: -0 or None] + "\n")
    await process.write("Swap:   " + " ".join(f"{shown(0):>11}" for _ in range(3)) + "\n")
    return 0


async def uptime(process: Process) -> int:
    """Show how long the machine runs."""
    up = int((process.machine.clock.now() - process.machine.booted).total_seconds()) + 3 * 86400
    now = process.machine.clock.now()
    days, rest = divmod(up, 86400)
    span = f"{days} days, {rest // 3600:2d}:{rest // 60 % 60:02d}"
    await process.write(f" {now:%H:%M:%S} up {span},  0 users,  load average: 0.42, 0.35, 0.31\n")
    return 0


async def lscpu(process: Process) -> int:
    """Show the processors."""
    cpus = process.machine.cpus
    rows = {
        "Architecture": "x86_64",
        "CPU op-mode(s)": "32-bit, 64-bit",
        "Byte Order": "Little Endian",
        "CPU(s)": str(cpus),
        "On-line CPU(s) list": f"0-{cpus - 1}" if cpus > 1 else "0",
        "Vendor ID": "GenuineIntel",
        "Model name": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
        "Thread(s) per core": "2",
        "Core(s) per socket": str(max(cpus // 2, 1)),
        "Socket(s)": "1",
        "NUMA node(s)": "1",
    }
    for name, value in rows.items():
        await process.write(f"{name + ':':<33}{value}\n")
    return 0


async def watch(process: Process) -> int:
    """Run a program every few seconds and show its output."""
    opts = await kit.options(process, "n:dtebgx", {"interval=": "n", "no-title": "t", "differences?": "d"}, stop=True)
    if not opts.args:
        await kit.usage(process, "missing command")
    every = max(seconds(opts.get("n", "2")) or 2.0, 0.1)
    command = " ".join(opts.args)
    while True:
        terminal = process.tty(1)
        if terminal:
            await process.write("\x1b[H\x1b[J")
        if "t" not in opts:
            left = f"Every {every:.1f}s: {command}"
            right = f"{process.machine.hostname}: {strftime(process.machine.clock.now(), '%a %b %e %H:%M:%S %Y')}"
            wide = terminal.size[1] if terminal else 80
            await process.write(left + " " * max(wide - len(left) - len(right), 1) + right + "\n\n")
        await run(process, ["sh", "-c", command])
        await process.sleep(every)


async def man(process: Process) -> int:
    """There are no manuals."""
    if len(process.argv) < 2:
        await process.error("What manual page do you want?\nFor example, try 'man man'.\n")
        return 1
    await process.error(f"No manual entry for {process.argv[-1]}\n")
    return 16


async def clear(process: Process) -> int:
    """Clear the screen."""
    await process.write("\x1b[H\x1b[2J\x1b[3J")
    return 0


async def tty(process: Process) -> int:
    """Show which terminal this is."""
    await process.write("/dev/pts/0\n" if process.tty(0) else "not a tty\n")
    return int(not process.tty(0))


async def tput(process: Process) -> int:
    """Show what the terminal can do."""
    rows, columns = process.terminal.size if process.terminal else (24, 80)
    word = " ".join(process.argv[1:])
    known = {
        "cols": f"{columns}\n",
        "lines": f"{rows}\n",
        "colors": "256\n",
        "sgr0": "\x1b(B\x1b[m",
        "bold": "\x1b[1m",
        "clear": "\x1b[H\x1b[2J",
        "smcup": "\x1b[?1049h",
        "rmcup": "\x1b[?1049l",
        "civis": "\x1b[?25l",
        "cnorm": "\x1b[?25h",
    }
    match = re.fullmatch(r"setaf (\d{1,3})", word)
    await process.write(f"\x1b[3{match[1]}m" if match else known.get(word, ""))
    return 0


async def stty(process: Process) -> int:
    """Show or change how the terminal behaves."""
    terminal = process.tty(0)
    if not terminal:
        return await process.fail(
            "'standard input': Inappropriate ioctl for device"
            if not process.busybox
            else "standard input: Inappropriate ioctl for device"
        )
    words = process.argv[1:]
    if words == ["size"]:
        await process.write(f"{terminal.size[0]} {terminal.size[1]}\n")
    for word in words:
        if word in ("echo", "-echo"):
            terminal.echo = word == "echo"
        elif word in ("raw", "-icanon", "cbreak"):
            terminal.mode(raw=True)
        elif word in ("sane", "cooked", "icanon", "-raw"):
            terminal.echo = True
            terminal.mode(raw=False)
    if not words:
        await process.write(f"speed 38400 baud; line = 0;\n{'' if terminal.echo else '-'}echo\n")
    return 0


async def mknod(process: Process) -> int:
    """Devices cannot be made in a container."""
    return await process.fail(f"{process.argv[1] if len(process.argv) > 1 else ''}: {FileError('EPERM').text}")


TOOLS: dict[str, Tool] = {
    "true": true,
    "false": false,
    "echo": echo,
    "printf": printf_,
    "test": test,
    "[": test,
    "yes": yes,
    "sleep": sleep,
    "timeout": timeout,
    "env": env,
    "nohup": nohup,
    "nice": nohup,
    "printenv": printenv,
    "id": id_,
    "whoami": whoami,
    "hostname": hostname,
    "uname": uname,
    "nproc": nproc,
    "date": date,
    "ps": ps,
    "kill": kill,
    "pgrep": pgrep,
    "pkill": pgrep,
    "free": free,
    "uptime": uptime,
    "lscpu": lscpu,
    "watch": watch,
    "man": man,
    "clear": clear,
    "reset": clear,
    "tty": tty,
    "tput": tput,
    "stty": stty,
    "mknod": mknod,
}
