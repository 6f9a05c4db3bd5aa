"""Process functions of os, signal and subprocess, as calls of the machine."""

import errno
import os
import posix
import signal
import sys
import time
import types

import machine
from machine import LINUX, ask, start


def spawn(args, cwd, env, fds, group=False):
    """Start a program with these descriptors (its number -> ours); returns its number."""
    given = {os.fsdecode(key): os.fsdecode(value) for key, value in (os.environ if env is None else env).items()}
    return ask("spawn", argv=args, fds=fds, cwd=cwd and os.fsdecode(cwd), env=given, group=group)


def waitpid(pid, options, /):
    return tuple(ask("waitpid", pid=pid, wait=not options & os.WNOHANG))


def execvpe(file, args, env):
    sys.stdout.flush()
    sys.stderr.flush()
    names = [os.fsdecode(each) for each in args]
    child = spawn([os.fsdecode(file), *names[1:]], None, env, {0: 0, 1: 1, 2: 2})
    os._exit(os.waitstatus_to_exitcode(waitpid(child, 0)[1]) % 256)


def waitstatus_to_exitcode(status):
    return -(status & 127) if status & 127 else status >> 8


def kill(pid, number, /):
    ask("kill", pid=pid, number=int(number))
    return None


def system(command):
    import subprocess

    code = subprocess.call(command, shell=True)
    return -code if code < 0 else code << 8


def fork():
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def getloadavg():
    with open("/proc/loadavg") as file:
        return tuple(map(float, file.read().split()[:3]))


def uname():
    return os.uname_result(start["uname"])


FUNCTIONS = {
    "getpid": lambda: start["pid"],
    "getppid": lambda: ask("getppid"),
    "getuid": lambda: start["uid"],
    "geteuid": lambda: start["uid"],
    "getgid": lambda: start["gid"],
    "getegid": lambda: start["gid"],
    "getgroups": lambda: [start["gid"]],
    "getpgrp": lambda: start["pid"],
    "getpgid": lambda pid: pid or start["pid"],
    "getsid": lambda pid: pid or start["pid"],
    "setsid": lambda: start["pid"],
    "getlogin": lambda: "root",
    "nice": lambda increment: increment,
    "cpu_count": lambda: start["cpus"],
    "sched_getaffinity": lambda pid: set(range(start["cpus"])),
    "getloadavg": getloadavg,
    "uname": uname,
    "kill": kill,
    "killpg": lambda group, number: kill(-group, number),
    "fork": fork,
    "waitpid": waitpid,
    "wait": lambda: waitpid(-1, 0),
    "system": system,
    "execve": execvpe,
    "execv": lambda path, args: execvpe(path, args, None),
    "WIFSTOPPED": lambda status: False,
    "WSTOPSIG": lambda status: status >> 8,
    "WIFEXITED": lambda status: not status & 127,
    "WEXITSTATUS": lambda status: status >> 8,
    "WIFSIGNALED": lambda status: bool(status & 127),
    "WTERMSIG": lambda status: status & 127,
    "waitstatus_to_exitcode": waitstatus_to_exitcode,
    "putenv": lambda name, value: None,
    "unsetenv": lambda name: None,
    "_exit": lambda status: ask("exit", status=status),
    "abort": lambda: kill(start["pid"], LINUX["signal"]["SIGABRT"]),
}
HANDLED = {}


def set_signal(number, handler, /):
    if not callable(handler) and handler not in (signal.SIG_DFL, signal.SIG_IGN):
        raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
    number = int(number)
    if not 1 <= number <= 64:
        raise ValueError("signal number out of range")
    if number in (9, 19):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    before = get_signal(number)
    machine.handlers[number] = handler
    ask("handle_signal", number=number, way="own" if callable(handler) else "ignore" if handler == 1 else "usual")
    return before


def get_signal(number):
    usual = signal.default_int_handler if number == 2 else signal.SIG_IGN if number == 13 else signal.SIG_DFL
    return machine.handlers.get(int(number), usual)


def install():
    """Complete os, before the modules that use it are imported."""
    for name, function in FUNCTIONS.items():
        function.__name__ = name
        setattr(posix, name, function)
        setattr(os, name, function)
    os.execvpe = os.execve = execvpe
    os.P_NOWAIT, os.P_WAIT = 1, 0
    sys.modules["_posixsubprocess"] = types.ModuleType("_posixsubprocess")
    sys.modules["_posixsubprocess"].fork_exec = None


def adjust():
    """Adjust the imported modules."""
    import argparse
    import subprocess
    import threading

    named = argparse._prog_name
    argparse._prog_name = lambda prog=None: (
        named(prog) if sys.version_info >= (3, 14) else prog or os.path.basename(sys.argv[0])
    )
    signal.signal, signal.getsignal = set_signal, get_signal
    signal.raise_signal = lambda number: kill(start["pid"], number)
    signal.alarm = alarm
    subprocess.Popen._execute_child = execute
    subprocess.Popen._communicate = communicate
    subprocess.Popen._wait = wait
    time.sleep = sleep
    for name in ("monotonic", "perf_counter"):
        setattr(time, name, lambda: time.time() - start["booted"])
        setattr(time, f"{name}_ns", lambda: int((time.time() - start["booted"]) * 1e9))
    threading.Condition.wait = alone(threading.Condition.wait)


def alarm(seconds):
    raise NotImplementedError("signal.alarm")


def sleep(seconds, /):
    seconds = seconds.__float__() if hasattr(seconds, "__float__") else seconds + 0.0
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    ask("sleep", until=time.time() + seconds)


def alone(original):
    """Return Condition.wait for the one thread that there is: nobody notifies it, so its time passes."""

    def wait(self, timeout=None):
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        sleep(10**9 if timeout is None else max(timeout, 0))
        return False

    return wait


def execute(
    self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
    p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
    start_new_session, process_group,
):  # fmt: skip
    """Popen's way to start a program: by a call, with no copy of this process in between."""
    args = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
    args = ["/bin/sh", "-c", *args] if shell else args
    if shell and executable:
        args[0] = executable
    for each in args:
        if not isinstance(each, str | bytes | os.PathLike):
            raise TypeError(f"expected str, bytes or os.PathLike object, not {type(each).__name__}")
    if preexec_fn is not None:
        preexec_fn()
    fds = {0: 0, 1: 1, 2: 2, **{each: each for each in pass_fds}}
    for number, given in ((0, p2cread), (1, c2pwrite), (2, errwrite)):
        fds[number] = given if given != -1 else number
    try:
        names = [os.fsdecode(each) for each in args]
        self.pid = spawn(names, cwd, env, fds, start_new_session or process_group is not None)
    except OSError as failed:
        name = cwd if cwd is not None and not os.path.isdir(cwd) else executable or args[0]
        raise machine.error("OSError", [failed.errno, failed.strerror, name]) from None
    finally:
        self._child_created = hasattr(self, "pid")
        for mine in {p2cread, c2pwrite, errwrite, getattr(self, "_devnull", -1)} - {-1}:
            os.close(mine)


def communicate(self, given, endtime, orig_timeout):
    """Feed and drain all pipes at once, in one call."""
    import subprocess

    if self.stdin:
        self._stdin_write(None) if not given else self.stdin.flush()
    pipes = [each.fileno() if each else None for each in (self.stdin if given else None, self.stdout, self.stderr)]
    data = memoryview(
        given.encode(self.stdin.encoding, self.stdin.errors) if isinstance(given, str) else given or b""
    )
    until = None if endtime is None else time.time() + self._remaining_time(endtime)
    out, err, done = ask("communicate", fds=pipes, data=str(data, "latin-1"), until=until)
    out, err = out.encode("latin-1"), err.encode("latin-1")
    if not done:
        raise subprocess.TimeoutExpired(self.args, orig_timeout, output=out or None, stderr=err or None)
    for each in (self.stdin, self.stdout, self.stderr):
        if each:
            each.close()
    self.wait(timeout=self._remaining_time(endtime))
    if self.text_mode:
        out = self._translate_newlines(out, self.stdout.encoding, self.stdout.errors) if self.stdout else out
        err = self._translate_newlines(err, self.stderr.encoding, self.stderr.errors) if self.stderr else err
    return out if self.stdout else None, err if self.stderr else None


def wait(self, timeout):
    """Wait for a started program."""
    import subprocess

    if self.returncode is None:
        until = None if timeout is None else time.time() + timeout
        pid, status = ask("waitpid", pid=self.pid, wait=True, until=until)
        if not pid:
            raise subprocess.TimeoutExpired(self.args, timeout)
        self._handle_exitstatus(status)
    return self.returncode
