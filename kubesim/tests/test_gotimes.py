"""Times are read as Go reads them for Kubernetes, and written in one way."""

import pytest

from kubesim.schema.decode import DecodeError, read_time
from kubesim.times import parse_go_duration


@pytest.mark.parametrize(
    ("text", "micro", "written"),
    [
        ("2026-01-02T03:04:05Z", False, "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.999Z", False, "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:30", False, "2026-01-02T00:34:05Z"),
        ("2026-02-03T03:04:05,5+23:59", False, "2026-02-02T03:05:05Z"),
        ("2026-01-02T03:04:05.000001Z", True, "2026-01-02T03:04:05.000001Z"),
        ("2026-12-31T23:30:00.500000-01:00", True, "2027-01-01T00:30:00.500000Z"),
    ],
)
def test_a_time_is_written_in_utc(text, micro, written):
    assert read_time(text, micro=micro) == written


@pytest.mark.parametrize(
    ("text", "micro", "complaint"),
    [
        ("", False, 'parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'),
        ("A b", False, 'parsing time "A b" as "2006-01-02T15:04:05Z07:00": cannot parse "A b" as "2006"'),
        ("2026-13-02T03:04:05Z", False, 'parsing time "2026-13-02T03:04:05Z": day out of range'),
        ("0001-01-01T00:00:00+01:00", False, 'parsing time "0001-01-01T00:00:00+01:00": day out of range'),
        ("-1", True, 'parsing time "-1" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "-1" as "2006"'),
    ],
)
def test_what_is_no_time_is_told_in_gos_words(text, micro, complaint):
    with pytest.raises(DecodeError) as found:
        read_time(text, micro=micro)
    assert str(found.value) == complaint


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m30s", 90), ("0", 0), ("-5s", -5), ("+1.5h", 5400), (".5s", 0.5), ("2ms", 0.002), ("3\u00b5s", 3e-6)],
)
def test_a_duration_is_read_as_go_reads_it(text, seconds):
    assert parse_go_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        ("1", 'time: missing unit in duration "1"'),
        ("1h0", 'time: missing unit in duration "1h0"'),
        ("3d", 'time: unknown unit "d" in duration "3d"'),
        ("3000000h", 'time: invalid duration "3000000h"'),
    ],
)
def test_what_is_no_duration_is_refused_in_gos_words(text, told):
    with pytest.raises(ValueError, match=f"^{told}$"):
        parse_go_duration(text)
