"""Tracebacks as the image's own CPython prints them: without the sandbox's frames, with the image's paths."""

import ast
import linecache
import sys
import traceback

from machine import start

GUEST, LIBRARY, BUILTIN = "/0/", "/python/", "/python/_pyio.py"
MODERN = (3, 13)


def hidden(frame):
    """Tell whether a frame is of what CPython has in C, or of a library's own code."""
    name = frame.f_code.co_filename
    return name.startswith((GUEST, BUILTIN, "/world", "<frozen importlib", "/bundled"))


def shown(name):
    """Return a path as the image has it."""
    return start["library"] + name[len(LIBRARY) - 1 :] if name.startswith(LIBRARY) else name


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
    sys.stdout.flush()
    traceback.print_exception(stripped(value), file=sys.stderr)
    sys.stderr.flush()


def remember(name, source):
    """Let tracebacks show the lines of a source that is no file."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
