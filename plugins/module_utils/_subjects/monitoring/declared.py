# SPDX-License-Identifier: GPL-3.0-or-later
"""``fleet_monitoring``: which host collects the fleet's metrics, and who is told of alerts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from ..._base import secret_files, worded
from ..._base.addresses import is_network, wrong_listen
from ..._base.findings import Finding, error, unknown_host
from ..._base.forms import forms
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._engines.placed import Host
from ..fleet.subject import Claims, DeclareContext, Port

PLACE = Place(variable="fleet_monitoring")
MONITORING = forms("monitoring")["monitoring"]


Email = TypedDict(
    "Email", {"to": str, "from": str, "smarthost": str, "username": NotRequired[str], "password_file": NotRequired[str]}
)


class Alerts(TypedDict, total=False):
    """Who is told of alerts; each file is one of the controller."""

    email: Email
    webhook_url_file: str
    webhook_token_file: str
    ntfy_url_file: str


class MonitoringDeclared(TypedDict):
    """``fleet_monitoring``, checked and completed by `decide`."""

    host: str
    listen: str
    port: int
    retention_days: int
    first_token_s: float
    addresses: list[str]
    alerts: Alerts


def decide(monitoring: MonitoringDeclared, context: DeclareContext) -> Iterator[Finding]:
    """Complete a checked ``fleet_monitoring``: files become absolute, ``addresses`` is there, figures that nobody wrote
    are GB10's."""
    monitoring.setdefault("retention_days", fact("monitoring", "retention_days"))
    monitoring.setdefault("first_token_s", fact("monitoring", "first_token_s"))
    name = monitoring["host"]
    if name not in context.hosts:
        yield unknown_host(PLACE.below("host"), name, context.hosts)
        return
    yield from wrong_listen(PLACE, monitoring["listen"])
    yield from _addresses(monitoring, context.hosts[name].address)
    yield from _files(monitoring["alerts"], context.folder)


def claims(monitoring: MonitoringDeclared, hosts: Mapping[str, Host]) -> Claims:
    own, remedy = monitoring["host"], "give the other program another port: monitoring has this port"
    exporters = [Port(name, fact("monitoring", "exporter_port"), PLACE, remedy) for name in sorted(hosts)]
    alerts = Port(own, fact("monitoring", "alertmanager_port"), PLACE, remedy)
    return Claims([*exporters, Port(own, monitoring["port"], PLACE.below("port")), alerts])


def _addresses(monitoring: MonitoringDeclared, address: str) -> Iterator[Finding]:
    """The packet filter of a host knows addresses alone."""
    is_written = "addresses" in monitoring
    monitoring.setdefault("addresses", [address])
    for one in monitoring["addresses"]:
        if not is_network(one):
            at = PLACE.below("addresses") if is_written else PLACE.below("host")
            found = f"{one} is no address" if is_written else f"ansible_host is {one}, a name"
            yield worded.error("input-monitoring-address", at, found=found)


def _files(alerts: Alerts, folder: Path) -> Iterator[Finding]:
    holders: dict[str, Any] = {
        "webhook_url_file": alerts,
        "webhook_token_file": alerts,
        "ntfy_url_file": alerts,
        "password_file": alerts.get("email", {}),
    }
    if "webhook_token_file" in alerts and "webhook_url_file" not in alerts:
        place, expected = PLACE.below("alerts", "webhook_token_file"), "webhook_url_file beside it"
        found, remedy = "a token, and no webhook that asks for it", "write webhook_url_file, or take the token out"
        yield error("input-monitoring-file", place, found=found, expected=expected, remedy=remedy)
    for key, holder in holders.items():
        if key not in holder:
            continue
        path, is_email = folder / holder[key], holder is not alerts
        holder[key] = str(path)
        place = PLACE.below("alerts", *(["email"] if is_email else []), key)
        what = "the password alone" if is_email else "the token alone" if "token" in key else "one URL, in one line"
        rule, expected = "input-monitoring-file", what
        make = f"(umask 077; mkdir -p {path.parent}; cat > {path})"
        text = yield from secret_files.named(rule, place, path, expected=expected, remedy=make)
        if text is not None and len(text.split()) != 1:
            found = f"{path} holds {len(text.split())} words"
            yield error(rule, place, found=found, expected=expected, remedy="write nothing but it into the file")
