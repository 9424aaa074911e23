"""A bar chart of ratios as SVG: the best peer's time over ours, on a logarithmic axis."""

import math

BAR, GAP, LEFT, WIDTH, TOP = 14, 4, 270, 900, 40
LEAST, MOST = 0.25, 64.0


def place(ratio):
    ratio = min(max(ratio, LEAST), MOST)
    return LEFT + (WIDTH - LEFT - 60) * math.log(ratio / LEAST) / math.log(MOST / LEAST)


def chart(results):
    """The chart for `[((name, bytes, flops), {peer: microseconds})]`."""
    bars = []
    for (name, _, _), times in results:
        theirs = [t for peer, t in times.items() if peer != "ours" and t]
        if theirs:
            bars.append((name, min(theirs) / times["ours"]))
    height = TOP + len(bars) * (BAR + GAP) + 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="16" font-size="13">Best peer\'s time over ours (right of 1: we are faster)</text>',
    ]
    tick = LEAST
    while tick <= MOST:
        x, colour = place(tick), "#333" if tick == 1 else "#ddd"
        out.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 16}" stroke="{colour}"/>')
        out.append(f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">{tick:g}</text>')
        tick *= 2
    for i, (name, ratio) in enumerate(bars):
        y, one, end = TOP + i * (BAR + GAP), place(1), place(ratio)
        colour = "#2a7f62" if ratio >= 1 else "#b5543c"
        out.append(f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{name.replace(">", "&gt;")}</text>')
        out.append(
            f'<rect x="{min(one, end):.1f}" y="{y}" width="{abs(end - one):.1f}" height="{BAR}" fill="{colour}"/>'
        )
        out.append(f'<text x="{max(one, end) + 4:.1f}" y="{y + 11}">{ratio:.2f}</text>')
    return "\n".join([*out, "</svg>", ""])
