"""curl and wget."""

from __future__ import annotations

import asyncio
import base64
import re
from http import HTTPStatus
from secrets import randbits
from urllib.parse import SplitResult, quote, urlsplit

from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import network, resolve
from kubesim.shell.tools import kit

CURL_CODES = {"nxdomain": 6, "again": 6, "refused": 7, "unreachable": 7, "timeout": 28, "reset": 56}
CONNECTING_S = 131.072
"""How long Linux tries to open a connection: six times, each try waiting twice as long as the one before."""
AGENT = {"curl": "curl/7.88.1", "wget": "Wget/1.21.3"}


async def request(
    process: Process, method: str, url: str, headers: dict[str, str], body: bytes, limit: float, address: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """Make an HTTP request within ``limit`` seconds of the clock, to ``address`` where the name's does not count.

    Raises NetworkError, whose ``why`` is "name" where time was up before there was an address.
    """
    parts, found = urlsplit(url), [address] if address else []
    work = asyncio.ensure_future(_request(process, method, parts, headers, body, found))
    clock = asyncio.ensure_future(process.machine.clock.sleep(limit))
    try:
        await asyncio.wait({work, clock}, return_when=asyncio.FIRST_COMPLETED)
        if work.done() and not _lost(work):
            return work.result()
        await clock
        raise NetworkError("timeout", "" if found else "name")
    finally:
        work.cancel()
        clock.cancel()


async def _request(
    process: Process, method: str, parts: SplitResult, headers: dict[str, str], body: bytes, found: list[str]
) -> tuple[int, dict[str, str], bytes]:
    """Make a request to the address that a URL's host stands for in this container; ``found`` keeps it."""
    if not found:
        found.append((await resolve(process, parts.hostname or ""))[0])
    address = found[0]
    place = address if parts.port is None else f"{address}:{parts.port}"
    named = {"Host": parts.netloc.rpartition("@")[2], **headers}
    return await network(process).http(method, parts._replace(netloc=place).geturl(), named, body)


def _lost(work: asyncio.Future[tuple[int, dict[str, str], bytes]]) -> bool:
    """Whether a request goes where nobody answers, which takes as long as one waits."""
    error = work.exception()
    return isinstance(error, NetworkError) and error.kind == "timeout"


def _port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    try:
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise NetworkError("nxdomain") from error


async def curl(process: Process) -> int:
    """Transfer a URL."""
    opts = await kit.options(process)
    if "V" in opts:
        await process.write("curl 7.88.1 (x86_64-pc-linux-gnu) libcurl/7.88.1 OpenSSL/3.0.15 zlib/1.2.13\n")
        return 0
    urls = [*opts.all("url"), *opts.args]
    if not urls:
        await process.error("curl: try 'curl --help' or 'curl --manual' for more information\n")
        return 2
    status = 0
    for url in urls:
        whole = url if "://" in url else f"http://{url}"
        if _wrong(whole):
            status = 3
            await process.error("curl: (3) URL using bad/illegal format or missing URL\n")
        else:
            status = await _curl_one(process, whole, opts)
    return status


def _wrong(url: str) -> str:
    """Say what is wrong with the host or port of an URL; empty where nothing is."""
    try:
        return "" if urlsplit(url).port != 0 else "Bad port number"
    except ValueError as error:
        return "Bad port number" if "ort" in str(error) else "Invalid IPv6 numeric address"


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
    scheme = urlsplit(url).scheme
    if scheme not in ("http", "https"):
        await process.error(f'curl: (1) Protocol "{scheme}" not supported or disabled in libcurl\n')
        return 1
    limit = float(opts.get("m")) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", opts.get("m")) else CONNECTING_S
    try:
        for _ in range(10):
            address = _given(opts, url)
            code, answered, data = await request(process, method, url, headers, body, limit, address)
            if "v" in opts:
                await _tell(process, method, url, headers, address)
            place = next((value for name, value in answered.items() if name.lower() == "location"), "")
            if "L" not in opts or not 300 <= code < 400 or not place:
                break
            url = place if "://" in place else f"{urlsplit(url).scheme}://{urlsplit(url).netloc}{place}"
    except NetworkError as error:
        return await _curl_failed(process, url, error, opts, limit)
    return await _curl_done(process, url, opts, code, answered, data)


def _given(opts: kit.Options, url: str) -> str:
    """Return the address that the command line gives for a URL's host and port, if any."""
    host, port = _port(url)
    for text in opts.all("resolve"):
        name, _, rest = text.lstrip("+-").partition(":")
        number, _, address = rest.partition(":")
        if name in (host, "*") and number in (str(port), "*"):
            return address.split(",")[0]
    return ""


async def _tell(process: Process, method: str, url: str, headers: dict[str, str], address: str) -> None:
    """Show what was sent, as ``-v`` asks."""
    host, port = _port(url)
    try:
        place = address or (await resolve(process, host))[0]
    except NetworkError:
        return
    parts = urlsplit(url)
    await process.error(f"*   Trying {place}:{port}...\n* Connected to {host} ({place}) port {port} (#0)\n")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), ""]
    await process.error("".join(f"> {line}\n" for line in lines))


async def _curl_failed(process: Process, url: str, error: NetworkError, opts: kit.Options, limit: float) -> int:
    host, port = _port(url)
    doing = "Resolving" if error.why == "name" else "Connection"
    sort = "limit" if error.kind == "timeout" and "m" in opts else error.kind
    text = kit.told(f"curl_{sort}", host=host, port=port, ms=int(limit * 1000), doing=doing)
    code = CURL_CODES.get(error.kind, 7)
    if "v" in opts:
        place = _given(opts, url) or host
        tried = f"*   Trying {place}:{port}...\n" if error.kind in ("refused", "unreachable", "timeout") else ""
        tried += f"* connect to {place} port {port} failed: Connection refused\n" if error.kind == "refused" else ""
        await process.error(f"{tried}* {text}\n* Closing connection 0\n")
    if "s" not in opts or "S" in opts:
        await process.error(f"curl: ({code}) {text}\n")
    if "w" in opts:
        await process.write(_written(opts.get("w"), url, 0, b"", process))
    return code


async def _curl_done(
    process: Process, url: str, opts: kit.Options, code: int, answered: dict[str, str], data: bytes
) -> int:
    head = f"HTTP/1.1 {code} {_reason(code)}\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in answered.items()
    )
    if "v" in opts:
        await process.error("".join(f"< {line}\n" for line in head.splitlines()) + "< \n")
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
        await process.write(_written(opts.get("w"), url, code, data, process))
    if "v" in opts:
        await process.error(f"* Connection #0 to host {_port(url)[0]} left intact\n")
    return 0


PHASES = {
    "namelookup": 0.11,
    "connect": 0.19,
    "appconnect": 0.0,
    "pretransfer": 0.2,
    "starttransfer": 0.94,
    "total": 1.0,
}
"""The shares of a request's time after which curl has come so far."""


def _written(form: str, url: str, code: int, data: bytes, process: Process) -> str:
    took = process.machine.now() - process.started.timestamp() + 0.001 + randbits(12) / 2**20
    values = {
        "http_code": f"{code:03d}",
        "response_code": f"{code:03d}",
        "size_download": str(len(data)),
        "url": url,
        "url_effective": url,
        **{f"time_{name}": f"{took * share:.6f}" for name, share in PHASES.items()},
    }
    text = re.sub(r"%\{(\w+)\}", lambda match: values.get(match[1], ""), form)
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _reason(code: int) -> str:
    return HTTPStatus(code).phrase if code in {*HTTPStatus} else ""


async def wget(process: Process) -> int:
    """Download a URL."""
    opts = await kit.options(process)
    if not opts.args:
        await kit.usage(process, "missing URL")
    url = opts.args[0] if "://" in opts.args[0] else f"http://{opts.args[0]}"
    if wrong := _wrong(url):
        await process.error(f"{url}: {wrong}.\n")
        return 1
    host, port = _port(url)
    limit = float(opts.get("T")) if opts.get("T").isdecimal() else CONNECTING_S
    headers = {"Host": urlsplit(url).netloc, "User-Agent": AGENT["wget"]}
    headers |= {line.partition(":")[0]: line.partition(":")[2].strip() for line in opts.all("H")}
    body = kit.data(opts.get("d"))
    try:
        address = (await resolve(process, host))[0]
        if "q" not in opts:
            await process.error(f"Connecting to {host} ({host})|{address}|:{port}... connected.\n")
        code, _, data = await request(process, "POST" if body else "GET", url, headers, body, limit)
    except NetworkError as error:
        return 4 if "q" in opts else await _wget_failed(process, host, port, error, "T" in opts)
    if code >= 400:
        return 8 if "q" in opts else await _plain(process, f"ERROR {code}: {_reason(code)}.", 8)
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


async def _wget_failed(process: Process, host: str, port: int, error: NetworkError, limited: bool) -> int:
    unknown = error.kind in ("nxdomain", "again")
    sort = "unknown" if unknown else "limit" if limited and error.kind == "timeout" else error.kind
    if unknown:
        return await process.fail(kit.told("wget_unknown", host=host), 4)
    return await _plain(process, kit.told(f"wget_{sort}", host=host, port=port), 4)


TOOLS: dict[str, Tool] = {"curl": curl, "wget": wget}
