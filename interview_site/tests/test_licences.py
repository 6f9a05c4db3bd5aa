"""The licence check can fail."""

import pytest

from interview_site.licences import refused


@pytest.mark.parametrize("licence", ["GPL-3.0-only", "GNU General Public License v2 (GPLv2)", "AGPL-3.0", "LGPL-2.1"])
def test_a_binding_licence_is_refused(licence):
    assert refused([{"Name": "x", "License": licence}]) == [f"x: {licence}"]


@pytest.mark.parametrize("licence", ["MIT", "Apache-2.0", "BSD-3-Clause", "MPL-2.0"])
def test_a_free_licence_passes(licence):
    assert refused([{"Name": "x", "License": licence}]) == []


def test_psycopg_is_the_lgpl_package_we_looked_at():
    assert refused([{"Name": "psycopg", "License": "LGPL-3.0-only"}]) == []
