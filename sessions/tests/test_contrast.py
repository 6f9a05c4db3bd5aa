"""Every pair of colour roles that meets on a page, light and dark, has the contrast that WCAG 2.2 AA asks for."""

from __future__ import annotations

import math
import re

import pytest
from django.conf import settings

STYLESHEET = settings.BASE_DIR / "static" / "app.css"
ROLE = re.compile(r"--([a-z-]+): light-dark\(oklch\(([^)/]+)\), oklch\(([^)/]+)\)\);")
HUES = ("grey", "blue", "amber", "violet", "teal", "green", "orange", "red")
TEXT = [
    *[(ink, ground) for ink in ("text", "muted", "accent") for ground in ("ground", "surface")],
    *[(ink, f"{hue}-tint") for ink in ("text",) for hue in HUES],
    *[(hue, ground) for hue in HUES for ground in ("ground", "surface", f"{hue}-tint")],
    ("on-accent", "accent"),
]
SHAPES = [("edge", "ground"), ("edge", "surface"), ("accent", "surface"), ("accent", "blue-tint")]
LIMITS = [(*pair, 4.5) for pair in TEXT] + [(*pair, 3.0) for pair in SHAPES]


def roles(theme: str) -> dict[str, tuple[float, float, float]]:
    """Return each role's linear sRGB colour in one theme."""
    index = {"light": 1, "dark": 2}[theme]
    return {match[0]: linear_srgb(match[index]) for match in ROLE.findall(STYLESHEET.read_text())}


def linear_srgb(oklch: str) -> tuple[float, float, float]:
    """Convert ``L% C H`` to linear sRGB, clipped as browsers do. Matrices: Ottosson's definition of Oklab."""
    lightness, chroma, hue = (float(part.rstrip("%")) for part in oklch.split())
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    light = lightness / 100
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _clip(4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short),
        _clip(-1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short),
        _clip(-0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short),
    )


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """Return WCAG's contrast ratio of two linear colours, from 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _luminance(colour: tuple[float, float, float]) -> float:
    red, green, blue = colour
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_it_knows_black_on_white():
    assert contrast(linear_srgb("0% 0 0"), linear_srgb("100% 0 0")) == pytest.approx(21, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground", "least"), LIMITS)
def test_every_pair_of_roles_can_be_read(theme, ink, ground, least):
    colours = roles(theme)
    assert contrast(colours[ink], colours[ground]) >= least


def test_colours_are_written_only_as_roles():
    _, _, rest = STYLESHEET.read_text().partition("@layer base {")
    found = re.findall(r"#[0-9a-fA-F]{3,8}\b|rgb\(|hsl\(", rest)
    assert found == []


def test_the_stylesheet_stays_small():
    assert STYLESHEET.stat().st_size < 40_000
