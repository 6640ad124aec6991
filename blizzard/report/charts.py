"""Computes where the bars of a chart are. Pure geometry: the template draws it and escapes the text.

A drawing is 1000 wide and 100 high, and is stretched to fit the page. So it holds no text, and lines keep their width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

WIDTH, HEIGHT = 1000.0, 100.0
# With few commits, a bar must not become as wide as the page.
_LEAST_COLUMNS = 16
_X_LABELS = 5
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_ROUND_SECONDS = (
    1,
    2,
    5,
    10,
    20,
    30,
    *(m * _MINUTE for m in (1, 2, 5, 10, 20, 30)),
    *(_HOUR * h for h in (1, 2, 4, 6)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One commit in one chart. Parts are stacked from the bottom, each with its CSS class."""

    parts: tuple[tuple[str, float], ...]
    tip: str
    label: str  # its time
    marker: str | None = None  # CSS class of a line over the whole height


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    css: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The area of a tooltip: the whole height of a column."""

    x: float
    width: float
    tip: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    css: str
    x: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    id: str
    title: str
    description: str
    bars: tuple[Bar, ...]
    hits: tuple[Hit, ...]
    lines: tuple[Line, ...]
    y_labels: tuple[str, ...]  # from the top
    x_labels: tuple[str, ...]


def bar_chart(
    columns: Sequence[Column],
    *,
    chart_id: str,
    title: str,
    description: str,
    show: Callable[[float], str],
    is_time: bool = False,
) -> Chart:
    """`columns` oldest first; the newest one is at the right edge."""
    top = max((sum(value for _, value in c.parts) for c in columns), default=0.0)
    scale = (round_seconds if is_time else round_number)(top)
    slots = max(len(columns), _LEAST_COLUMNS)
    step, first = WIDTH / slots, slots - len(columns)
    gap = step * 0.22
    bars: list[Bar] = []
    for i, column in enumerate(columns):
        filled = 0.0
        for css, value in column.parts:
            height = max(0.8, value / scale * HEIGHT) if value > 0 else 0.0  # small values stay visible
            if height:
                x, y = (first + i) * step + gap / 2, max(0.0, HEIGHT - filled - height)
                bars.append(Bar(css=css, x=_at(x), y=_at(y), width=_at(step - gap), height=_at(height)))
            filled += height
    return Chart(
        id=chart_id,
        title=title,
        description=description,
        bars=tuple(bars),
        hits=tuple(Hit(x=_at((first + i) * step), width=_at(step), tip=c.tip) for i, c in enumerate(columns)),
        lines=tuple(
            Line(css=c.marker, x=_at((first + i + 0.5) * step)) for i, c in enumerate(columns) if c.marker is not None
        ),
        y_labels=(show(scale), show(scale / 2) if scale > 1 else "", "0"),
        x_labels=_x_labels(columns, slots, first),
    )


def _x_labels(columns: Sequence[Column], slots: int, first: int) -> tuple[str, ...]:
    places = [round(i * (slots - 1) / (_X_LABELS - 1)) - first for i in range(_X_LABELS)]
    return tuple(columns[place].label if place >= 0 and columns else "" for place in places)


def _at(number: float) -> float:
    return round(number, 2)


def round_number(top: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50, … that is not below this."""
    if top <= 1:
        return 1.0
    power = 10.0 ** floor(log10(top))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= top * (1 - 1e-9))


def round_seconds(top: float) -> float:
    for seconds in _ROUND_SECONDS:
        if seconds >= top:
            return float(seconds)
    return round_number(ceil(top / _DAY)) * _DAY
