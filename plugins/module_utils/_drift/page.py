# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""``report.html``: one page for the fleet, for the morning after. One file without scripts that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._drift.report import summary

_WORDS = {"clean": "as declared", "drift": "drift", "unknown": "could not tell"}
# A sign beside the colour: not everybody sees the colours.
_SIGNS = {"clean": "✓", "drift": "✗", "unknown": "?"}
_SEVERITIES = ("error", "warning", "hint")
_SHOWN_NIGHTS = 30
_BAR_WIDTH = 200
_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --page: #ffffff; --line: #d0d7de; --band: #f6f8fa;
  --error: #b3261e; --warning: #8a5300; --hint: #0b5cad; --clean: #1a7040; --drift: #b3261e; --unknown: #6b3fa0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #a3adb8; --page: #0d1117; --line: #3d444d;
  --band: #161b22; --error: #ff8d85; --warning: #f0b35b; --hint: #79b8ff; --clean: #6fdd8b; --drift: #ff8d85;
  --unknown: #cda9ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1.5rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--page); }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1.1rem; margin: 1.25rem 0 .5rem; } h4 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
a { color: var(--hint); } a:focus-visible, summary:focus-visible, [tabindex]:focus-visible
  { outline: 3px solid var(--hint); outline-offset: 2px; border-radius: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--page); padding: .5rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; }
th, td { text-align: left; padding: .35rem 2rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { font-weight: 400; color: var(--soft); } tbody th, time { white-space: nowrap; }
td { min-width: 4rem; max-width: 36rem; overflow-wrap: break-word; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.error { color: var(--error); } .warning { color: var(--warning); } .hint { color: var(--hint); }
.clean { color: var(--clean); } .drift { color: var(--drift); } .unknown { color: var(--unknown); }
.error, .warning, .hint, .clean, .drift, .unknown { font-weight: 600; }
td .clean, td .drift, td .unknown { white-space: nowrap; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; background: var(--band); }
summary { cursor: pointer; padding: .6rem .8rem; list-style-position: inside; }
summary > span { display: inline-flex; flex-wrap: wrap; gap: 0 .75rem; width: calc(100% - 1.5rem);
  vertical-align: top; }
summary .severity { min-width: 4.75rem; } summary time { margin-left: auto; }
details > div { padding: 0 .8rem .8rem 1.9rem; }
dl { display: grid; grid-template-columns: 4.75rem 1fr; gap: .15rem .75rem; margin: 0; } dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; } code, pre { font: .875rem/1.45 ui-monospace, monospace; }
pre { overflow: auto; max-height: 24rem; border: 1px solid var(--line); border-radius: 4px; margin: .6rem 0 0;
  padding: .5rem; background: var(--page); }
svg { display: block; margin-top: .4rem; } rect { fill: currentColor; }
@media (max-width: 40rem) { body { padding: 1rem; } th, td { padding-right: 1rem; }
  details > div { padding-left: .8rem; } summary time { margin-left: 0; } }
@media print { details > div { display: block; } }
"""


def page(document: Mapping[str, Any], nights: Sequence[Mapping[str, Any]]) -> str:
    """The whole page. nights: as `_drift.history` keeps them, the newest last."""
    body = "\n".join(_body(document, nights[-_SHOWN_NIGHTS:]))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Drift: {_headline(document)[0]}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _body(document: Mapping[str, Any], nights: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield '<a class="skip" href="#findings">To the findings</a>'
    verdict, (headline, counts) = document["verdict"], _headline(document)
    yield f'<header><h1 class="{verdict}"><span aria-hidden="true">{_SIGNS[verdict]}</span> {headline}</h1>'
    yield f'<p>{escape(counts)}</p><p class="soft">Drift check of {_time(document["generated"])}</p></header><main>'
    yield from _hosts(document)
    yield from _unknown(document["unknown"])
    yield from _findings(document)
    yield from _accepted(document["accepted"])
    yield from _trend(nights)
    yield "</main>"


def _headline(document: Mapping[str, Any]) -> tuple[str, str]:
    """The verdict in words, and the counts: `_drift.report.summary` in two parts."""
    said, _, counts = summary(document).removeprefix("drift: ").rpartition(": ")
    return said[0].upper() + said[1:], counts


def _verdict(verdict: str) -> str:
    return f'<span class="{verdict}"><span aria-hidden="true">{_SIGNS[verdict]}</span> {_WORDS[verdict]}</span>'


def _time(text: str) -> str:
    return f'<time datetime="{escape(text)}">{escape(text.replace("T", " ").replace("Z", " UTC"))}</time>'


def _table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()
) -> Iterator[str]:
    """A section with one table; cells are HTML, the first of each row its heading."""
    kind = [' class="number"' if column in numbers else "" for column in range(len(heads))]
    yield f"<section><h2>{caption}</h2>"
    yield f'<div class="scroll" tabindex="0" role="group" aria-label="{caption}"><table><thead><tr>'
    yield "".join(f'<th scope="col"{kind[column]}>{head}</th>' for column, head in enumerate(heads))
    yield "</tr></thead><tbody>"
    for row in rows:
        cells = "".join(f"<td{kind[column]}>{cell}</td>" for column, cell in enumerate(row) if column)
        yield f'<tr><th scope="row">{row[0]}</th>{cells}</tr>'
    yield "</tbody></table></div></section>"


def _ordered(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The hosts, those with most to do first."""
    return sorted(document["hosts"], key=lambda one: (*(-one[name] for name in _SEVERITIES), one["host"]))


def _hosts(document: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        [_link(document, one), _verdict(one["verdict"]), *(_number(one[name]) for name in _SEVERITIES)]
        for one in _ordered(document)
    ]
    yield from _table("Hosts", ("host", "state", "errors", "warnings", "hints"), rows, (2, 3, 4))


def _number(count: int) -> str:
    """Nothing to do is not to catch the eye."""
    return str(count) if count else '<span class="soft">0</span>'


def _link(document: Mapping[str, Any], host: Mapping[str, Any]) -> str:
    name = escape(host["host"])
    has_findings = any(finding["host"] == host["host"] for finding in document["findings"])
    return f'<a href="#host-{name}">{name}</a>' if has_findings else name


def _trend(nights: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The last checks, the newest first: how much there was to do, as numbers and as a bar."""
    if not nights:
        return
    totals = [[sum(host[name] for host in night["hosts"].values()) for name in _SEVERITIES] for night in nights]
    most = max(1, *(sum(total) for total in totals))
    rows = [
        [_time(night["at"]), _verdict(night["verdict"]), *map(_number, total), _bar(total, most)]
        for night, total in zip(reversed(nights), reversed(totals), strict=True)
    ]
    yield from _table("The last checks", ("when", "state", "errors", "warnings", "hints", "findings"), rows, (2, 3, 4))


def _bar(total: Sequence[int], most: int) -> str:
    """As wide as there are findings, the severities beside each other."""
    ends = [round(_BAR_WIDTH * sum(total[: index + 1]) / most) for index in range(len(total))]
    parts = "".join(
        f'<rect class="{name}" x="{start}" width="{end - start}" height="12"></rect>'
        for name, start, end in zip(_SEVERITIES, [0, *ends], ends, strict=False)
    )
    return f'<svg width="{_BAR_WIDTH}" height="12" role="img" aria-label="{sum(total)}">{parts}</svg>'


def _findings(document: Mapping[str, Any]) -> Iterator[str]:
    yield '<section id="findings"><h2>Findings</h2>'
    if not document["findings"]:
        yield f"<p>Nothing{' that could be read' if document['unknown'] else ''} differs from what is declared.</p>"
    for host in (escape(one["host"]) for one in _ordered(document)):
        mine = [finding for finding in document["findings"] if escape(finding["host"]) == host]
        if mine:
            yield f'<h3 id="host-{host}">{host}</h3>'
        for finding in mine:
            yield from _finding(finding)
    yield "</section>"


def _finding(finding: Mapping[str, Any]) -> Iterator[str]:
    severity = finding["severity"]
    yield f'<details open><summary><span><span class="severity {severity}">{severity}</span>'
    yield f'<h4>{escape(finding["resource"])}</h4><code class="soft">{escape(finding["rule"])}</code>'
    yield f'<time class="soft">since {escape(finding["since"][:10])}</time></span></summary><div><dl>'
    for label in ("want", "have", "reason", "remedy", "source"):
        if finding[label]:
            text = escape(finding[label])
            yield f"<dt>{label}</dt><dd>{f'<code>{text}</code>' if label in ('want', 'have') else text}</dd>"
    yield "</dl>"
    if finding["diff"]:
        yield f'<pre tabindex="0" role="group" aria-label="difference">{escape(finding["diff"])}</pre>'
    yield "</div></details>"


def _unknown(unknown: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if unknown:
        rows = [[escape(one["host"]), escape(one["part"]), escape(one["why"])] for one in unknown]
        yield from _table("Could not be read", ("host", "what", "why"), rows)


def _accepted(accepted: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if accepted:
        rows = [
            [
                escape(one["host"]),
                escape(one["resource"]),
                escape(one["have"]),
                escape(one["accepted"]),
                escape(one["until"]),
            ]
            for one in accepted
        ]
        yield from _table("Accepted", ("host", "resource", "have", "reason", "until"), rows)
