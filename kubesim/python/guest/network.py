"""Sockets, names and HTTPS on the pod's network."""

import os

from machine import ask, start


def gethostbyname(name):
    return ask("resolve", name=name)[0]


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    import socket

    found = ask("resolve", name=host or "localhost")
    return [(socket.AF_INET, type or socket.SOCK_STREAM, 6, "", (each, int(port or 0))) for each in found]


def connect(self, address):
    raise OSError(101, os.strerror(101))


def adjust():
    """Adjust the imported modules."""
    import socket

    socket.gethostname = lambda: start["uname"][1]
    socket.gethostbyname = gethostbyname
    socket.getaddrinfo = getaddrinfo
    socket.socket.connect = connect
