"""plot.py: line charts as SVG, side by side, drawn by gnuplot: both axes logarithmic, a mark at each
point."""
import subprocess

WIDTH, HEIGHT = 330, 230


def quoted(text):
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def chart(title, x_name, y_name, series, labels):
    """Commands for one chart. series: name -> [(x, y)], in the order of x. labels: of x values that
    should not be called by their number."""
    values = sorted({x for line in series.values() for x, _ in line})
    highs = [y for line in series.values() for _, y in line]
    # A factor of 2 at least, so that noise looks like noise.
    room = max(1.15, (2 * min(highs) / max(highs))**0.5)
    ticks = ", ".join(f"{quoted(labels[x])} {x}" if x in labels else f"{x}" for x in values)
    yield f"set title {quoted(title)}; set xlabel {quoted(x_name)}; set ylabel {quoted(y_name)}"
    yield f"set xrange [{values[0] / 1.15}:{values[-1] * 1.15}]; set xtics ({ticks})"
    yield f"set yrange [{min(highs) / room}:{max(highs) * room}]"
    lines = [f"'-' with linespoints pt 7 ps 0.5 title {quoted(name)}" for name in series]
    yield "plot " + ", ".join(lines)
    for line in series.values():
        yield from (f"{x} {y}" for x, y in line)
        yield "e"


def write(path, title, rows):
    """rows: lists of (title, x name, y name, series, labels), one list for each row of charts."""
    n_columns = max(len(row) for row in rows)
    commands = [
        f"set terminal svg size {WIDTH * n_columns},{HEIGHT * len(rows) + 30} noenhanced font 'sans,10'",
        f"set output {quoted(path)}", "set logscale xy; set grid; set format x '%.0s%c'",
        "set format y '%.1s%c'; set key top left",
        f"set multiplot layout {len(rows)},{n_columns} title {quoted(title)}"
    ]
    for row in rows:
        for at in range(n_columns):
            commands += chart(*row[at]) if at < len(row) else ["set multiplot next"]
    subprocess.run(["gnuplot"], input="\n".join([*commands, "unset multiplot", ""]), text=True, check=True)
