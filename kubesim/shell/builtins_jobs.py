"""Builtins about jobs and processes: jobs, fg, bg, wait, kill, disown."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kubesim.clock import first
from kubesim.shell.jobs import Job
from kubesim.shell.signals import LISTING, NAMES, number
from kubesim.shell.state import ShellError, options

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell


async def jobs(shell: Shell, argv: list[str]) -> int:
    """Show the jobs, all of them or those that are named."""
    letters, words = options(argv, "lnprs", "[-lnprs] [jobspec ...] or jobs -x command [args]")
    chosen = [job for _, job in sorted(shell.jobs.table.items())]
    found = {word: shell.jobs.find(word if word.startswith("%") else f"%{word}") for word in words}
    for job in filter(None, found.values()) if words else chosen:
        await _shown(shell, job, letters)
    return await shell.lament((word for word, job in found.items() if job is None), "no such job", "jobs")


async def _shown(shell: Shell, job: Job, letters: dict[str, str]) -> None:
    if "r" in letters and job.state != "Running" or "s" in letters and job.state != "Stopped":
        return
    line, first = shell.jobs.line(job), job.processes[0].pid
    line = str(first) if "p" in letters else line.replace("  ", f" {first} ", 1) if "l" in letters else line
    await shell.process.write(line + "\n")
    if job.state not in ("Running", "Stopped"):
        shell.jobs.table.pop(job.number, None)


def _job(shell: Shell, argv: list[str]) -> Job:
    word = argv[1] if len(argv) > 1 else "%+"
    job = shell.jobs.find(word if word.startswith("%") else "%" + word)
    if not shell.interactive:
        raise ShellError("no job control", 1)
    if job is None:
        raise ShellError(f"{word if len(argv) > 1 else 'current'}: no such job")
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
    if job.state == "Running":
        await shell.complain(f"job {job.number} already in background", "bg")
        return 0
    mark = shell.jobs.mark(job)
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
    if shell.interactive and job.number in shell.jobs.table:
        await shell.process.flush()
        await shell.jobs.tell(job)
    shell.jobs.table.pop(job.number, None)


async def _wait_one(shell: Shell, word: str) -> int:
    found = shell.jobs.find(word)
    if found is None:
        if not word.isdecimal() and not word.startswith("%"):
            raise ShellError(f"`{word}': not a pid or valid job spec")
        text = f"{word}: no such job" if word[0] == "%" else f"pid {word} is not a child of this shell"
        raise ShellError(text, 127)
    if not await _until(shell, found):
        return 128 + (number(shell.pending[0]) or 0)
    await _over(shell, found)
    return found.status


async def _until(shell: Shell, job: Job) -> bool:
    """Wait for a job; False where a trapped signal came first."""
    shell.woken.clear()
    if shell.pending:
        return False
    for process in job.processes:
        _, ended = await first(shell.woken.wait(), process.wait())
        if not ended.done():
            return False
    return True


async def kill(shell: Shell, argv: list[str]) -> int:
    """Send a signal."""
    args, name = argv[1:], "TERM"
    if args[:1] == ["-l"]:
        return await _list(shell, args[1:])
    if args and args[0].startswith("-") and args[0] not in ("-", "--"):
        word = args.pop(0)[1:]
        if word in ("s", "n") and args:
            word = args.pop(0)
        value = number(word)
        if value is None:
            raise ShellError(f"{word}: invalid signal specification")
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


async def _list(shell: Shell, words: list[str]) -> int:
    for word in words:
        await shell.process.write(f"{NAMES.get(int(word) % 128, word) if word.isdecimal() else number(word)}\n")
    if not words:
        await shell.process.write(LISTING)
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
        await shell.complain(f"({word}) - No such process", "kill")
        return 1
    return 0


async def disown(shell: Shell, argv: list[str]) -> int:
    """Forget jobs."""
    letters, words = options(argv, "ahr", "[-h] [-ar] [jobspec ... | pid ...]")
    several = bool(letters.keys() & {"a", "r"})
    found = {word: shell.jobs.find(word) for word in words or ["%+"] * (not several)}
    for job in [*shell.jobs.table.values()] if several and not words else filter(None, found.values()):
        if "h" not in letters and ("r" not in letters or job.state == "Running"):
            shell.jobs.table.pop(job.number, None)
    unknown = (word if words else "current" for word, job in found.items() if job is None)
    return await shell.lament(unknown, "no such job", "disown")
