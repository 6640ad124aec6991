"""Computes where the bars of a chart are, which of its series occur, and its numbers as a table. Pure: the template
draws it and escapes the text.

A drawing is 1000 wide and 100 high, and is stretched to fit the page. So it holds no text, and lines keep their width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

WIDTH, HEIGHT = 1000.0, 100.0
# Few bars are spread over the whole width, and none is wider than a bar of this many.
_LEAST_COLUMNS = 12
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
    """One commit in one chart. Parts are stacked from the bottom, each with its CSS class. A class of two words is the
    second one in the legend."""

    parts: tuple[tuple[str, float], ...]
    tip: str
    label: str  # its time
    marker: str | None = None  # CSS class of a line over the whole height
    cells: tuple[str, ...] = ()  # its row in the table


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
class Label:
    """Below its column, or at the edge beside it. `percent` of the width from the left."""

    text: str
    percent: float
    anchor: str  # start, middle or end: a label at an edge stays inside
    is_extra: bool  # left out where there is little room


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    id: str
    title: str
    about: str  # what a bar is
    description: str  # what it shows, in words
    unit: str
    x_title: str
    bars: tuple[Bar, ...]
    hits: tuple[Hit, ...]
    lines: tuple[Line, ...]
    legend: tuple[tuple[str, str], ...]  # CSS class and name of each series that occurs
    y_labels: tuple[str, ...]  # from the top
    x_labels: tuple[Label, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # the newest first

    @property
    def is_empty(self) -> bool:
        return not self.bars


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The words of a chart."""

    id: str
    title: str
    about: str
    description: str
    unit: str
    x_title: str
    series: Mapping[str, str]  # names by CSS class, of parts and markers
    head: tuple[str, ...]


def bar_chart(columns: Sequence[Column], words: About, *, show: Callable[[float], str], is_time: bool = False) -> Chart:
    """`columns` oldest first; they fill the width from edge to edge."""
    top = max((sum(value for _, value in c.parts) for c in columns), default=0.0)
    scale = (round_seconds if is_time else round_number)(top)
    step = WIDTH / max(len(columns), 1)
    width = min(step, WIDTH / _LEAST_COLUMNS) * 0.78
    bars: list[Bar] = []
    for i, column in enumerate(columns):
        filled = 0.0
        for css, value in column.parts:
            height = max(0.8, value / scale * HEIGHT) if value > 0 else 0.0  # small values stay visible
            if height:
                x, y = (i + 0.5) * step - width / 2, max(0.0, HEIGHT - filled - height)
                bars.append(Bar(css=css, x=_at(x), y=_at(y), width=_at(width), height=_at(height)))
            filled += height
    return Chart(
        id=words.id,
        title=words.title,
        about=words.about,
        description=words.description,
        unit=words.unit,
        x_title=words.x_title,
        bars=tuple(bars),
        hits=tuple(Hit(x=_at(i * step), width=_at(step), tip=c.tip) for i, c in enumerate(columns)),
        lines=tuple(Line(css=c.marker, x=_at((i + 0.5) * step)) for i, c in enumerate(columns) if c.marker is not None),
        legend=_legend(columns, words.series),
        y_labels=(show(scale), show(scale / 2) if scale > 1 else "", "0"),
        x_labels=_x_labels([c.label for c in columns]),
        head=words.head,
        rows=tuple(c.cells for c in reversed(columns)),
    )


def _legend(columns: Sequence[Column], series: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    drawn = {css.split()[-1] for column in columns for css, value in column.parts if value > 0}
    drawn |= {column.marker for column in columns if column.marker is not None}
    return tuple((css, name) for css, name in series.items() if css in drawn)


def _x_labels(texts: Sequence[str]) -> tuple[Label, ...]:
    """At most five, each below its column; where there is little room every second one, or only the two ends."""
    last, labels = len(texts) - 1, []
    shown = min(len(texts), _X_LABELS)
    for i in range(shown):
        place = round(i * last / (shown - 1)) if shown > 1 else 0
        percent = _at((place + 0.5) / len(texts) * 100)
        anchor = "start" if percent < 8 else "end" if percent > 92 else "middle"
        percent = {"start": 0.0, "end": 100.0}.get(anchor, percent)
        is_extra = i in ((1, 3) if shown == _X_LABELS else (1, 2) if shown == 4 else ())
        labels.append(Label(text=texts[place], percent=percent, anchor=anchor, is_extra=is_extra))
    return tuple(labels)


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
