"""Tracebacks as the image's own CPython prints them: without the sandbox's frames, with the image's paths."""

import ast
import contextlib
import linecache
import sys
import traceback

from machine import start

GUEST, LIBRARY, BUILTIN = "/0/", "/python/", "/python/_pyio.py"
FROZEN = f"{LIBRARY}lib/python{sys.version_info.major}.{sys.version_info.minor}/"
MODERN = (3, 13)
IGNORED = {
    "Exception ignored while calling deallocator ": "Exception ignored in",
    "Exception ignored in atexit callback ": "Exception ignored in atexit callback",
}


def hidden(frame):
    """Tell whether a frame is of what CPython has in C, or of a library's own code."""
    name = frame.f_code.co_filename
    return name.startswith((GUEST, BUILTIN, "/world", "<frozen importlib", "/bundled"))


def shown(name):
    """Return a path as the image has it."""
    for folder in (FROZEN, LIBRARY):
        if name.startswith(folder):
            return start["library"] + name[len(folder) - 1 :]
    return name


def stripped(exception):
    """Return an exception without the frames at the top that are not the program's."""
    trace = exception.__traceback__
    while trace is not None and hidden(trace.tb_frame):
        trace = trace.tb_next
    return exception.with_traceback(trace)


def install():
    """Let every traceback be extracted so."""
    extract_frames = traceback.StackSummary._extract_from_extended_frame_gen.__func__
    anchors, carets = traceback._extract_caret_anchors_from_line_segment, traceback.StackSummary._should_show_carets

    def extract(cls, frames, **options):
        made = extract_frames(cls, (each for each in frames if not hidden(each[0])), **options)
        for each in made:
            if sys.version_info < MODERN and each.end_lineno != each.lineno:  # only the first line was shown
                each.end_lineno, each.end_colno = each.lineno, len(each.line and each._original_lines.split("\n")[0])
                each._lines = None
            each._set_lines()
            each.filename = shown(each.filename)
        return made

    def anchored(segment):
        return None if sys.version_info < MODERN and is_call(segment) else anchors(segment)

    def should_show(self, start_offset, end_offset, all_lines, anchors):
        if sys.version_info >= MODERN:
            return carets(self, start_offset, end_offset, all_lines, anchors)
        return end_offset - start_offset < len(all_lines[0].strip()) or anchors is not None

    traceback.StackSummary._extract_from_extended_frame_gen = classmethod(extract)
    traceback._extract_caret_anchors_from_line_segment = anchored
    traceback.StackSummary._should_show_carets = should_show
    sys.unraisablehook = sys.__unraisablehook__ = report_ignored
    sys.excepthook = report
    sys.__excepthook__ = report


def is_call(segment):
    """Tell whether a piece of source is a call, in which CPython marked no part before 3.13."""
    try:
        return isinstance(ast.parse(f"({segment})").body[0].value, ast.Call)
    except SyntaxError:
        return True


def report(kind, value, trace):
    """Print an exception that nobody has caught."""
    with contextlib.suppress(AttributeError, OSError, TypeError, ValueError):  # whatever a program has put there
        sys.stdout.flush()
    if sys.stderr is not None:
        traceback.print_exception(stripped(value), file=sys.stderr)


def report_ignored(ignored):
    """Print an exception that nobody could catch, in the words of the image's version."""
    said = ignored.err_msg or "Exception ignored in"
    said = f"{said}:" if ignored.object is None else f"{said}: {ignored.object!r}"
    if sys.version_info < (3, 14):
        if "finalizing file" in said:  # nothing was said of a file that cannot be closed
            return
        for now, before in IGNORED.items():
            said = f"{before}: {said.removeprefix(now)[:-1]}" if said.startswith(now) else said
    if sys.stderr is not None:
        print(said, file=sys.stderr)
        traceback.print_exception(stripped(ignored.exc_value), file=sys.stderr)


def remember(name, source):
    """Let tracebacks show the lines of a source that is no file."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
