"""What holds after every test of kubesim."""

from __future__ import annotations

import orjson
import pytest

from kubesim import sharing


@pytest.fixture(autouse=True)
def _nobody_changes_what_is_shared():
    """What a store holds may be a part of many objects, of other clusters, too."""
    yield
    assert [raw for raw, value in sharing._seen.items() if orjson.dumps(value) != raw] == []
