# SPDX-License-Identifier: GPL-3.0-or-later
"""A page of Prometheus' own, for who has no Grafana: hosts, services, and what to do about each alert.

It is a template of Prometheus (``/consoles/fleet.html``), without a script, or anything from another server.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape

from ..._base.gb10 import data_table
from .rules import Alert, alerts, is_recorded

# Heading, PromQL with %s for the labels of the row, how a value is shown.
_COLUMNS_OF_HOSTS: tuple[tuple[str, str, str], ...] = data_table("console_hosts")
_COLUMNS_OF_SERVICES: tuple[tuple[str, str, str], ...] = data_table("console_services")
_HOSTS, _RANKS = 'up{job="host"}', "gb10_service_serving"
# Series of an alert's condition, as ALERTS itself has the value 1.
_FIRING = '({expr}) and ignoring (alertname, alertstate, severity) ALERTS{{alertname="{name}",alertstate="firing"}}'
_STYLE = """\
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; color: #1a1a1a; background: #fff }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .35rem .8rem .35rem 0 }
th { font-weight: 600; color: #555 } tr + tr td { border-top: 1px solid #ddd }
code { background: #f3f3f3; padding: 0 .3rem }
.critical { color: #b00020 } .warning { color: #8a5a00 } .well { color: #1b6e3c }
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #161616 } code { background: #2a2a2a }
th { color: #aaa } .critical { color: #ff6b81 } .warning { color: #e0b050 } .well { color: #6cc58f } }
@media (max-width: 50rem) { body { margin: 1rem; overflow-x: auto } }"""


def page(inventory: str, limits: Mapping[str, object], recorded: Collection[str]) -> str:
    """limits, recorded: as in `rules.alerts`."""
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="30"><title>{escape(inventory)}: gb10.fleet</title>
<style>
{_STYLE}
</style></head>
<body>
<h1>{escape(inventory)}</h1>
<h2>Alerts</h2>
{{{{ if query "ALERTS{{alertstate=\\"firing\\"}}" }}}}
<table><tr><th>alert</th><th>what</th><th>what to do</th></tr>
{_alert_rows(alerts(limits, recorded))}
</table>
{{{{ else }}}}<p class="well">None.</p>{{{{ end }}}}
<h2>Hosts</h2>
{_table(("host",), _HOSTS, _COLUMNS_OF_HOSTS)}
<h2>Services</h2>
{_table(("host", "service", "rank"), _RANKS, _of_services(recorded))}
</body>
</html>
"""


def _of_services(recorded: Collection[str]) -> list[tuple[str, str, str]]:
    return [column for column in _COLUMNS_OF_SERVICES if is_recorded(column[1], recorded)]


def queries(recorded: Collection[str]) -> list[str]:
    """Each query of the page, for all rows."""
    columns = [*_COLUMNS_OF_HOSTS, *_of_services(recorded)]
    return [_HOSTS, _RANKS, *(expr.replace("{%s}", "") for _, expr, _ in columns)]


def _alert_rows(of: Iterable[Alert]) -> str:
    rows = []
    for alert in of:
        what, command = (_of_page(text) for text in (alert.summary, alert.command))
        rows.append(
            f"{{{{ range query {_quoted(_FIRING.format(expr=alert.expr, name=alert.name))} }}}}"
            f'<tr><td class="{alert.severity}">{alert.name}</td><td>{what}</td><td><code>{command}</code></td></tr>'
            "{{ end }}"
        )
    return "\n".join(rows)


def _of_page(text: str) -> str:
    """An alert's words: its labels and its value are the row's."""
    text = escape(text, quote=False).replace("{{ $value", "{{ .Value")
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"{{ .Labels.\1 }}", text)


def _table(labels: Sequence[str], rows: str, columns: Sequence[tuple[str, str, str]]) -> str:
    """labels: of a row's series, which its columns are asked with; requests are those of a service on a host."""
    heads = "".join(f"<th>{name}</th>" for name in (*labels, *(name for name, _, _ in columns)))
    first = "".join(f"<td>{{{{ $row.Labels.{label} }}}}</td>" for label in labels)
    cells = "".join(_cell(labels, expr, shown) for _, expr, shown in columns)
    each = f"{{{{ range query {_quoted(rows)} | sortByLabel {_quoted(labels[0])} }}}}{{{{ $row := . }}}}"
    return f"<table><tr>{heads}</tr>\n{each}<tr>{first}{cells}</tr>\n{{{{ end }}}}</table>"


def _cell(labels: Sequence[str], expr: str, shown: str) -> str:
    asked = [label for label in labels if not (label == "rank" and expr.startswith("gb10:"))]
    form = expr % ",".join(f"{label}=%q" for label in asked)
    values = " ".join(f"$row.Labels.{label}" for label in asked)
    return f"<td>{{{{ with printf {_quoted(form)} {values} | query }}}}{shown}{{{{ else }}}}-{{{{ end }}}}</td>"


def _quoted(text: str) -> str:
    """A text of Go's templates."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
