# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for a person to read, and for a machine."""

import json
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._base.findings import Severity
from .._base.gb10 import cited_in, data_table
from .._base.plan import (
    ClientPlan,
    Explained,
    FindingRow,
    GatewayPlan,
    Measured,
    Plan,
    PlannedImage,
    Pool,
    ServicePlan,
    ServiceSpeed,
    Speed,
    SummaryRow,
)
from .._base.ranks import front_of, rank_of
from .._base.report import table
from .._base.sizes import size
from .._base.slice import Interface, MemoryLine, ServiceSlice, Slice
from .._engines.registry import ENGINES
from .._engines.starts import SEEN
from .._stores.lock.file import NAME
from .container import docker_exec, docker_run

WIDTH = 120
# The lines of a budget, from the model outwards.
_LINES: tuple[str, ...] = data_table("memory_lines")
_LABELS = ("found", "expected", "reason", "remedy", "source")
_MOST_PLACES = 6
_TO_DO = "what to do"
_UNPINNED = f"kept in {NAME} as the first run brings it"
_BRIEF_S = 180  # a start under it is shown in seconds
_WIDE = 110  # columns that the whole table needs
_WORST_FIRST: tuple[Severity, ...] = ("error", "warning", "hint")
_STATES: Mapping[str, str] = data_table("recipe_states")


def as_json(plan: Plan) -> str:
    """One document, keys sorted: the braces of the outermost map stand at the beginning of a line."""
    return json.dumps(plan, indent=2, sort_keys=True)


def concerning(plan: Plan, hosts: Sequence[str]) -> list[FindingRow]:
    """The findings that concern a run on these hosts: of the fleet, of the hosts, of the services placed on them."""
    chosen = set(hosts)
    return [finding for finding in plan["findings"] if not finding["hosts"] or chosen & set(finding["hosts"])]


def as_text(plan: Plan, hosts: Sequence[str], width: int = WIDTH, explain: str | None = None) -> str:
    """What is decided for these hosts and the services placed on them: a table, the findings, then the details.

    A plan that is refused ends with its errors, where a person's eye is when the page has gone by.
    width: columns that nothing exceeds but a word that can't be broken. explain: the one service or host whose details
    are wanted, empty for none of them; all without it.
    """
    findings = concerning(plan, hosts)
    chosen = [name for name, service in plan["services"].items() if set(service["hosts"]) & set(hosts)]
    rows = [row for row in plan["summary"] if set(row["hosts"]) & set(hosts)]
    refused = any(finding["severity"] == "error" for finding in findings)
    wanted = [name for name in chosen if explain in (None, name)]
    looked_at = [name for name in hosts if explain in (None, name) and not (refused and _is_empty(plan["hosts"][name]))]
    details = ["\n".join(_gateway(plan["gateway"], width))] if plan["gateway"] and explain is None else []
    details += ["\n".join(_clients(plan["clients"], width))] if plan["clients"] and explain is None else []
    details += ["\n".join(_service(name, plan, hosts, width)) for name in wanted]
    details += ["\n".join(_host(name, plan["hosts"][name], width)) for name in looked_at]
    if not explain and explain is not None and chosen:
        details.append(
            "each value with its reason, and the commands: the same with -v, or -e explain=NAME of a service or host"
        )
    found = "\n".join(_findings(findings, width, worst_last=refused))
    details.append("\n".join(_sources("\n".join([found, *details]), width)))
    parts = ["\n".join(summary(rows, width)), *([*details, found] if refused else [found, *details])]
    if findings and not refused:
        parts.append(f"{_counts(findings)}, above")
    return "\n" + "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _sources(text: str, width: int) -> Iterator[str]:
    cited = cited_in(text)
    if cited:
        yield _heading("sources")
        yield from (_wrapped(f"{name}: {where}", width, "  ") for name, where in cited.items())


# The table -----------------------------------------------------------------------------------------------------------


def summary(rows: Sequence[SummaryRow], width: int) -> Iterator[str]:
    """One line a service; on a narrow page what is to do stands below."""
    cells = [_summary(row) for row in rows]
    if width >= _WIDE:
        yield table(cells, width)
        return
    yield table([{name: cell for name, cell in row.items() if name != _TO_DO} for row in cells], width)
    yield from (_wrapped(f"{row['service']}: {row[_TO_DO]}", width, "  ") for row in cells)


def _summary(row: SummaryRow) -> dict[str, str]:
    requests, free = row["requests"], row["free_bytes"]
    return {
        "service": row["service"],
        "on": ", ".join(row["hosts"]),
        "fits?": {"unknown": "not known", "refused": "not planned"}.get(row["fits"], row["fits"]),
        "at once": f"{requests:.1f} x {row['context']:,}" if requests else "-",
        "free": "-" if free is None else size(free) if free >= 0 else f"{size(-free)} short",
        "download": _download(row),
        "first start": _start(row),
        _TO_DO: _to_do(row),
    }


def _download(row: SummaryRow) -> str:
    if row["fits"] == "refused":
        return "-"
    return "not known" if row["download_bytes"] is None else size(row["download_bytes"])


def _start(row: SummaryRow) -> str:
    if row["start_limit_s"] is None:
        return "-"
    measured, between = row["first_start_s"], row["start_s"]
    if measured is not None and not (row["start_by"] or "").startswith(SEEN):
        return f"about {-(-measured // 60):.0f} min"
    if between is None:
        return f"up to {row['start_limit_s'] // 60} min"
    return _between(*between)


def _between(low: int, high: int) -> str:
    return f"{low} to {high} s" if high < _BRIEF_S else f"{low // 60} to {-(-high // 60)} min"


def _to_do(row: SummaryRow) -> str:
    known = (("error", row["errors"]), ("warning", row["warnings"]))
    counts = [_count(number, what) for what, number in known if number]
    if not counts:
        return "nothing"
    return f"{' and '.join(counts)} below; first: {row['remedy']}" if row["remedy"] else f"{' and '.join(counts)} below"


def _heading(text: str) -> str:
    return f"{text}\n{'=' * len(text)}"


def _key(name: str, services: Sequence[ServiceSlice]) -> str:
    key = next(service["key"] for service in services if service["name"] == name)
    if key is None:
        return "none: everybody who reaches the endpoint may use it (open: true)"
    return f"{key['source']} on this machine" + (", made by the first run" if key["made"] else "")


def _tls(name: str, services: Sequence[ServiceSlice]) -> str:
    tls = next(service["tls"] for service in services if service["name"] == name)
    if tls is None:
        return "none: a listener on the way reads key and answers (tls: local)"
    if tls["ca"]:
        return f"by the local CA, which clients trust: {tls['ca']}"
    return f"{tls['certificate']['source']} on this machine"


def _gateway(gateway: GatewayPlan, width: int) -> Iterator[str]:
    yield _heading(f"gateway on {', '.join(gateway['hosts'])}")
    yield f"endpoint   {gateway['url']}   model: one of those below"
    if gateway["address"]:
        yield f"address    {gateway['address']}, of one of them; another host takes it when that is lost"
    yield _wrapped(f"clients    those of {gateway['clients']} on this machine, each with its key", width, " " * 11)
    trusted = f"by the local CA, which clients trust: {gateway['ca']}" if gateway["ca"] else "a certificate of yours"
    yield _wrapped(f"TLS        {trusted}", width, " " * 11)
    sources = ", ".join(gateway["addresses"])
    yield _wrapped(f"behind it  the services below, whose hosts let in {sources} alone", width, " " * 11)
    yield table(
        [
            {
                "model": row["model"],
                "also called": ", ".join(row["aliases"]) or "-",
                "by": ", ".join(row["services"]),
                "at once": str(row["slots"]),
                "then wait": str(gateway["queue"]),
                "context": f"{row['context']:,}" if row["context"] else "-",
            }
            for row in gateway["models"]
        ],
        width,
    )


def _clients(clients: Sequence[ClientPlan], width: int) -> Iterator[str]:
    yield _heading("clients of the gateway")
    rows = [
        {
            "client": client["client"],
            "kind": client["kind"],
            "address": client["address"],
            "sends the key of": client["key"],
            "first account": client["account"] or "-",
            "at most": size(client["memory_limit_bytes"]),
        }
        for client in clients
    ]
    yield table(rows, width)
    for client in clients:
        what = "password of its first account" if client["account"] else "key of its API"
        yield _wrapped(f"{client['client']}: {what} in {client['secret']} on this machine", width, "  ")


# A service ----------------------------------------------------------------------------------------------------------


def _service(name: str, plan: Plan, hosts: Sequence[str], width: int) -> Iterator[str]:
    service = plan["services"][name]
    yield _heading(f"service {name}: {service['recipe']} on {', '.join(service['hosts'])}")
    front = front_of(plan, name)
    yield f"endpoint   {front['url'] if front else service['endpoint']}   model {service['served_name']}"
    own_key = _key(name, plan["hosts"][service["hosts"][0]]["services"])
    yield "API key    " + (f"of a client of the gateway, in {front['clients']}" if front else own_key)
    yield f"TLS        {_tls(name, plan['hosts'][service['hosts'][0]]['services'])}"
    yield from _recipe(service, width)
    yield _image(service["image"], ENGINES[service["engine"]].spec.title)
    if between := service["costs"]["start_s"]:
        yield f"start      {_between(*between)}, {service['costs']['start_by']}"
    yield from _cache(service["kv"], width)
    here = [host for host in service["hosts"] if host in hosts]
    for host in here:
        yield f"\nmemory on {host} ({_role(host, service)})"
        yield table([*_memory(plan["hosts"][host]["memory"][name])], width)
    yield "\nvalues"
    yield table([*_values(service["explain"])], width)
    shown: list[str] = []
    for host in here:
        rank = rank_of(plan, name, host)
        lines = _command(docker_run(rank["container"]), service["image"]["reference"])
        other = [line for line in lines if line not in shown] if shown else lines
        same = f", as on {here[0]} but for" if shown else ""
        yield f"\ncommand on {host} ({_role(host, service)}){same}"
        yield "\n".join(other)
        shown = shown or lines
        if rank["exec"]:
            yield "and in it, once all ranks have joined"
            yield "\n".join(_command(docker_exec(rank["container"]["name"], rank["exec"]), ""))


def _recipe(service: ServicePlan, width: int) -> Iterator[str]:
    """Who says that it works, what else he says, and what he has measured."""
    reported = service["reported"]
    indent = " " * 11
    where = ", ".join(word for word in (reported["when"], reported["hardware"]) if word)
    state = f"{service['recipe']}, {service['status']} by {reported['by']}, {where}: {_STATES[service['status']]}"
    yield _wrapped(f"recipe     {state}", width, indent)
    if reported["image"] != service["image"]["reference"]:
        yield _wrapped(f"{indent}with another image, {reported['image']}", width, indent)
    if reported["note"]:
        yield _wrapped(f"{indent}{reported['note']}", width, indent)
    yield from _speed(service["speed"], width)
    for label, row in sorted(((_label(row, service), row) for row in service["measured"]), key=_of_label):
        known = row.get("drafts") and not row.get("accepted") and row["what"] == "decode"
        drafts = f"; {row.get('drafts')} drafts, no acceptance stated" if known else ""
        drafts += "" if row.get("hosts") else "; number of hosts not stated"
        shown = f"{row['what']} {row['value']:g} {row['unit']} ({row['conditions']}{drafts}); {row['source']}"
        yield _wrapped(f"{label:<11}{shown}", width, indent)


# Whose figures a recipe names: of a service like this one, of an older release, of another number of hosts.
_LABEL_ORDER = ("measured", "older", "elsewhere")


def _of_label(labelled: tuple[str, Measured]) -> int:
    return _LABEL_ORDER.index(labelled[0])


def _label(row: Measured, service: ServicePlan) -> str:
    if row.get("hosts") != len(service["hosts"]):
        return "elsewhere"
    ours, theirs = (_minor(release) for release in (service["image"]["release"], row.get("release")))
    return "older" if ours and theirs and theirs < ours else "measured"


def _minor(release: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", release or "")
    return (int(found[1]), int(found[2])) if found else None


def _speed(speed: ServiceSpeed | None, width: int) -> Iterator[str]:
    """What is forecast: nobody has measured it."""
    indent = " " * 11
    if speed is None:
        return
    alone, together = speed["alone"], speed["together"]
    text = f"speed      {_rate(alone)}; the memory's limit {_few(alone['limit'])}"
    if together:
        text += f". {together['requests']} at once: {_rate(together)} each"
    first = f"{alone['ttft_s']:.2g} s, {alone['ttft_low']:.2g} to {alone['ttft_high']:.2g}"
    yield _wrapped(f"{text}. First token of {speed['prompt']:,}: {first}", width, indent)
    if own := speed["own"]:
        more = f". {own['together']['requests']} at once: {_rate(own['together'])} each" if own["together"] else ""
        day = own["record"]["runs"][-1]["at"][:10]
        doubt = "" if own["sound"] else "; slower than a sound machine: doctor.yml says more"
        yield _wrapped(f"benchmark  {_rate(own['alone'])}{more}; by its own of {day}{doubt}", width, indent)
    if speed["pays"]:
        alone = own["alone"] if own and own["sound"] else alone
        guess = "about " if alone["assumed"] else ""
        of_step = f"a step takes {alone['step_ms']:.3g} ms and gives {guess}{alone['accepted']:.2g} tokens"
        yield _wrapped(f"{indent}{of_step}; drafts pay from {speed['pays']:.2g} on", width, indent)


def _rate(speed: Speed) -> str:
    return f"{_few(speed['decode'])} tok/s, {_few(speed['low'])} to {_few(speed['high'])}"


def _few(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"


def _role(host: str, service: ServicePlan) -> str:
    if len(service["hosts"]) == 1:
        return "solo"
    return "head" if host == service["hosts"][0] else "worker"


def _image(image: PlannedImage, title: str) -> str:
    release = f"{title} {image['release']}" if image["release"] else f"its {title} isn't known"
    return f"image      {image['reference']}, {release}, {image['digest'] or _UNPINNED}"


def _cache(kv: Pool, width: int) -> Iterator[str]:
    indent = " " * 11
    if not kv["has_cache"]:
        yield "KV pool    none: this model keeps nothing of a token"
        return
    if not kv["tokens"]:
        yield "KV pool    not known before the first boot"
        return
    about = "" if kv["exact"] else "about "
    requests = f"{kv['max_concurrency']:.2f} requests of {kv['context']:,} tokens at once"
    pool = f"KV pool    {about}{size(kv['bytes'])} a rank: {requests}, {size(kv['bytes_per_request'])} each"
    yield _wrapped(pool, width, indent)
    if not kv["exact"] and kv["tokens_high"]:
        low, high = (
            bound * (kv["max_concurrency"] or 0) / kv["tokens"] for bound in (kv["tokens_low"] or 0, kv["tokens_high"])
        )
        yield f"{indent}between {low:.2f} and {high:.2f} of them, exact after the first boot"
    if kv["assumed"]:
        settled = "verify compares the pool with the engine's own line after the first boot"
        yield _wrapped(f"assumed    of its config.json: {kv['assumed']}; {settled}", width, indent)
    if kv["prefix_unit"]:
        shown = f"prefix     a beginning that prompts share is computed once from {kv['prefix_unit']:,} tokens on"
        yield _wrapped(f"{shown}; a shorter one is computed for each", width, indent)
    if kv["with_rest"]:
        more, pool = kv["with_rest"]["max_concurrency"], size(kv["with_rest"]["bytes"])
        yield f"idle       with pool: rest it would be {pool}, and {more:.2f} of them"


def _memory(lines: Mapping[str, MemoryLine]) -> Iterator[dict[str, str]]:
    for name in _LINES:
        if name in lines:
            line = lines[name]
            bounds = f"{size(line['low'])} to {size(line['high'])}" if line["low"] != line["high"] else ""
            what = {"kv_pool": "KV pool", "co_tenants": "co-tenants"}.get(name, name)
            yield {"line": what, "expected": size(line["expected"]), "bounds": bounds, "from": line["source"]}


def _values(rows: Sequence[Explained]) -> Iterator[dict[str, str]]:
    for row in rows:
        shown = f"--{row['name']}" if row["kind"] == "flag" else row["name"]
        yield {"value of": shown, "is": _shown(row["value"]), "by": row["origin"], "because": row["reason"]}


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _command(words: Sequence[str], image: str) -> list[str]:
    """Lines to be read, and to be pasted: an option with its value a line, and the image with what it gets first."""
    lines: list[list[str]] = [[]]
    for word in words:
        if (word.startswith("-") or word == image) and lines[-1]:
            lines.append([])
        lines[-1].append(word)
    last = len(lines) - 1
    texts = [f"  {'  ' if number else ''}{shlex.join(line)}" for number, line in enumerate(lines)]
    return [text if number == last else f"{text} \\" for number, text in enumerate(texts)]


# A host -------------------------------------------------------------------------------------------------------------


def _host(name: str, host: Slice, width: int) -> Iterator[str]:
    yield _heading(f"host {name}")
    if _is_empty(host):
        yield "nothing planned"
    if host["listens"]:
        rows = [
            {"port": str(row["port"]), "address": row["address"], "service": row["service"], "who": row["who"]}
            for row in host["listens"]
        ]
        yield table(rows, width) + "\n"
    if host["fabric"]["interfaces"]:
        yield table([_interface(interface) for interface in host["fabric"]["interfaces"]], width)


def _is_empty(host: Slice) -> bool:
    return not host["listens"] and not host["fabric"]["interfaces"]


def _interface(interface: Interface) -> dict[str, str]:
    peers = [f"{peer['host']} {peer['interface']} {peer['address'] or ''}".strip() for peer in interface["peers"]]
    return {
        "interface": interface["name"],
        "RDMA device": interface["rdma_device"] or "-",
        "address": interface["address"] or "link-local",
        "MTU": str(interface["mtu"] or "left alone"),
        "peers": ", ".join(peers),
    }


# Findings -----------------------------------------------------------------------------------------------------------


def _findings(findings: Sequence[FindingRow], width: int, *, worst_last: bool) -> Iterator[str]:
    if not findings:
        yield "no findings"
        return
    silenced = [finding for finding in findings if finding.get("silenced")]
    others = [finding for finding in findings if not finding.get("silenced")]
    others.sort(key=lambda finding: _WORST_FIRST.index(finding["severity"]), reverse=worst_last)
    yield _heading(_counts(findings))
    for finding in silenced:
        yield _wrapped(f"silenced {finding['rule']}, {finding['place']}: {finding['silenced']}", width, " " * 11)
    yield findings_text(others, width)


def _counts(findings: Sequence[FindingRow]) -> str:
    silenced = sum(bool(finding.get("silenced")) for finding in findings)
    counted = Counter(finding["severity"] for finding in findings if not finding.get("silenced"))
    counts = [_count(counted[name], name) for name in _WORST_FIRST]
    return "findings: " + ", ".join([*counts, *([f"{silenced} silenced"] if silenced else [])])


def findings_text(findings: Sequence[Mapping[str, object]], width: int = WIDTH) -> str:
    """Findings as a person reads them; what is said of several places is said once."""
    return "\n".join(_blocks(findings, width))


def _blocks(findings: Sequence[Mapping[str, object]], width: int) -> Iterator[str]:
    for same in _grouped(findings):
        first = same[0]
        places = [finding["place"] for finding in same[:_MOST_PLACES]]
        more = [f"and {len(same) - _MOST_PLACES} more places"] if len(same) > _MOST_PLACES else []
        yield from (
            _wrapped(f"{first['severity'] if not number else '':<8} {place}", width, " " * 11)
            for number, place in enumerate([*places, *more])
        )
        for label in _LABELS:
            if first.get(label):
                yield _wrapped(f"    {label + ':':<10}{first[label]}", width, " " * 14)
        yield f"    {'rule:':<10}{first['rule']}\n"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _grouped(findings: Sequence[Mapping[str, object]]) -> list[list[Mapping[str, Any]]]:
    """Findings that say the same of several places, together, at the first one's position."""
    groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for finding in findings:
        key = tuple(finding.get(name) for name in ("rule", "severity", *_LABELS))
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def _wrapped(text: str, width: int, indent: str) -> str:
    return textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
