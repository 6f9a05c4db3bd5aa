"""The scorecard: one plain document of a session, and its two files. Pages, PDF and JSON all read the same dict."""

from sessions.scorecards.as_json import as_json
from sessions.scorecards.as_pdf import as_pdf
from sessions.scorecards.build import SCHEMA_VERSION, Scorecard, build_scorecard, file_name
from sessions.scorecards.metrics import charts_of

__all__ = ["SCHEMA_VERSION", "Scorecard", "as_json", "as_pdf", "build_scorecard", "charts_of", "file_name"]
