"""What functions and aggregations take and give."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.metrics.promql.values import quoted

_KINDS = {"v": "instant vector", "m": "range vector", "s": "scalar", "t": "string"}
_ALIKE = {
    "v": "abs absent acos acosh asin asinh atan atanh ceil cos cosh deg exp floor histogram_avg histogram_count "
    "histogram_stddev histogram_stdvar histogram_sum ln log10 log2 rad scalar sgn sin sinh sort sort_desc sqrt tan "
    "tanh timestamp",
    "v?": "day_of_month day_of_week day_of_year days_in_month hour minute month year",
    "m": "absent_over_time avg_over_time changes count_over_time delta deriv idelta increase irate last_over_time "
    "max_over_time min_over_time present_over_time rate resets stddev_over_time stdvar_over_time sum_over_time",
    "": "pi time",
    "s": "vector",
    "sv": "histogram_quantile",
    "sm": "quantile_over_time",
    "ms": "predict_linear",
    "vs": "clamp_max clamp_min",
    "vss": "clamp",
    "vs?": "round",
    "ssv": "histogram_fraction",
    "vtttt": "label_replace",
    "vttt*": "label_join",
}
"""Types of arguments -> functions; ``?`` after the last says that it may be left out, ``*`` that it may repeat."""
_SCALARS = frozenset(("pi", "scalar", "time"))
AGGREGATION_PARAMETERS = {"topk": "scalar", "bottomk": "scalar", "quantile": "scalar", "count_values": "string"}


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of a function's arguments, the fewest and the most of them (-1: any number), and what it gives."""

    types: tuple[str, ...]
    least: int
    most: int
    gives: str

    def takes(self, position: int) -> str:
        """Return the type of an argument."""
        return self.types[min(position, len(self.types) - 1)]

    def refusal(self, name: str, count: int) -> str | None:
        """Return what is wrong with a number of arguments."""
        words = f"argument(s) in call to {quoted(name)}, got {count}"
        if self.least == self.most != count:
            return f"expected {self.least} {words}"
        if count < self.least:
            return f"expected at least {self.least} {words}"
        return f"expected at most {self.most} {words}" if 0 <= self.most < count else None


def _signature(types: str, name: str) -> Signature:
    kinds = tuple(_KINDS[letter] for letter in types.rstrip("?*"))
    least = len(kinds) - types.endswith(("?", "*"))
    return Signature(
        kinds, least, -1 if types.endswith("*") else len(kinds), _KINDS["s" if name in _SCALARS else "v"]
    )


SIGNATURES = {name: _signature(types, name) for types, names in _ALIKE.items() for name in names.split()}
