"""Programs of the network: curl, wget, nslookup, dig, host, getent, ping, nc, ip, ss. They reach what the machine's
network seam reaches; without one no name resolves."""

from __future__ import annotations

import asyncio
import base64
import re
from urllib.parse import quote, urlsplit

from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.files import File
from kubesim.shell.handles import CHUNK, Reader
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
RESOLVER = "10.96.0.10"
CURL_CODES = {"nxdomain": 6, "refused": 7, "unreachable": 7, "timeout": 28, "reset": 56}
AGENT = {"curl": "curl/7.88.1", "wget": "Wget/1.21.3"}


def hosts(process: Process) -> dict[str, str]:
    """Return the names of /etc/hosts with their addresses."""
    node = process.view.find("/etc/hosts")
    rows = bytes(node.content()).decode("utf-8", "replace").splitlines() if isinstance(node, File) else []
    fields = [row.split("#")[0].split() for row in rows]
    return {name: row[0] for row in reversed(fields) if len(row) > 1 for name in row[1:] if ":" not in row[0]}


async def resolve(process: Process, name: str) -> list[str]:
    """Return the addresses of a name; raises NetworkError."""
    if ADDRESS.fullmatch(name):
        return [name]
    known = hosts(process)
    if name in known:
        return [known[name]]
    if process.machine.network is None:
        raise NetworkError("nxdomain")
    return await process.machine.network.resolve(name)


async def request(
    process: Process, method: str, url: str, headers: dict[str, str], body: bytes, limit: float
) -> tuple[int, dict[str, str], bytes]:
    """Make an HTTP request within ``limit`` seconds of the clock; raises NetworkError."""
    await resolve(process, urlsplit(url).hostname or "")
    network = process.machine.network
    if network is None:
        raise NetworkError("refused")
    work = asyncio.ensure_future(network.http(method, url, headers, body))
    clock = asyncio.ensure_future(process.machine.clock.sleep(limit))
    try:
        await asyncio.wait({work, clock}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise NetworkError("timeout")
        return work.result()
    finally:
        work.cancel()
        clock.cancel()


def _port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    try:
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise NetworkError("nxdomain") from error


async def curl(process: Process) -> int:
    """Transfer a URL."""
    opts = await kit.options(
        process,
        "X:H:d:o:Oskviw:m:fLIu:A:G:gS#T:F:b:c:e:x:NnqV46".replace("G:", "G"),
        {
            "request=": "X",
            "header=": "H",
            "data=": "d",
            "data-raw=": "d",
            "data-binary=": "d",
            "output=": "o",
            "silent": "s",
            "insecure": "k",
            "verbose": "v",
            "include": "i",
            "write-out=": "w",
            "max-time=": "m",
            "connect-timeout=": "m",
            "fail": "f",
            "location": "L",
            "head": "I",
            "user=": "u",
            "user-agent=": "A",
            "show-error": "S",
            "remote-name": "O",
            "cacert=": "ca",
            "cert=": "ca",
            "key=": "ca",
            "get": "G",
            "compressed": "z",
            "retry=": "retry",
            "json=": "json",
            "url=": "url",
            "data-urlencode=": "de",
            "fail-with-body": "f",
            "version": "V",
            "no-buffer": "N",
        },
    )
    if "V" in opts:
        await process.write("curl 7.88.1 (x86_64-pc-linux-gnu) libcurl/7.88.1 OpenSSL/3.0.15 zlib/1.2.13\n")
        return 0
    urls = [*opts.all("url"), *opts.args]
    if not urls:
        await process.error("curl: try 'curl --help' or 'curl --manual' for more information\n")
        return 2
    status = 0
    for url in urls:
        status = await _curl_one(process, url if "://" in url else f"http://{url}", opts)
    return status


async def _curl_body(process: Process, opts: kit.Options) -> bytes:
    pieces = []
    for text in [*opts.all("d"), *opts.all("json")]:
        if text.startswith("@"):
            handle = await kit.opened(process, text[1:])
            pieces.append(await kit.everything(process, handle) if handle else b"")
        else:
            pieces.append(kit.data(text))
    pieces += [kit.data(quote(text, safe="=")) for text in opts.all("de")]
    return b"&".join(pieces)


async def _curl_one(process: Process, url: str, opts: kit.Options) -> int:
    body = await _curl_body(process, opts)
    sends = bool(opts.all("d") or opts.all("json") or opts.all("de")) and "G" not in opts
    if "G" in opts and body:
        url, body = f"{url}{'&' if '?' in url else '?'}{kit.text(body)}", b""
    method = opts.get("X") or ("HEAD" if "I" in opts else "POST" if sends else "GET")
    headers = {"Host": urlsplit(url).netloc, "User-Agent": opts.get("A") or AGENT["curl"], "Accept": "*/*"}
    if sends:
        headers["Content-Type"] = "application/json" if "json" in opts else "application/x-www-form-urlencoded"
    if "u" in opts:
        headers["Authorization"] = "Basic " + base64.b64encode(kit.data(opts.get("u"))).decode()
    for line in opts.all("H"):
        name, _, value = line.partition(":")
        headers[name] = value.strip()
    limit = float(opts.get("m")) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", opts.get("m")) else 130.0
    try:
        for _ in range(10):
            code, answered, data = await request(process, method, url, headers, body, limit)
            place = next((value for name, value in answered.items() if name.lower() == "location"), "")
            if "L" not in opts or not 300 <= code < 400 or not place:
                break
            url = place if "://" in place else f"{urlsplit(url).scheme}://{urlsplit(url).netloc}{place}"
    except NetworkError as error:
        return await _curl_failed(process, url, error, opts, limit)
    return await _curl_done(process, url, opts, code, answered, data)


async def _curl_failed(process: Process, url: str, error: NetworkError, opts: kit.Options, limit: float) -> int:
    host, port = _port(url)
    texts = {
        "nxdomain": f"Could not resolve host: {host}",
        "refused": f"Failed to connect to {host} port {port} after 0 ms: Couldn't connect to server",
        "unreachable": f"Failed to connect to {host} port {port} after 3 ms: Couldn't connect to server",
        "timeout": f"Connection timed out after {int(limit * 1000)} milliseconds",
        "reset": "Recv failure: Connection reset by peer",
    }
    code = CURL_CODES.get(error.kind, 7)
    if "s" not in opts or "S" in opts:
        await process.error(f"curl: ({code}) {texts.get(error.kind, error.kind)}\n")
    if "w" in opts:
        await process.write(_written(opts.get("w"), url, 0, b""))
    return code


async def _curl_done(
    process: Process, url: str, opts: kit.Options, code: int, answered: dict[str, str], data: bytes
) -> int:
    head = f"HTTP/1.1 {code} {_reason(code)}\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in answered.items()
    )
    if "v" in opts:
        path = urlsplit(url).path or "/"
        host = urlsplit(url).netloc
        await process.error(
            f"*   Trying {host}...\n* Connected to {host}\n> GET {path} HTTP/1.1\n> Host: {host}\n>\n"
        )
        await process.error("".join(f"< {line}\n" for line in head.splitlines()) + "<\n")
    if code >= 400 and "f" in opts:
        if "s" not in opts or "S" in opts:
            await process.error(f"curl: (22) The requested URL returned error: {code}\n")
        return 22
    out = (head + "\r\n").encode() if opts.any("iI") else b""
    if "I" not in opts:
        out += data
    name = opts.get("o") or (urlsplit(url).path.rsplit("/", 1)[-1] if "O" in opts else "")
    if name and name != "-":
        try:
            process.view.write(name, out) if name != "/dev/null" else None
        except FileError as error:
            await process.error(f"curl: (23) Failure writing output to destination: {error.text}\n")
            return 23
    else:
        await process.write(out)
    if "w" in opts:
        await process.write(_written(opts.get("w"), url, code, data))
    return 0


def _written(form: str, url: str, code: int, data: bytes) -> str:
    values = {
        "http_code": f"{code:03d}",
        "response_code": f"{code:03d}",
        "size_download": str(len(data)),
        "url": url,
        "url_effective": url,
        "time_total": "0.004213",
        "time_connect": "0.000412",
        "remote_ip": "",
    }
    text = re.sub(r"%\{(\w+)\}", lambda match: values.get(match[1], ""), form)
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _reason(code: int) -> str:
    known = {
        200: "OK",
        201: "Created",
        204: "No Content",
        301: "Moved Permanently",
        302: "Found",
        400: "Bad Request",
        401: "Unauthorized",
        403: "Forbidden",
        404: "Not Found",
        500: "Internal Server Error",
        502: "Bad Gateway",
        503: "Service Unavailable",
    }
    return known.get(code, "")


async def wget(process: Process) -> int:
    """Download a URL."""
    opts = await kit.options(
        process,
        "qO:T:t:ScP:UY:",
        {
            "output-document=": "O",
            "quiet": "q",
            "timeout=": "T",
            "spider": "spider",
            "tries=": "t",
            "post-data=": "d",
            "header=": "H",
            "no-check-certificate": "k",
            "server-response": "S",
        },
    )
    if not opts.args:
        await kit.usage(process, "missing URL")
    url = opts.args[0] if "://" in opts.args[0] else f"http://{opts.args[0]}"
    host, port = _port(url)
    limit = float(opts.get("T")) if opts.get("T").isdecimal() else 900.0
    headers = {"Host": urlsplit(url).netloc, "User-Agent": "Wget" if process.busybox else AGENT["wget"]}
    headers |= {line.partition(":")[0]: line.partition(":")[2].strip() for line in opts.all("H")}
    body = kit.data(opts.get("d"))
    try:
        address = (await resolve(process, host))[0]
        if "q" not in opts:
            await process.error(
                f"Connecting to {host} ({address}:{port})\n"
                if process.busybox
                else f"Connecting to {host} ({host})|{address}|:{port}... connected.\n"
            )
        code, _, data = await request(process, "POST" if body else "GET", url, headers, body, limit)
    except NetworkError as error:
        return await _wget_failed(process, host, port, error)
    if code >= 400:
        text = f"server returned error: HTTP/1.1 {code} {_reason(code)}"
        return (
            await process.fail(text)
            if process.busybox
            else await _plain(process, f"ERROR {code}: {_reason(code)}.", 8)
        )
    name = opts.get("O") or urlsplit(url).path.rsplit("/", 1)[-1] or "index.html"
    if "spider" in opts:
        if "q" not in opts:
            await process.error("remote file exists\n")
    elif name == "-":
        await process.write(data)
    else:
        process.view.write(name, data)
        if "q" not in opts:
            await process.error(f"saving to '{name}'\n'{name}' saved\n")
    return 0


async def _plain(process: Process, text: str, status: int) -> int:
    await process.error(text + "\n")
    return status


async def _wget_failed(process: Process, host: str, port: int, error: NetworkError) -> int:
    if process.busybox:
        texts = {
            "nxdomain": f"bad address '{host}'",
            "timeout": "download timed out",
            "refused": f"can't connect to remote host ({host}): Connection refused",
        }
        return await process.fail(texts.get(error.kind, f"can't connect to remote host ({host}): No route to host"))
    texts = {
        "nxdomain": f"unable to resolve host address '{host}'",
        "timeout": "Connection timed out.",
        "refused": "Connection refused.",
    }
    if error.kind == "nxdomain":
        return await process.fail(texts["nxdomain"], 4)
    return await _plain(
        process, f"Connecting to {host}:{port}... failed: {texts.get(error.kind, 'No route to host.')}", 4
    )


async def nslookup(process: Process) -> int:
    """Ask the name server."""
    opts = await kit.options(process, "t:q:", {"type=": "t", "query=": "t"})
    if not opts.args:
        return 1
    name = opts.args[0]
    await process.write(f"Server:\t\t{RESOLVER}\nAddress:\t{RESOLVER}{':53' if process.busybox else '#53'}\n\n")
    try:
        addresses = await resolve(process, name)
    except NetworkError as error:
        if error.kind == "timeout":
            await process.write(";; connection timed out; no servers could be reached\n\n")
        elif process.busybox:
            await process.write(f"** server can't find {name}: NXDOMAIN\n\n")
        else:
            await process.write(f"** server can't find {name}: NXDOMAIN\n\n")
        return 1
    for address in addresses:
        await process.write(f"Name:\t{name}\nAddress: {address}\n")
    await process.write("\n")
    return 0


async def dig(process: Process) -> int:
    """Ask the name server in detail."""
    words = [
        word
        for word in process.argv[1:]
        if not word.startswith(("+", "@", "-")) and word not in ("A", "AAAA", "SRV", "IN", "ANY")
    ]
    name = words[0] if words else "."
    short = "+short" in process.argv
    try:
        addresses = await resolve(process, name)
        state = "NOERROR"
    except NetworkError as error:
        if error.kind == "timeout":
            await process.write(";; communications error: timed out\n;; no servers could be reached\n")
            return 9
        addresses, state = [], "NXDOMAIN"
    if short:
        await process.write("".join(address + "\n" for address in addresses))
        return 0
    full = name.rstrip(".") + "."
    await process.write(
        f"\n; <<>> DiG 9.18.28 <<>> {' '.join(process.argv[1:])}\n;; global options: +cmd\n;; Got answer:\n"
        f";; ->>HEADER<<- opcode: QUERY, status: {state}, id: 30211\n"
        f";; flags: qr aa rd; QUERY: 1, ANSWER: {len(addresses)}, AUTHORITY: 0, ADDITIONAL: 1\n\n"
        f";; QUESTION SECTION:\n;{full}\t\t\tIN\tA\n"
    )
    if addresses:
        await process.write("\n;; ANSWER SECTION:\n" + "".join(f"{full}\t30\tIN\tA\t{each}\n" for each in addresses))
    await process.write(f"\n;; Query time: 0 msec\n;; SERVER: {RESOLVER}#53({RESOLVER}) (UDP)\n\n")
    return 0


async def host(process: Process) -> int:
    """Look a name up."""
    name = process.argv[-1]
    try:
        for address in await resolve(process, name):
            await process.write(f"{name} has address {address}\n")
    except NetworkError:
        await process.write(f"Host {name} not found: 3(NXDOMAIN)\n")
        return 1
    return 0


async def getent(process: Process) -> int:
    """Look up in the system's databases."""
    if len(process.argv) < 3:
        return 1
    table, key = process.argv[1], process.argv[2]
    if table in ("passwd", "group"):
        node = process.view.find(f"/etc/{table}")
        rows = bytes(node.content()).decode("utf-8", "replace").splitlines() if isinstance(node, File) else []
        found = [row for row in rows if key in row.split(":")[::2][:2]]
        await process.write("".join(row + "\n" for row in found))
        return 0 if found else 2
    try:
        for address in await resolve(process, key):
            await process.write(f"{address:<15} {key}\n" if table == "hosts" else f"{address:<15} STREAM {key}\n")
    except NetworkError:
        return 2
    return 0


async def ping(process: Process) -> int:
    """Send echo requests; containers may not, or the network does not answer them."""
    opts = await kit.options(process, "c:W:w:i:qnI:s:46")
    if not opts.args:
        await kit.usage(process, "usage error: Destination address required")
    name = opts.args[0]
    try:
        address = (await resolve(process, name))[0]
    except NetworkError:
        return await process.fail(
            f"bad address '{name}'" if process.busybox else f"{name}: Name or service not known",
            1 if process.busybox else 2,
        )
    count = int(opts.get("c")) if opts.get("c").isdecimal() else 1 << 30
    await process.write(
        f"PING {name} ({address}){': 56 data bytes' if process.busybox else ' 56(84) bytes of data.'}\n"
    )
    sent = 0
    while sent < count:
        sent += 1
        await process.sleep(1.0)
    await process.write(
        f"\n--- {name} ping statistics ---\n"
        f"{sent} packets transmitted, 0 received, 100% packet loss, time {sent * 1000}ms\n\n"
    )
    return 1


async def nc(process: Process) -> int:
    """Open a connection and pass bytes both ways."""
    opts = await kit.options(process, "zvw:lnup:Nq:i:", {"zero": "z"})
    if len(opts.args) < 2 or not opts.args[1].isdecimal() or "l" in opts:
        return await process.fail(
            "missing port number" if len(opts.args) < 2 else "listening is not supported on this address"
        )
    name, port = opts.args[0], int(opts.args[1])
    try:
        address = (await resolve(process, name))[0]
        if process.machine.network is None:
            raise NetworkError("refused")
        reader, writer = await process.machine.network.connect(address, port)
    except NetworkError as error:
        texts = {
            "nxdomain": f'getaddrinfo for host "{name}" port {port}: Name or service not known',
            "timeout": f"connect to {name} port {port} (tcp) failed: Connection timed out",
        }
        if process.busybox:
            return await process.fail(
                f"bad address '{name}'" if error.kind == "nxdomain" else f"{name} ({name}:{port}): Connection refused"
            )
        return await process.fail(
            texts.get(error.kind, f"connect to {name} port {port} (tcp) failed: Connection refused")
        )
    if "v" in opts:
        await process.error(
            f"Connection to {name} {port} port [tcp/*] succeeded!\n"
            if not process.busybox
            else f"{name} ({address}:{port}) open\n"
        )
    if "z" in opts:
        return 0
    incoming = asyncio.ensure_future(_pump(process, reader))
    try:
        while data := await process.read():
            await writer.write(data)
        await incoming
    finally:
        incoming.cancel()
    return 0


async def _pump(process: Process, reader: Reader) -> None:
    while data := await reader.read(CHUNK):
        await process.write(data)
        await process.flush()


async def ip(process: Process) -> int:
    """Show addresses and routes."""
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    address = process.machine.address
    gateway = address.rpartition(".")[0] + ".1"
    if not words or words[0][0] == "a":
        await process.write(
            "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000\n"
            "    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n    inet 127.0.0.1/8 scope host lo\n"
            "       valid_lft forever preferred_lft forever\n"
            "2: eth0@if7: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1460 qdisc noqueue state UP group default\n"
            "    link/ether 0a:58:0a:40:00:05 brd ff:ff:ff:ff:ff:ff link-netnsid 0\n"
            f"    inet {address}/24 brd {address.rpartition('.')[0]}.255 scope global eth0\n"
            "       valid_lft forever preferred_lft forever\n"
        )
        return 0
    if words[0][0] == "r":
        await process.write(
            f"default via {gateway} dev eth0\n{address.rpartition('.')[0]}.0/24 dev eth0 scope link src {address}\n"
        )
        return 0
    await process.error(f'Object "{words[0]}" is unknown, try "ip help".\n')
    return 1


async def ss(process: Process) -> int:
    """Show sockets: the tables are empty, for what listens is not a process of ours."""
    if process.name == "netstat":
        await process.write(
            "Active Internet connections (w/o servers)\n"
            "Proto Recv-Q Send-Q Local Address           Foreign Address         State\n"
        )
    else:
        await process.write("State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n")
    return 0


TOOLS: dict[str, Tool] = {
    "curl": curl,
    "wget": wget,
    "nslookup": nslookup,
    "dig": dig,
    "host": host,
    "getent": getent,
    "ping": ping,
    "nc": nc,
    "ip": ip,
    "ss": ss,
    "netstat": ss,
}
