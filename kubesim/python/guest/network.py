"""Sockets, names and HTTPS on the pod's network."""

from machine import ask, start


def gethostbyname(name):
    return ask("resolve", name=name)[0]


def adjust():
    """Adjust the imported modules."""
    import socket

    socket.gethostname = lambda: start["uname"][1]
    socket.gethostbyname = gethostbyname
