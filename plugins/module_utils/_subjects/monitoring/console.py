# SPDX-License-Identifier: GPL-3.0-or-later
"""A page of Prometheus' own, for who has no Grafana: hosts, services, and what to do about each alert.

It is a template of Prometheus (``/consoles/fleet.html``), without a script, or anything from another server.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape

from ..._base.gb10 import data_table, text_of
from .rules import Alert, alerts, is_recorded

# Heading, PromQL with %s for the labels of the row, how a value is shown.
_COLUMNS_OF_HOSTS: tuple[tuple[str, str, str], ...] = data_table("console_hosts")
_COLUMNS_OF_SERVICES: tuple[tuple[str, str, str], ...] = data_table("console_services")
_HOSTS, _RANKS = 'up{job="host"}', "gb10_service_serving"
# Series of an alert's condition, as ALERTS itself has the value 1.
_FIRING = '({expr}) and ignoring (alertname, alertstate, severity) ALERTS{{alertname="{name}",alertstate="firing"}}'


def page(inventory: str, limits: Mapping[str, object], recorded: Collection[str]) -> str:
    """limits, recorded: as in `rules.alerts`."""
    return text_of(
        "console.html",
        inventory=escape(inventory),
        alerts=_alert_rows(alerts(limits, recorded)),
        hosts=_table(("host",), _HOSTS, _COLUMNS_OF_HOSTS),
        services=_table(("host", "service", "rank"), _RANKS, _of_services(recorded)),
    )


def _of_services(recorded: Collection[str]) -> list[tuple[str, str, str]]:
    return [column for column in _COLUMNS_OF_SERVICES if is_recorded(column[1], recorded)]


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
