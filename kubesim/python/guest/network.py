"""The pod's network: what the interpreter's own modules _socket and select are made of."""

import _socket
import errno
import math
import os
import select as waiting
import sys
import time

from machine import LINUX, ask, start

NUMBERS = LINUX["_socket"]
SERVICES = {"ftp": 21, "ssh": 22, "telnet": 23, "smtp": 25, "domain": 53, "http": 80, "pop3": 110, "ntp": 123,
            "imap2": 143, "https": 443}  # fmt: skip
CHUNK = 1 << 16
MAX_RECEIVED = 1 << 20
default_timeout = None


def is_address(name):
    parts = name.split(".")
    return len(parts) == 4 and all(each.isdecimal() and int(each) < 256 for each in parts)


def gethostbyname(name):
    return ask("resolve", name=name or "0.0.0.0")[0]


def gethostbyname_ex(name):
    return name, [], ask("resolve", name=name)


def gethostbyaddr(name):
    if not is_address(name):
        return name, [], ask("resolve", name=name)
    known = {"127.0.0.1": "localhost"}
    own = start["uname"][1]
    if name not in known and ask("resolve", name=own)[0] != name:
        raise _socket.herror(1, "Unknown host")
    return known.get(name, own), [], [name]


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    if isinstance(port, str) and not port.isdecimal():
        if port not in SERVICES:
            raise _socket.gaierror(-8, "Servname not supported for ai_socktype")
        port = SERVICES[port]
    if family not in (0, NUMBERS["AF_INET"]):
        raise _socket.gaierror(-9, "Address family for hostname not supported")
    if host is None:
        host = "0.0.0.0" if flags & NUMBERS["AI_PASSIVE"] else "127.0.0.1"
    host = host.decode() if isinstance(host, bytes) else host
    if flags & NUMBERS["AI_NUMERICHOST"] and not is_address(host):
        raise _socket.gaierror(-2, "Name or service not known")
    sorts = [(1, 6), (2, 17), (3, 0)]
    chosen = [each for each in sorts if type in (0, each[0]) and proto in (0, each[1])]
    found = ask("resolve", name=host or "0.0.0.0")
    return [(2, *each, "", (address, int(port or 0))) for address in found for each in chosen]


def getnameinfo(address, flags):
    try:
        name = address[0] if flags & NUMBERS["NI_NUMERICHOST"] else gethostbyaddr(address[0])[0]
    except OSError:
        name = address[0]
    known = {number: each for each, number in SERVICES.items()}
    return name, str(address[1] if flags & NUMBERS["NI_NUMERICSERV"] else known.get(address[1], address[1]))


def getservbyname(name, protocol="tcp"):
    if name not in SERVICES:
        raise OSError("service/proto not found")
    return SERVICES[name]


def setdefaulttimeout(timeout):
    global default_timeout
    default_timeout = seconds(timeout)


def seconds(timeout):
    if timeout is None:
        return None
    timeout = timeout.__float__() if hasattr(timeout, "__float__") else timeout + 0.0
    if timeout < 0:
        raise ValueError("Timeout value out of range")
    return timeout


def place(address, name):
    """Return host and port of an address, which is a number then, as C code checks it."""
    if not isinstance(address, tuple):
        raise TypeError(f"{name}(): AF_INET address must be tuple, not {type(address).__name__}")
    if len(address) != 2:
        raise TypeError(f"AF_INET address must be a pair (host, port), not a {len(address)}-tuple")
    host, port = address
    if not isinstance(port, int):
        raise TypeError(f"'{type(port).__name__}' object cannot be interpreted as an integer")
    if not 0 <= port < 65536:
        raise OverflowError(f"{name}(): port must be 0-65535.")
    host = host.decode() if isinstance(host, bytes | bytearray) else host
    if not isinstance(host, str):
        raise TypeError(f"str, bytes or bytearray expected, not {type(host).__name__}")
    host = "255.255.255.255" if host == "<broadcast>" else host or "0.0.0.0"
    return (host if is_address(host) else gethostbyname(host)), port


class socket:
    """The base class of socket.socket."""

    __slots__ = ("_fd", "_timeout", "_options", "_sort", "proto")

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        self._fd = -1
        self._timeout, self._options = default_timeout, {}
        self._sort, self.proto = int(1 if type == -1 else type) & 15, int(max(proto, 0))
        if family not in (-1, NUMBERS["AF_INET"]) and fileno is None:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        if self._sort not in (1, 2):
            number = errno.EPERM if self._sort == 3 else errno.ESOCKTNOSUPPORT
            raise OSError(number, os.strerror(number))
        self._fd = int(fileno) if fileno is not None else ask("socket", stream=self._sort == 1)

    def __del__(self):
        if getattr(self, "_fd", -1) != -1 and start:
            self.close()

    @property
    def family(self):
        return NUMBERS["AF_INET"]

    @property
    def type(self):
        return self._sort

    @property
    def timeout(self):
        return self._timeout

    def until(self):
        """Return the moment to which a call waits."""
        return self._timeout and time.time() + self._timeout

    def settimeout(self, timeout):
        self._timeout = seconds(timeout)

    def gettimeout(self):
        return self._timeout

    def setblocking(self, flag):
        self._timeout = None if flag else 0.0

    def getblocking(self):
        return self._timeout != 0

    def fileno(self):
        return self._fd

    def detach(self):
        fd, self._fd = self._fd, -1
        return fd

    def close(self):
        fd, self._fd = self._fd, -1
        if fd != -1:
            ask("close", fd=fd)

    def connect(self, address):
        host, port = place(address, "connect")
        ask("connect", fd=self._fd, host=host, port=port, until=self.until())

    def connect_ex(self, address):
        try:
            self.connect(address)
        except TimeoutError as error:
            return error.errno or errno.EAGAIN
        except OSError as error:
            if error.errno is None or error.errno < 0:
                raise
            return error.errno
        return 0

    def recv(self, bufsize, flags=0):
        if bufsize < 0:
            raise ValueError("negative buffersize in recv")
        until = 0 if flags & NUMBERS["MSG_DONTWAIT"] else self.until()
        peek = bool(flags & NUMBERS["MSG_PEEK"])
        return ask("recv", fd=self._fd, count=min(bufsize, MAX_RECEIVED), peek=peek, until=until).encode("latin-1")

    def recv_into(self, buffer, nbytes=0, flags=0):
        view = memoryview(buffer).cast("B")
        data = self.recv(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def recvfrom(self, bufsize, flags=0):
        return self.recv(bufsize, flags), None if self._sort == 1 else self.getpeername()

    def recvfrom_into(self, buffer, nbytes=0, flags=0):
        return self.recv_into(buffer, nbytes, flags), None

    def send(self, data, flags=0):
        view = memoryview(data).cast("B")
        return ask("send", fd=self._fd, data=str(view[:CHUNK], "latin-1"), until=self.until())

    def sendall(self, data, flags=0):
        view, until, at = memoryview(data).cast("B"), self.until(), 0
        while at < len(view):
            at += ask("send", fd=self._fd, data=str(view[at : at + CHUNK], "latin-1"), until=until)

    def sendto(self, data, *rest):
        host, port = place(rest[-1], "sendto")
        if self._sort == 2:
            return len(memoryview(data).cast("B"))
        return self.send(data)

    def shutdown(self, how):
        ask("shutdown", fd=self._fd, how=how)

    def bind(self, address):
        host, port = place(address, "bind")
        ask("bind", fd=self._fd, host=host, port=port)

    def listen(self, backlog=128):
        ask("listen", fd=self._fd)

    def _accept(self):
        fd, peer = ask("accept", fd=self._fd, until=self.until())
        return fd, tuple(peer)

    def getsockname(self):
        return tuple(ask("names", fd=self._fd)[0])

    def getpeername(self):
        peer = ask("names", fd=self._fd)[1]
        if peer is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return tuple(peer)

    def setsockopt(self, level, optname, value, optlen=None):
        self._options[int(level), int(optname)] = value

    def getsockopt(self, level, optname, buflen=0):
        known = {NUMBERS["SO_TYPE"]: self._sort, NUMBERS["SO_ERROR"]: 0, NUMBERS["SO_DOMAIN"]: self.family}
        value = self._options.get((int(level), int(optname)), known.get(int(optname), 0))
        return value.ljust(buflen, b"\0")[:buflen] if buflen and isinstance(value, bytes) else value


def socketpair(family=None, type=1, proto=0):
    return tuple(socket(fileno=fd) for fd in ask("socketpair"))


class Poll:
    """select.poll()"""

    def __init__(self):
        self._wanted = {}

    def register(self, fd, eventmask=7):
        self._wanted[number(fd)] = eventmask

    def modify(self, fd, eventmask):
        if number(fd) not in self._wanted:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._wanted[number(fd)] = eventmask

    def unregister(self, fd):
        del self._wanted[number(fd)]

    def poll(self, timeout=None):
        if timeout is not None and timeout < 0:
            timeout = None
        if not start:  # selectors tries it out when it is imported
            return []
        until = timeout and time.time() + timeout / 1000
        return [tuple(each) for each in ask("poll", wanted=[[*each] for each in self._wanted.items()], until=until)]


def number(fd):
    fd = fd if isinstance(fd, int) else fd.fileno()
    if fd < 0:
        raise ValueError(f"file descriptor cannot be a negative integer ({fd})")
    return fd


def select(rlist, wlist, xlist, timeout=None, /):
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be non-negative")
    rlist, wlist = list(rlist), list(wlist)
    wanted = [[number(each), 1] for each in rlist] + [[number(each), 4] for each in wlist]
    found = dict(ask("poll", wanted=wanted, until=timeout and time.time() + math.ceil(timeout * 1e3) / 1e3))
    if any(each & 32 for each in found.values()):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return (
        [each for each in rlist if found.get(number(each), 0) & 1],
        [each for each in wlist if found.get(number(each), 0) & 4],
        [],
    )


def install():
    """Put everything in place, before the modules that use it are imported."""
    for each in [name for name in dir(_socket) if name.isupper() and name.partition("_")[0] in ("AF", "IPPROTO")]:
        delattr(_socket, each)
    vars(_socket).update(NUMBERS)
    vars(waiting).update(LINUX["select"], poll=Poll, select=select)
    vars(_socket).update(
        socket=socket, SocketType=socket, close=os.close, dup=os.dup, gethostbyname=gethostbyname,
        gethostbyname_ex=gethostbyname_ex, gethostbyaddr=gethostbyaddr, getaddrinfo=getaddrinfo,
        getnameinfo=getnameinfo, getservbyname=getservbyname, gethostname=lambda: start["uname"][1],
        getdefaulttimeout=lambda: default_timeout, setdefaulttimeout=setdefaulttimeout, has_ipv6=False,
        socketpair=socketpair,
    )  # fmt: skip
    for each in (socket, Poll):
        each.__module__ = "_socket" if each is socket else "select"
    import tls

    sys.modules["ssl"], tls.__name__ = tls, "ssl"
    for each in vars(tls).values():
        if getattr(each, "__module__", "") == "tls":
            each.__module__ = "ssl"


def adjust():
    """Adjust the imported modules to the one thread that there is."""
    import asyncio
    import socketserver

    async def resolved(self, host, port, *, family=0, type=0, proto=0, flags=0):
        """Ask for a name in the one thread that there is."""
        return getaddrinfo(host, port, family, type, proto, flags)

    asyncio.BaseEventLoop.getaddrinfo = resolved
    server, forever = socketserver.BaseServer, socketserver.BaseServer.serve_forever

    def serve_forever(self, poll_interval=0.5):
        """Wait without looking up now and then: no other thread can call shutdown."""
        forever(self, None if type(self).service_actions is server.service_actions else poll_interval)

    server.serve_forever = serve_forever
    socketserver.ThreadingMixIn.process_request = socketserver.ThreadingMixIn.process_request_thread
