"""plot.py: line charts as SVG, side by side: both axes logarithmic, a mark and its value at each point. No library."""
import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 330, 230, 58, 14, 34, 44
COLOURS = ["#1f5fa8", "#b8471b", "#3c7a37", "#6b4a9c"]


def human(value):
    """A few characters for a number: 0.42, 7.5, 4096, 41k, 360M."""
    for limit, factor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= limit:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def scale(values, low, high):
    """Where a value lies between the pixels low and high, on a logarithmic axis with room at its ends. It spans a factor of 2 at least, so
    that noise looks like noise."""
    a, b = math.log(min(values)), math.log(max(values))
    missing = max(0.0, math.log(2) - (b - a))
    a, b = a - missing / 2, b + missing / 2
    a, b = a - 0.08 * (b - a), b + 0.08 * (b - a)
    return lambda value: low + (math.log(value) - a) / (b - a) * (high - low)


def ticks(values):
    """Round numbers within the values; at least the ends. Not more than seven."""
    low, high = min(values), max(values)
    found = [
        m * 10.0**e
        for e in range(math.floor(math.log10(low)) - 1,
                       math.ceil(math.log10(high)) + 1) for m in (1, 1.5, 2, 3, 5, 7)
        if low <= m * 10.0**e <= high
    ]
    while len(found) > 7:
        found = found[::2]
    return found if len(found) >= 2 else [low, high] if high > low else [low]


def panel(title, x_name, y_name, series, labels, left, top):
    """One chart. series: name -> [(x, y)], in the order of x. labels: of x values that should not be called by their number."""
    points = [point for line in series.values() for point in line]
    x_values, y_values = sorted({x for x, _ in points}), [y for _, y in points]
    x_at, y_at = scale(x_values, left + LEFT,
                       left + WIDTH - RIGHT), scale(y_values, top + HEIGHT - BOTTOM, top + TOP)
    out = [f'<text x="{left + LEFT}" y="{top + 18}" class="title">{html.escape(title)}</text>']
    out.append(
        f'<rect x="{left + LEFT}" y="{top + TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}" class="frame"/>'
    )
    for x in x_values:
        out.append(
            f'<line x1="{x_at(x):.1f}" y1="{top + TOP}" x2="{x_at(x):.1f}" y2="{top + HEIGHT - BOTTOM}" class="grid"/>'
        )
        out.append(
            f'<text x="{x_at(x):.1f}" y="{top + HEIGHT - BOTTOM + 14}" class="tick" text-anchor="middle">{labels.get(x, human(x))}</text>'
        )
    for y in ticks(y_values):
        out.append(
            f'<line x1="{left + LEFT}" y1="{y_at(y):.1f}" x2="{left + WIDTH - RIGHT}" y2="{y_at(y):.1f}" class="grid"/>'
        )
        out.append(
            f'<text x="{left + LEFT - 5}" y="{y_at(y) + 3:.1f}" class="tick" text-anchor="end">{human(y)}</text>'
        )
    out.append(
        f'<text x="{left + (LEFT + WIDTH - RIGHT) / 2}" y="{top + HEIGHT - 10}" class="name" text-anchor="middle">{html.escape(x_name)}</text>'
    )
    middle = top + (TOP + HEIGHT - BOTTOM) / 2
    out.append(
        f'<text transform="translate({left + 14},{middle}) rotate(-90)" class="name" text-anchor="middle">{html.escape(y_name)}</text>'
    )
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        out += [
            f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3" fill="{colour}"><title>{human(x)}: {y:.4g}</title></circle>'
            for x, y in line
        ]
        if len(series) > 1:
            out.append(
                f'<text x="{left + WIDTH - RIGHT - 95 * number}" y="{top + TOP - 6}" class="tick" text-anchor="end" fill="{colour}">{html.escape(name)}</text>'
            )
    return out


def write(path, title, rows):
    """rows: lists of (title, x name, y name, series, labels), one list for each row of charts."""
    width, height = WIDTH * max(len(row) for row in rows), HEIGHT * len(rows) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    ]
    out.append(
        "<style>.title{font-size:13px;font-weight:bold}.name{font-size:11px}.tick{font-size:10px}.grid{stroke:#ddd}.frame{fill:none;stroke:#888}</style>"
    )
    out.append(
        f'<rect width="{width}" height="{height}" fill="#fff"/><text x="10" y="20" class="title">{html.escape(title)}</text>'
    )
    for i, row in enumerate(rows):
        for k, chart in enumerate(row):
            out += panel(*chart, WIDTH * k, 30 + HEIGHT * i)
    path.write_text("\n".join([*out, "</svg>"]) + "\n")
