"""dig: what a name server answers, in the words of the protocol."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.shell.lookup import Answer, Record
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import resolve
from kubesim.shell.tools.names import patiently, reverse

VERSION = "9.18.28-1~deb12u2-Debian"
KINDS = ("A", "AAAA", "ANY", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT")
COLUMNS = (24, 32, 40, 48)
TAB = 8
TTL_S = 30
ZONE = "cluster.local"
SOA = f"ns.dns.{ZONE}. hostmaster.{ZONE}. 1763700000 7200 1800 86400 {TTL_S}"
MULTICAST = (
    ";; WARNING: .local is reserved for Multicast DNS\n"
    ";; You are currently testing what happens when an mDNS query is leaked to DNS\n"
)


@dataclass
class Question:
    """What a command line asks for."""

    name: str = "."
    kind: str = "A"
    server: str = ""
    short: bool = False
    searching: bool = False
    shown: frozenset[str] = frozenset({"comments", "cmd", "question", "answer", "authority", "stats"})


def _question(words: list[str]) -> Question:
    """Read a command line."""
    found, rest = Question(), iter(words)
    for word in rest:
        if word.startswith("@"):
            found.server = word[1:]
        elif word == "-x":
            found.name, found.kind = reverse(next(rest, "")), "PTR"
        elif word in ("-t", "-q"):
            found.kind = next(rest, "A").upper() if word == "-t" else found.kind
        elif word.startswith("+"):
            _switch(found, word[1:])
        elif word.upper() in KINDS:
            found.kind = word.upper()
        elif word != "IN" and not word.startswith("-"):
            found.name = word
    return found


def _switch(found: Question, word: str) -> None:
    on, name = not word.startswith("no"), word.removeprefix("no")
    if name == "short":
        found.short = on
    elif name == "search":
        found.searching = on
    elif name == "all":
        found.shown = Question.shown if on else frozenset()
    elif name in Question.shown:
        found.shown = found.shown | {name} if on else found.shown - {name}


async def dig(process: Process) -> int:
    """Ask a name server in detail."""
    asked = _question(process.argv[1:])
    way = process.machine.network
    if way is None:
        shown = " ".join(process.argv[1:])
        await process.write(
            f"\n; <<>> DiG {VERSION} <<>> {shown}\n;; global options: +cmd\n;; no servers could be reached\n"
        )
        return 9
    server = (await resolve(process, asked.server))[0] if asked.server else way.config.servers[0]

    async def ask() -> Answer:
        names = way.config.candidates(asked.name) if asked.searching else [asked.name.rstrip(".")]
        answers = [await way.ask(name, asked.kind, server) for name in names]
        return next((answer for answer in answers if answer.records), answers[0])

    answer = await patiently(process, ask, 3)
    head = f"\n; <<>> DiG {VERSION} <<>> {' '.join(process.argv[1:])}\n;; global options: +cmd\n"
    if answer is None:
        await process.write(head + ";; no servers could be reached\n")
        return 9
    if asked.short:
        await process.write("".join(_value(record) + "\n" for record in answer.records))
        return 0
    if "cmd" in asked.shown and "comments" in asked.shown:
        await process.write(head)
    await process.write(_text(process, asked, answer, server))
    return 0


def _text(process: Process, asked: Question, answer: Answer, server: str) -> str:
    """Return an answer, section by section."""
    authority = [] if answer.records else [_line(ZONE, "SOA", SOA)]
    local = answer.name == ZONE or answer.name.endswith((".local", ".in-addr.arpa")) or not answer.exists
    out = ""
    if "comments" in asked.shown:
        out += ";; Got answer:\n" + (MULTICAST if answer.name.endswith(".local") else "")
        out += f";; ->>HEADER<<- opcode: QUERY, status: {answer.code}, id: {30211 + len(answer.name)}\n"
        out += f";; flags: qr {'aa rd' if local else 'rd ra'}; QUERY: 1, ANSWER: {len(answer.records)}, "
        out += f"AUTHORITY: {len(authority)}, ADDITIONAL: 1\n"
        out += (";; WARNING: recursion requested but not available\n" if local else "") + "\n"
        out += ";; OPT PSEUDOSECTION:\n; EDNS: version: 0, flags:; udp: 1232\n"
    if "question" in asked.shown:
        out += (
            ";; QUESTION SECTION:\n;"
            + _columns([f"{answer.name.rstrip('.')}.", "IN", asked.kind], COLUMNS[1:3])
            + "\n\n"
        )
    if answer.records and "answer" in asked.shown:
        rows = "".join(_line(record.name, record.kind, _value(record)) for record in answer.records)
        out += f";; ANSWER SECTION:\n{rows}\n" if "comments" in asked.shown else rows
    if authority and "authority" in asked.shown:
        out += ";; AUTHORITY SECTION:\n" + "".join(authority) + "\n"
    if "stats" in asked.shown:
        now = process.machine.clock.now()
        out += f";; Query time: 0 msec\n;; SERVER: {server}#53({server}) (UDP)\n"
        out += f";; WHEN: {now:%a %b %d %H:%M:%S} UTC {now:%Y}\n;; MSG SIZE  rcvd: {_size(asked, answer)}\n\n"
    return out


def _size(asked: Question, answer: Answer) -> int:
    """Return about how long the message is: header, question, and records with compressed names. Bytes."""
    return 12 + len(asked.name) + 6 + 23 + sum(12 + max(4, len(record.value)) for record in answer.records)


def _value(record: Record) -> str:
    return record.value + "." if record.kind in ("CNAME", "PTR", "SRV", "NS") else record.value


def _line(name: str, kind: str, value: str) -> str:
    return _columns([f"{name}.", str(TTL_S), "IN", kind, value], COLUMNS) + "\n"


def _columns(words: list[str], columns: tuple[int, ...]) -> str:
    """Join words at columns with tabs and spaces; one that is too long moves the next by a single step."""
    out, at = words[0], len(words[0])
    for word, column in zip(words[1:], columns, strict=True):
        to = max(column, at + 1)
        tabs = to // TAB - at // TAB
        out += "\t" * tabs + " " * (to - to // TAB * TAB if tabs else to - at) + word
        at = to + len(word)
    return out


TOOLS: dict[str, Tool] = {"dig": dig}
