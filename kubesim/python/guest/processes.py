"""Process functions of os, signal and subprocess, as calls of the machine."""

import _thread
import errno
import math
import operator
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
    try:
        child = spawn([os.fsdecode(file), *names[1:]], None, env, {0: 0, 1: 1, 2: 2})
    except OSError as failed:
        raise machine.error("OSError", [failed.errno, failed.strerror]) from None
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
    "register_at_fork": lambda **functions: None,
    "times": lambda: os.times_result((computed(), 0.0, 0.0, 0.0, since_boot())),
    "putenv": lambda name, value: None,
    "unsetenv": lambda name: None,
    "_exit": lambda status: ask("exit", status=status),
    "abort": lambda: kill(start["pid"], LINUX["signal"]["SIGABRT"]),
}
HANDLED = {}


def set_signal(number, handler, /):
    number = int(number)
    if not 1 <= number <= 64:
        raise ValueError("signal number out of range")
    if not callable(handler) and handler not in (signal.SIG_DFL, signal.SIG_IGN):
        raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
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
    Lock.__module__, Lock.__name__ = "_thread", "lock"
    _thread.lock = _thread.LockType = _thread.allocate_lock = Lock
    os.execvpe = os.execve = execvpe
    os.P_NOWAIT, os.P_WAIT = 1, 0
    sys.modules["_posixsubprocess"] = types.ModuleType("_posixsubprocess")
    sys.modules["_posixsubprocess"].fork_exec = None


def adjust():
    """Adjust the imported modules."""
    import argparse
    import asyncio.unix_events
    import multiprocessing.context as contexts
    import platform
    import subprocess
    import threading

    contexts._default_context._default_context = contexts._concrete_contexts["fork"]  # whose fork the kernel refuses
    named = argparse._prog_name
    argparse._prog_name = lambda prog=None: (
        named(prog) if sys.version_info >= (3, 14) else prog or os.path.basename(sys.argv[0])
    )
    after = argparse.HelpFormatter._format_action_invocation

    def invocation(self, action):
        """Repeat the value after each name of an option, as was done before 3.13."""
        if sys.version_info >= (3, 13) or not action.option_strings or action.nargs == 0:
            return after(self, action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return ", ".join(f"{each} {value}" for each in action.option_strings)

    argparse.HelpFormatter._format_action_invocation = invocation
    platform.architecture = lambda executable="", bits="64bit", linkage="ELF": (bits, linkage)
    signal.signal, signal.getsignal = set_signal, get_signal
    signal.raise_signal = lambda number: kill(start["pid"], number)
    for each in (alarm, setitimer, getitimer, pause, set_wakeup_fd, siginterrupt, valid_signals):
        setattr(signal, each.__name__, each)
    signal.ITIMER_REAL, signal.ItimerError = 0, OSError
    subprocess.Popen._execute_child = execute
    subprocess.Popen._communicate = communicate
    subprocess.Popen._wait = wait
    asyncio.unix_events._ThreadedChildWatcher.add_child_handler = watch_child
    time.sleep = sleep
    for number, names, clock in CLOCKS:
        for name in names:
            setattr(time, name, clock)
            setattr(time, f"{name}_ns", lambda clock=clock: int(clock() * 1e9))
        setattr(time, number[0], number[1])
    time.clock_gettime = clock_gettime
    time.clock_gettime_ns = lambda number: int(clock_gettime(number) * 1e9)
    threading.Condition.wait = alone(threading.Condition.wait)


def alarm(seconds, /):
    """Send SIGALRM after some seconds; returns those that were left of an alarm before."""
    return math.ceil(setitimer(0, int(seconds))[0])


def setitimer(which, seconds, interval=0.0, /):
    if which != 0 or seconds < 0 or interval < 0:  # the virtual timers count what a thread computes
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return tuple(ask("setitimer", seconds=seconds, interval=interval))


def getitimer(which, /):
    return tuple(ask("getitimer"))


def pause():
    ask("pause")


def set_wakeup_fd(fd, /, *, warn_on_full_buffer=True):
    before, machine.wakeup[0] = machine.wakeup[0], fd
    return before


def valid_signals():
    return {signal.Signals(each) if each < 32 else each for each in (*range(1, 32), *range(34, 65))}


def siginterrupt(signalnum, flag, /):
    """Let a signal interrupt calls: it always does, and the calls are made again."""


def since_boot():
    return time.time() - start["booted"]


def computed():
    return ask("cpu_time")


CLOCKS = (
    (("CLOCK_REALTIME", 0), (), time.time),
    (("CLOCK_MONOTONIC", 1), ("monotonic", "perf_counter"), since_boot),
    (("CLOCK_PROCESS_CPUTIME_ID", 2), ("process_time",), computed),
    (("CLOCK_THREAD_CPUTIME_ID", 3), ("thread_time",), computed),
    (("CLOCK_MONOTONIC_RAW", 4), (), since_boot),
    (("CLOCK_BOOTTIME", 7), (), since_boot),
)


def clock_gettime(number, /):
    found = [clock for (_, each), _, clock in CLOCKS if each == number]
    if not found:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return found[0]()


def watch_child(self, pid, callback, *args):
    """Look now and then after a program that asyncio has started: there is no thread that waits for it."""
    import asyncio

    loop = asyncio.get_running_loop()

    def look(pause):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            callback(pid, waitstatus_to_exitcode(status), *args)
        else:
            loop.call_later(pause, look, min(pause * 2, 0.5))

    look(0.001)


class Lock:
    """A lock of the one thread that there is: who waits for it waits in vain."""

    __slots__ = ("_held", "__weakref__")

    def __init__(self):
        self._held = False

    def acquire(self, blocking=True, timeout=-1):
        if self._held:
            if blocking:
                sleep(timeout if timeout >= 0 else 10**9)
            return False
        self._held = True
        return True

    def release(self):
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False

    def locked(self):
        return self._held

    def _at_fork_reinit(self):
        self._held = False

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *error):
        self.release()

    def __repr__(self):
        return f"<{'locked' if self._held else 'unlocked'} _thread.lock object at {id(self):#x}>"


def sleep(seconds, /):
    seconds = float(seconds) if hasattr(seconds, "__float__") else operator.index(seconds)
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
        self._child_created = True
    except OSError as failed:
        name = cwd if cwd is not None and not os.path.isdir(cwd) else executable or args[0]
        raise machine.error("OSError", [failed.errno, failed.strerror, name]) from None
    finally:
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


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
