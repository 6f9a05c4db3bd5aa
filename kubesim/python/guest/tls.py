"""The ssl module: what it checks of a server the network tells, and what is sent goes on as it is."""

import enum
import os
import socket

from machine import ask

OPENSSL_VERSION, OPENSSL_VERSION_INFO, OPENSSL_VERSION_NUMBER = (
    "OpenSSL 3.0.15 3 Sep 2024",
    (3, 0, 0, 15, 0),
    0x300000F0,
)
HAS_SNI = HAS_ALPN = HAS_TLSv1_2 = HAS_TLSv1_3 = HAS_NEVER_CHECK_COMMON_NAME = True
HAS_SSLv3 = False
OP_ALL, OP_NO_SSLv2, OP_NO_SSLv3, OP_NO_COMPRESSION = 0x80000050, 0, 0x2000000, 0x20000
OP_NO_TLSv1, OP_NO_TLSv1_1, OP_NO_TICKET, OP_IGNORE_UNEXPECTED_EOF = 0x4000000, 0x10000000, 0x4000, 0x80
VERIFY_X509_PARTIAL_CHAIN, VERIFY_X509_STRICT, VERIFY_X509_TRUSTED_FIRST = 0x80000, 0x20, 0x8000
SYSTEM = "/etc/ssl/certs/ca-certificates.crt"
PUBLIC = ("/etc/ssl/", "/etc/pki/", "certifi")
"""Paths of bundles with the public authorities."""


class VerifyMode(enum.IntEnum):
    CERT_NONE, CERT_OPTIONAL, CERT_REQUIRED = 0, 1, 2


class TLSVersion(enum.IntEnum):
    MINIMUM_SUPPORTED, TLSv1, TLSv1_1, TLSv1_2, TLSv1_3, MAXIMUM_SUPPORTED = -2, 769, 770, 771, 772, -1


class Purpose(enum.Enum):
    SERVER_AUTH, CLIENT_AUTH = "1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"


CERT_NONE, CERT_OPTIONAL, CERT_REQUIRED = VerifyMode
PROTOCOL_TLS = PROTOCOL_SSLv23 = 2
PROTOCOL_TLS_CLIENT, PROTOCOL_TLS_SERVER = 16, 17


class SSLError(OSError):
    def __str__(self):
        return self.strerror if isinstance(self.strerror, str) else str(self.args)


class SSLCertVerificationError(SSLError, ValueError):
    pass


SSLZeroReturnError, SSLWantReadError, SSLWantWriteError, SSLSyscallError, SSLEOFError = (
    type(f"SSL{name}Error", (SSLError,), {"__module__": SSLError.__module__})
    for name in ("ZeroReturn", "WantRead", "WantWrite", "Syscall", "EOF")
)
CertificateError = SSLCertVerificationError


class SSLContext:
    """Settings of connections; ``own`` and ``public`` are the authorities that it trusts."""

    def __init__(self, protocol=PROTOCOL_TLS):
        self.protocol, self.options, self.verify_flags = protocol, OP_ALL, VERIFY_X509_TRUSTED_FIRST
        self.minimum_version, self.maximum_version = TLSVersion.TLSv1_2, TLSVersion.MAXIMUM_SUPPORTED
        self._check_hostname = protocol == PROTOCOL_TLS_CLIENT
        self._verify_mode = CERT_REQUIRED if self._check_hostname else CERT_NONE
        self.own = self.public = False
        self.keylog_filename = self.post_handshake_auth = None

    @property
    def check_hostname(self):
        return self._check_hostname

    @check_hostname.setter
    def check_hostname(self, value):
        self._check_hostname = bool(value)
        if value and self._verify_mode == CERT_NONE:
            self._verify_mode = CERT_REQUIRED

    @property
    def verify_mode(self):
        return self._verify_mode

    @verify_mode.setter
    def verify_mode(self, value):
        if value == CERT_NONE and self._check_hostname:
            raise ValueError("Cannot set verify_mode to CERT_NONE when check_hostname is enabled.")
        self._verify_mode = VerifyMode(value)

    def load_verify_locations(self, cafile=None, capath=None, cadata=None):
        if cafile is None and capath is None and not cadata:
            raise TypeError("cafile, capath and cadata cannot be all omitted")
        if cafile is not None:
            with open(cafile, "rb") as file:
                if b"-----BEGIN " not in file.read():
                    raise SSLError(
                        136, "[X509: NO_CERTIFICATE_OR_CRL_FOUND] no certificate or crl found (_ssl.c:4149)"
                    )
        name = os.fsdecode(cafile or capath or "")
        if any(each in name for each in PUBLIC):
            self.public = True
        else:
            self.own = True

    def load_default_certs(self, purpose=Purpose.SERVER_AUTH):
        named = os.environ.get("SSL_CERT_FILE")
        if named:
            self.load_verify_locations(named)
        else:
            self.public = True

    set_default_verify_paths = load_default_certs

    def set_alpn_protocols(self, protocols):
        """Nothing depends on it: every server here speaks HTTP/1.1."""

    def set_ciphers(self, ciphers):
        """Nothing depends on it."""

    def wrap_socket(
        self, sock, server_side=False, do_handshake_on_connect=True, suppress_ragged_eofs=True, server_hostname=None,
        session=None,
    ):  # fmt: skip
        if server_side and self.protocol == PROTOCOL_TLS_CLIENT:
            raise SSLError(336445441, "Cannot create a server socket with a PROTOCOL_TLS_CLIENT context (_ssl.c:811)")
        if server_side:  # the certificate is missing: no cipher can be agreed on
            raise SSLError(1, "[SSL: NO_SHARED_CIPHER] no shared cipher (_ssl.c:1000)")
        if self._check_hostname and not server_hostname:
            raise ValueError("check_hostname requires server_hostname")
        timeout = sock.gettimeout()
        made = SSLSocket(sock.family, sock.type, sock.proto, fileno=sock.detach())
        made.settimeout(timeout)
        made.context, made.server_hostname = self, server_hostname
        try:
            made.do_handshake()
        except OSError:
            made.close()
            raise
        return made


class SSLSocket(socket.socket):
    """A connection whose server has been checked."""

    def do_handshake(self, block=False):
        context = self.context
        ask(
            "tls", fd=self.fileno(), name=self.server_hostname or "", verify=context.verify_mode != CERT_NONE,
            named=context.check_hostname, own=context.own, public=context.public,
        )  # fmt: skip

    def read(self, len=1024, buffer=None):
        return self.recv(len) if buffer is None else self.recv_into(buffer, len)

    def write(self, data):
        return self.send(data)

    def version(self):
        return "TLSv1.3"

    def cipher(self):
        return "TLS_AES_256_GCM_SHA384", "TLSv1.3", 256

    def selected_alpn_protocol(self):
        return None

    def pending(self):
        return 0

    def unwrap(self):
        return socket.socket(fileno=self.detach())


def create_default_context(purpose=Purpose.SERVER_AUTH, *, cafile=None, capath=None, cadata=None):
    context = SSLContext(PROTOCOL_TLS_CLIENT if purpose == Purpose.SERVER_AUTH else PROTOCOL_TLS_SERVER)
    if cafile or capath or cadata:
        context.load_verify_locations(cafile, capath, cadata)
    elif context.verify_mode != CERT_NONE:
        context.load_default_certs(purpose)
    return context


def _create_unverified_context(*args, **settings):
    return SSLContext(PROTOCOL_TLS)


_create_default_https_context = create_default_context
_create_stdlib_context = _create_unverified_context
