"""``dcgmi stats``: jobs and processes whose statistics are kept."""

from __future__ import annotations

from kubesim.gpu.dcgm import stats
from kubesim.gpu.dcgm.call import DUPLICATE, GENERIC, HINT, NO_DATA, NO_DATA_TEXT, Call, Refused, group_of
from kubesim.gpu.dcgm.engine import Engine, Job
from kubesim.gpu.smi.view import View


def statistics(call: Call, view: View, engine: Engine) -> str:
    """Watch processes and jobs, and tell of them."""
    number, known = group_of(call, engine)
    verbose, name = (
        call.given("-v", "--verbose"),
        call.value("-s", "--jstart", "-x", "--jstop", "-j", "--job", "-r", "--jremove"),
    )
    if call.given("-e", "--enable"):
        known.watches_pids = True
        return "Successfully started process watches.\n"
    if call.given("-d", "--disable"):
        return "Process stats watches cannot be disabled at this time.\n"
    if call.given("-a", "--jremoveall"):
        engine.jobs.clear()
        return "Successfully removed all jobs.\n"
    if call.given("-p", "--pid"):
        return _process(call, view, engine)
    if call.given("-s", "--jstart"):
        if name in engine.jobs:
            why = "This Job Id is in use. Please use another job Id"
            raise Refused(f"Error: Unable to start job for group. Return: {why}.", DUPLICATE)
        engine.jobs[name] = Job(number, view.at)
        return f"Successfully started recording stats for {name}.\n"
    if not name:
        raise Refused(HINT, 1)
    if name not in engine.jobs:
        if call.given("-j", "--job"):
            raise Refused(f"Error: Unable to retrieve job statistics. Return: {NO_DATA_TEXT}.", NO_DATA)
        raise Refused(f"Error: Job {name} was not found.", NO_DATA)
    job = engine.jobs[name]
    if call.given("-x", "--jstop"):
        engine.jobs[name] = Job(job.group, job.start, view.at)
        return f"Successfully stopped recording stats for {name}.\n"
    if call.given("-r", "--jremove"):
        del engine.jobs[name]
        return f"Successfully removed job {name}.\n"
    gpus = engine.groups[job.group].gpus if job.group in engine.groups else None
    seen = [item for item in view.all() if gpus is None or item.number in gpus]
    return f"Successfully retrieved statistics for job: {name}. \n" + stats.job(job, seen, view.at, verbose=verbose)


def _process(call: Call, view: View, engine: Engine) -> str:
    word, known = call.value("-p", "--pid"), group_of(call, engine)[1]
    if not known.watches_pids:
        raise Refused("Error: Watches have not been enabled. Unable to get PID info.", GENERIC)
    seen = [item for item in view.all() if any(str(pid) == word for pid in item.device.tasks)]
    if not seen:
        raise Refused(
            f"Error: Unable to get information for process with PID {word}. Return: {NO_DATA_TEXT}.", NO_DATA
        )
    task = next(task for pid, task in seen[0].device.tasks.items() if str(pid) == word)
    out = f"Successfully retrieved process info for PID: {word}. Process ran on {len(seen)} GPUs.\n"
    return out + stats.process(task, seen, view.at, verbose=call.given("-v", "--verbose"))
