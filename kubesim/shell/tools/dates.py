"""date, and how it writes a moment."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit


async def date(process: Process) -> int:
    """Show the time."""
    opts = await kit.options(process)
    now = process.machine.clock.now().astimezone(UTC)
    moment = now
    if "r" in opts:
        node = process.view.find(opts.get("r"))
        moment = datetime.fromtimestamp(node.mtime, UTC) if node else now
    if "d" in opts:
        found = _date(opts.get("d"), now)
        if found is None:
            return await process.fail(f"invalid date '{opts.get('d')}'")
        moment = found
    await kit.no_operands(process, [word for word in opts.args if word[:1] != "+"], "invalid date '{}'")
    await kit.no_operands(process, opts.args[1:])
    form = next((word[1:] for word in opts.args), "")
    if "I" in opts:
        form = {"": "%Y-%m-%d", "date": "%Y-%m-%d"}.get(opts.get("I"), "%Y-%m-%dT%H:%M:%S+00:00")
    elif "R" in opts:
        form = "%a, %d %b %Y %H:%M:%S +0000"
    await process.write(strftime(moment, form or "%a %b %e %H:%M:%S UTC %Y") + "\n")
    return 0


def strftime(moment: datetime, form: str) -> str:
    """Format a time with GNU's extensions."""
    values = {
        "s": str(int(moment.timestamp())),
        "N": f"{moment.microsecond * 1000:09d}",
        "3N": f"{moment.microsecond // 1000:03d}",
        "P": f"{moment:%p}".lower(),
        "Z": "UTC",
        ":z": "+00:00",
        "-d": str(moment.day),
        "-m": str(moment.month),
        "-H": str(moment.hour),
    }

    def one(match: re.Match[str]) -> str:
        plain = moment.strftime(match[0]) if match[1] in "%aAbBcCdDeFgGhHIjkmMnprRSTtuUVwWxXyYz" else match[0]
        return values.get(match[1], plain)

    return re.sub(r"%(3N|:z|-[dmH]|.)", one, form)


SIZES = {"second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "day": 86400, "week": 604800}


def _date(word: str, now: datetime) -> datetime | None:
    if word.startswith("@") and re.fullmatch(r"@-?\d{1,11}(\.\d+)?", word):
        return datetime.fromtimestamp(float(word[1:]), UTC)
    named = {"now": 0, "today": 0, "": 0, "yesterday": -86400, "tomorrow": 86400}
    if word in named:
        return now + timedelta(seconds=named[word])
    match = re.fullmatch(r"(.*?) ?([+-]?) ?(\d{1,6}|next|last) ?(" + "|".join(SIZES) + r")s?( ago)?", word)
    if match and (begun := _date(match[1].strip(), now)) is not None:
        count = {"next": 1, "last": -1}.get(match[3]) or int(match[3])
        sign = -1 if (match[2] == "-") != bool(match[5]) else 1
        return begun + timedelta(seconds=count * SIZES[match[4]] * sign)
    try:
        found = datetime.fromisoformat(word.replace("Z", "+00:00").removesuffix(" UTC"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# processes


def _clock(span: float) -> str:
    return f"{int(span) // 3600:02d}:{int(span) // 60 % 60:02d}:{int(span) % 60:02d}"


TOOLS: dict[str, Tool] = {"date": date}
