"""Builtins about jobs and processes: jobs, fg, bg, wait, kill, disown."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kubesim.shell.jobs import Job
from kubesim.shell.quoting import quote
from kubesim.shell.signals import NAMES, number
from kubesim.shell.state import ShellError

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell


USAGE = "jobs: usage: jobs [-lnprs] [jobspec ...] or jobs -x command [args]\n"


async def jobs(shell: Shell, argv: list[str]) -> int:
    """Show the jobs, all of them or those that are named."""
    letters = "".join(word[1:] for word in argv[1:] if word.startswith("-"))
    words = [word for word in argv[1:] if not word.startswith("-")]
    if "x" in letters and shell.dialect == "bash":
        known = [shell.jobs.find(word) if word.startswith("%") else None for word in words]
        pairs = zip(known, words, strict=True)
        return await shell.eval(" ".join(quote(str(job.processes[0].pid) if job else word) for job, word in pairs))
    if wrong := next((letter for letter in letters if letter not in "lnprs"), ""):
        await shell.complain(f"-{wrong}: invalid option", "jobs")
        await shell.process.error(USAGE if shell.dialect == "bash" else "")
        return 2
    status, chosen = 0, sorted(shell.jobs.table.items())
    if words:
        chosen = []
        for word in words:
            found = shell.jobs.find(word if word.startswith("%") else f"%{word}")
            if found is None:
                await shell.complain(f"{word}: no such job", "jobs")
                status = 1
            else:
                chosen.append((found.number, found))
    for key, job in chosen:
        await _shown(shell, key, job, letters)
    return status


async def _shown(shell: Shell, key: int, job: Job, letters: str) -> None:
    if "r" in letters and job.state != "Running" or "s" in letters and job.state != "Stopped":
        return
    if "p" in letters:
        await shell.process.write(f"{job.processes[0].pid}\n")
    elif "l" in letters:
        line = shell.jobs.line(job)
        await shell.process.write(line.replace("  ", f" {job.processes[0].pid} ", 1) + "\n")
    else:
        await shell.process.write(shell.jobs.line(job) + "\n")
    if job.state not in ("Running", "Stopped"):
        shell.jobs.table.pop(key, None)


def _job(shell: Shell, argv: list[str]) -> Job:
    word = argv[1] if len(argv) > 1 else "%+"
    job = shell.jobs.find(word if word.startswith("%") else "%" + word)
    if shell.dialect == "bash" and not shell.interactive:
        raise ShellError("no job control", 1)
    if job is None:
        if shell.dialect == "bash":
            raise ShellError(f"{word if len(argv) > 1 else 'current'}: no such job", 1)
        raise ShellError(f"No such job: {word}" if len(argv) > 1 else "No current job", 2)
    return job


async def fg(shell: Shell, argv: list[str]) -> int:
    """Bring a job to the front."""
    job = _job(shell, argv)
    await shell.process.write(job.source + "\n")
    await shell.process.flush()
    shell.jobs.to_front(job)
    for process in job.processes:
        process.signal("CONT")
    return await shell.jobs.foreground(job)


async def bg(shell: Shell, argv: list[str]) -> int:
    """Let a stopped job go on in the background."""
    job = _job(shell, argv)
    if job.state == "Running" and shell.dialect == "bash":
        await shell.complain(f"job {job.number} already in background", "bg")
        return 0
    mark = shell.jobs.mark(job) if shell.dialect == "bash" else ""
    for process in job.processes:
        process.signal("CONT")
    await shell.process.write(f"[{job.number}]{mark} {job.source} &\n")
    return 0


async def wait(shell: Shell, argv: list[str]) -> int:
    """Wait for jobs; a signal with a trap ends the waiting."""
    words = [word for word in argv[1:] if word != "-n"]
    if not words:
        running = [job for job in shell.jobs.table.values() if job.state == "Running"]
        for job in running:
            if not await _until(shell, job):
                return 128 + (number(shell.pending[0]) or 0)
            await _over(shell, job)
            if "-n" in argv:
                return job.status
        for job in [job for job in shell.jobs.table.values() if job.state not in ("Running", "Stopped")]:
            await _over(shell, job)
        return 0
    status = 0
    for word in words:
        status = await _wait_one(shell, word)
    return status


async def _over(shell: Shell, job: Job) -> None:
    """Forget a job that has ended; an interactive bash tells of it."""
    if shell.interactive and shell.dialect == "bash" and job.number in shell.jobs.table:
        await shell.process.flush()
        await shell.jobs.tell(job)
    shell.jobs.table.pop(job.number, None)


async def _wait_one(shell: Shell, word: str) -> int:
    found = shell.jobs.find(word)
    if found is None:
        if not word.isdecimal() and not word.startswith("%"):
            raise ShellError(f"`{word}': not a pid or valid job spec", 1 if shell.dialect == "bash" else 2)
        if shell.dialect == "bash" and word.startswith("%"):
            raise ShellError(f"{word}: no such job", 127)
        if shell.dialect == "bash":
            raise ShellError(f"pid {word} is not a child of this shell", 127)
        return 127
    if not await _until(shell, found):
        return 128 + (number(shell.pending[0]) or 0)
    await _over(shell, found)
    if shell.dialect != "bash" and found.processes[-1].fatal not in ("", "INT", "PIPE"):
        await shell.process.error(found.state + "\n")
    return found.status


async def _until(shell: Shell, job: Job) -> bool:
    """Wait for a job; False where a trapped signal came first."""
    shell.woken.clear()
    if shell.pending:
        return False
    woken = asyncio.ensure_future(shell.woken.wait())
    try:
        for process in job.processes:
            ended = asyncio.ensure_future(process.wait())
            await asyncio.wait({woken, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                ended.cancel()
                return False
    finally:
        woken.cancel()
    return True


async def kill(shell: Shell, argv: list[str]) -> int:
    """Send a signal."""
    args, name = argv[1:], "TERM"
    if args[:1] == ["-l"]:
        return await _list(shell, args[1:])
    if args and args[0].startswith("-") and args[0] not in ("-", "--"):
        word = args.pop(0)[1:]
        if word == "s" and args:
            word = args.pop(0)
        value = number(word)
        if value is None:
            raise _bad_signal(shell, word)
        name = NAMES.get(value, "")
    if args[:1] == ["--"]:
        args.pop(0)
    if not args:
        usage = "kill: usage: kill [-s sigspec | -n signum | -sigspec] pid | jobspec ... or kill -l [sigspec]"
        await shell.process.error(usage + "\n")
        return 2
    status = 0
    for word in args:
        status = await _kill_one(shell, word, name) or status
    await asyncio.sleep(0)
    return status


def _bad_signal(shell: Shell, word: str) -> ShellError:
    return ShellError(f"{word}: invalid signal specification", 1 if shell.dialect == "bash" else 2)


async def _list(shell: Shell, words: list[str]) -> int:
    for word in words:
        value = number(word)
        if value and value > 128:
            value -= 128
        await shell.process.write(f"{NAMES.get(value or 0, word) if word.isdecimal() else value}\n")
    if not words:
        await shell.process.write("".join(f"{value:2}) SIG{name}\n" for value, name in NAMES.items()))
    return 0


async def _kill_one(shell: Shell, word: str, name: str) -> int:
    machine = shell.process.machine
    if word.startswith("%"):
        job = shell.jobs.find(word)
        if job is None:
            raise ShellError(f"{word}: no such job", 1)
        pids = [process.pid for process in job.processes]
        job.hidden = True
    elif word.lstrip("-").isdecimal() and len(word) < 12:
        pids = [int(word)]
    else:
        raise ShellError(f"{word}: arguments must be process or job IDs", 1)
    try:
        for pid in pids:
            if name:
                machine.kill(pid, name)
            elif pid not in machine.all():
                raise KeyError(pid)
    except KeyError:
        await _no_process(shell, word)
        return 1
    return 0


async def _no_process(shell: Shell, word: str) -> None:
    if shell.dialect == "ash":
        await shell.process.error(f"{shell.name}: can't kill pid {word}: No such process\n")
    elif shell.dialect == "dash":
        await shell.complain("No such process\n", "kill")
    else:
        await shell.complain(f"({word}) - No such process", "kill")


async def disown(shell: Shell, argv: list[str]) -> int:
    """Forget jobs."""
    letters = "".join(word[1:] for word in argv[1:] if word.startswith("-"))
    words = [word for word in argv[1:] if not word.startswith("-")]
    if "a" in letters or "r" in letters and not words:
        kept = {key: job for key, job in shell.jobs.table.items() if "a" not in letters and job.state != "Running"}
        shell.jobs.table = kept
        return 0
    status = 0
    for word in words or ["%+"]:
        job = shell.jobs.find(word)
        if job is None:
            await shell.complain(f"{word if words else 'current'}: no such job", "disown")
            status = 1
        elif "h" not in letters:
            shell.jobs.table.pop(job.number, None)
    return status


TABLE = {"jobs": jobs, "fg": fg, "bg": bg, "wait": wait, "kill": kill, "disown": disown}
