# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of services at the end of a run: what was proved, or how the ranks do."""

import json
import shlex
import shutil
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, repeat
from types import MappingProxyType
from typing import Any, Literal

from ..._base.causes import by_cause
from ..._base.findings import of_sudo
from ..._base.plan import GatewayPlan, Plan, ServiceSpeed
from ..._base.ranks import front_of, rank_of
from ..._base.reading import State
from ..._base.received import one_line
from ..._base.report import table
from ..._base.sizes import duration, size
from ..._base.slice import ExampleRequest, ServiceSlice
from ..._base.subject import PreflightContext
from ..._engines.speed.served import expected_total, reported_decode
from ..._engines.starts import is_current, last_words, slow_start
from ..._subjects.health.subject import HEALTH
from ..._subjects.system.next_boot import judged
from .gateway import model_rows
from .ranks import SERVING, health, problems

# What a run did to a host that it did not finish. refused: before its first change. untouched: the run ended elsewhere.
# not read: nobody could look, which says nothing of what it serves.
Stopped = Literal["failed", "refused", "not read", "unreachable"]
UNTOUCHED = "untouched"
# More rows that say nothing but why nothing was seen than a person reads through.
_MANY = 24
# What a GPU shows of itself, by the heads of the columns.
_FIGURES = {"use_percent": "use, %", "clock_mhz": "clock, MHz", "power_w": "power, W", "heat_c": "heat, C"}


def end_table(
    plan: Plan,
    services: Sequence[str],
    hosts: Sequence[str],
    verified: Mapping[tuple[str, str], Mapping[str, Any]],
    ranks: Mapping[tuple[str, str], Mapping[str, Any]],
    stopped: Mapping[str, tuple[Stopped, str]],
    removed: Mapping[tuple[str, str], str] | None = None,
    proved: Collection[str] = (),
    clients: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The end of a run about these services and hosts: a row for each rank, the answers, and what went wrong by cause.

    verified: (host, service) -> what a head's endpoint gave: state, answer, comparison, problems. ranks: (host,
    service) -> how its rank does: health, and the problems of one that serves all the same. stopped: host -> whether it
    failed, and the reason. removed: (host, service) -> ``removed``, or ``would be removed``. proved: hosts whose
    gateway was. clients: what a model answered through each that was used.

    A rank's state is what was seen of it last: what stopped its host says nothing of a service that was proved before.
    """
    rows: list[tuple[dict[str, str], bool]] = []
    answers = []
    command = ""
    for name in services:
        service = plan["services"][name]
        for host in (host for host in service["hosts"] if host in hosts):
            here = rank_of(plan, name, host)
            proof, look = verified.get((host, name)), ranks.get((host, name))
            # what became of a rank whose peer was stopped, nobody saw
            otherwise = UNTOUCHED if {*stopped}.isdisjoint(service["hosts"]) else "not asked"
            state = proof["state"] if proof else look["health"] if look else _unseen(host, stopped, otherwise)
            front = front_of(plan, name)
            row = _proof_row(name, service, state) | ({"endpoint": front["url"]} if front else {})
            rows.append(({"host": host, **row, "memory": size(here["memory_bytes"])}, bool(proof or look)))
            if proof and proof["answer"]:
                answers.append(f'{name} on {host} says: "{one_line(proof["answer"])}"')
            if proof and here["key"] and not front:
                answers.append(f"{name}: clients send the key in {here['key']['source']}")
            if proof and here["tls"] and here["tls"]["ca"] and not front:
                answers.append(f"{name}: clients trust the CA in {here['tls']['ca']}")
            if proof and proof["answer"]:
                answers += _speeds(name, service)
                command = command or (_gateway_curl(front) if front else _curl(service, here))
            if proof:
                answers += [
                    f"{name} on {host}: {words}" for words in (proof["comparison"], proof.get("start")) if words
                ]
    answers += [*_gateway_answers(plan["gateway"], proved), *_client_answers(plan["clients"], clients)]
    others = [{"host": host, "service": name, "state": word} for (host, name), word in sorted((removed or {}).items())]
    seen = {row["host"] for row in (*(row for row, _seen in rows), *others)}
    bare = [{"host": host, "state": _unseen(host, stopped, "no service")} for host in hosts if host not in seen]
    columns = rows[0][0] if rows else ("host", "service", "state")
    rows += [(dict.fromkeys(columns, "-") | other, other in others) for other in (*others, *bare)]
    problems = [(host, reason) for host, why in stopped.items() if host in hosts for reason in _reasons(*why)]
    problems += [(host, sentence) for (host, _name), proof in verified.items() for sentence in proof["problems"]]
    serving = ((host, rank["problems"]) for (host, _name), rank in ranks.items() if rank["health"] == SERVING)
    problems += [(host, sentence) for host, sentences in serving for sentence in sentences]
    answers += [f"ask it yourself: {command}"] if command else []
    parts = (table(_few(rows, "state")), "\n".join(answers), _wrapped(_paragraphs(plan, problems)))
    return "\n\n".join(part for part in parts if part)


def _speeds(name: str, service: Mapping[str, Any]) -> Iterator[str]:
    speed, others = service.get("speed"), reported_decode(service)
    words = [f"about {speed['alone']['decode']:.0f} are forecast"] if speed else []
    words += [f"others report {others:.0f}"] if others else []
    if words:
        yield f"{name}: tokens a second of one request: {', '.join(words)}; gb10.fleet.ask shows yours"


def _gateway_curl(gateway: GatewayPlan) -> str:
    trusted = f"--cacert {shlex.quote(gateway['ca'])} " if gateway["ca"] else ""
    return f'curl {trusted}-H "Authorization: Bearer KEY" {gateway["url"]}/models, where KEY is a client\'s'


def _curl(service: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The command that lists the models of an endpoint, to be pasted; the key is read by the shell, and not shown."""
    ca = here["tls"] and here["tls"]["ca"]
    trusted = f"--cacert {shlex.quote(ca)} " if ca else ""
    key = f'-H "Authorization: Bearer $(cat {shlex.quote(here["key"]["source"])})" ' if here["key"] else ""
    return f"curl {trusted}{key}{service['endpoint']}/models"


def ask_command(endpoint: str, here: ServiceSlice, example: ExampleRequest) -> str:
    """The same for a question."""
    body = {key: value for key, value in example["body"].items() if key in ("model", "messages", "prompt")}
    front = _curl({"endpoint": endpoint}, here).removesuffix("/v1/models").removesuffix("/models")
    return f"{front}{example['path']} -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"


def _gateway_answers(gateway: Mapping[str, Any] | None, proved: Collection[str]) -> Iterator[str]:
    if gateway and proved:
        models = ", ".join(name for row in gateway["models"] for name in (row["model"], *row["aliases"]))
        yield f"gateway: {gateway['url']} serves {models}"
        yield f"gateway: clients send a key of {gateway['clients']}"
        if gateway["ca"]:
            yield f"gateway: clients trust the CA in {gateway['ca']}"


def _client_answers(clients: Sequence[Mapping[str, Any]], used: Mapping[str, str]) -> Iterator[str]:
    for client in clients:
        name = client["client"]
        if name in used:
            who = f"{client['account']} signs in at" if client["account"] else "its API is"
            yield f'{name}: {who} {client["address"]}, and was answered: "{one_line(used[name])}"'


def _proof_row(name: str, service: Mapping[str, Any], state: str) -> dict[str, str]:
    kv = service["kv"]
    return {
        "service": name,
        "endpoint": service["endpoint"],
        "model": service["served_name"],
        "context": f"{kv['context']:,}" if kv["context"] else "-",
        "KV pool": f"{size(kv['bytes'])}, {kv['tokens']:,} tokens" if kv["tokens"] else "-",
        "memory": "",
        "state": state,
    }


def _unseen(host: str, stopped: Mapping[str, tuple[Stopped, str]], otherwise: str) -> str:
    return stopped[host][0] if host in stopped else otherwise


def _reasons(word: Stopped, why: str) -> Iterator[str]:
    """What stopped a host; of one that is refused each line is a reason of its own."""
    for line in why.splitlines() if word == "refused" else [why]:
        words = "; ".join(filter(None, (" ".join(line.split()), of_sudo(line))))
        yield words if word == "failed" else f"{word}: {words}"


def _paragraphs(plan: Plan, problems: Sequence[tuple[str, str]]) -> list[str]:
    """One a cause, for (host, sentence)."""
    return [cause.paragraph() for cause in by_cause(problems, (*plan["hosts"], *plan["services"]))]


def _few(rows: Sequence[tuple[dict[str, str], bool]], state: str) -> list[dict[str, str]]:
    """The rows, each with whether its rank or host was seen; of the others one a state where there are many.

    state: the column that says why not; hosts that were stopped are named below the table, by cause.
    """
    counts = Counter(row[state] for row, seen in rows if not seen)
    many = [word for word, count in counts.items() if count > _MANY]
    shown = [row for row, seen in rows if seen or row[state] not in many]
    columns = rows[0][0] if rows else ()
    for word in many:
        unseen = [row for row, seen in rows if not seen and row[state] == word]
        hosts, services = len({row["host"] for row in unseen}), {row["service"] for row in unseen} - {"-"}
        words = {
            "host": f"{hosts} hosts",
            "service": f"{len(services)} services" if len(services) > 1 else "".join(services),
        }
        shown.append(dict.fromkeys(columns, "-") | words | {state: word})
    return shown


def _wrapped(problems: Sequence[str]) -> str:
    """Each problem begins a line; the lines of one that names several things stay apart."""
    width = max(60, shutil.get_terminal_size((140, 24)).columns)
    return "\n".join(
        textwrap.fill(line, width, initial_indent=indent, subsequent_indent="    ", break_long_words=False)
        for problem in problems
        for indent, line in zip(chain([""], repeat("  ")), problem.splitlines(), strict=False)
    )


@dataclass(frozen=True)
class Status:
    """What was seen of a fleet. ranks: rows, each with whether it was seen. started: a sentence on each last start.
    problems: a paragraph a cause, with its remedy."""

    ranks: Sequence[tuple[dict[str, str], bool]]
    machines: Sequence[Mapping[str, str]]
    gateways: Sequence[dict[str, str]]
    clients: Sequence[dict[str, str]]
    started: Sequence[str]
    problems: Sequence[str]


def status_text(status: Status) -> str:
    """One row a rank, one a machine, one a model of the gateway, one a client of it, then one paragraph a problem."""
    shown = (_few(status.ranks, "health"), status.machines, status.gateways, status.clients)
    below = "\n".join(status.problems) or "no problems"
    parts = (*(table(part) for part in shown if part), "\n".join(status.started), below)
    return "\n\n".join(part for part in parts if part)


def status_of(
    plan: Plan,
    services: Sequence[str],
    ranks: Mapping[tuple[str, str], Mapping[str, Any]],
    stopped: Mapping[str, tuple[Stopped, str]],
    gateways: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    clients: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    frozen: Mapping[str, Sequence[str]] = MappingProxyType({}),
    machines: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Status:
    """ranks: (host, service) -> what `read_ranks` found. stopped: host -> why it could not be asked. gateways: host ->
    what `gb10.fleet.gateway_info` returned. clients: what it returned of each client, by its name. frozen: sentences
    on units and machines, by host. machines: rows of `machine_shown`, by host.
    """
    rows: list[tuple[dict[str, str], bool]] = []
    started: list[str] = []
    lines = [(host, reason) for host, why in stopped.items() for reason in _reasons(*why)]
    for name in services:
        for number, host in enumerate(plan["services"][name]["hosts"]):
            unseen = _unseen(host, stopped, "not asked")
            rank = ranks.get((host, name))
            row, sentences = rank_shown(name, number, host, rank, unseen)
            if rank and row["tokens/s"] != "-":
                row["tokens/s"] += _of_expected(plan["services"][name]["speed"], rank["supervisor"])
            rows.append((row, (host, name) in ranks))
            starts = _current_starts(rank) if rank else []
            started += [f"{name} on {host}: {words}" for words in (last_words(starts),) if words]
            lines += [(host, finding.sentence()) for finding in slow_start(name, starts)]
            lines += [(host, sentence) for sentence in sentences]
    lines += [(host, problem) for host, problems in frozen.items() for problem in problems]
    lines += [(host, problem) for host, gateway in gateways.items() for problem in gateway["problems"]]
    behind = [row for host, gateway in gateways.items() for row in _gateway_rows(host, plan, gateway)]
    known = [client for client in plan["clients"] if client["client"] in clients]
    lines += [(item["host"], problem) for item in known for problem in clients[item["client"]]["problems"]]
    used = [
        {"client": item["client"], "kind": item["kind"], "host": item["host"], "address": item["address"]}
        | {"health": clients[item["client"]]["health"]}
        for item in known
    ]
    by_host = [row for _host, row in sorted(machines.items())]
    return Status(rows, by_host, behind, used, started, _paragraphs(plan, lines))


def machine_shown(plan: Plan, host: str, state: State) -> tuple[dict[str, str], list[str]]:
    """A machine's row, by a reading of the host, and what is wrong with it."""
    look = PreflightContext(host, plan["hosts"][host], state)
    found, boots = look.part("gpu"), look.part("health").get("boots")
    cut = sum(boot["cut_off"] for boot in boots or ())
    heat = max(look.part("sensors").get("heat_c", {}).values(), default=None)
    figures = {name: found.get("figures", {}).get(name) for name in _FIGURES}
    row = {
        "machine": host,
        "GPU": "none" if not found.get("present") else "silent" if found["why"] else "answers",
        **{_FIGURES[name]: "-" if value is None else f"{value:.0f}" for name, value in figures.items()},
        "hottest sensor, C": "-" if heat is None else f"{heat:.0f}",
        "starts of 30 days": "-" if boots is None else f"{len(boots)}, {cut} cut off",
    }
    return row, [judged(look, problem).sentence() for problem in HEALTH.obstacles(look)]


def _current_starts(rank: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The starts that a host keeps of its rank, where the last of them is that of what serves now."""
    starts, since = rank.get("starts") or [], (rank["supervisor"] or {}).get("since")
    return starts if health(rank) == SERVING and is_current(starts, since) else []


def _of_expected(speed: ServiceSpeed | None, supervisor: Mapping[str, Any]) -> str:
    """What the plan forecasts for the requests that run now; empty while none does."""
    expected = expected_total(speed, supervisor.get("running") or 0, supervisor.get("kv_use") or 0)
    return f" of about {expected:.0f}" if expected else ""


def _gateway_rows(host: str, plan: Plan, gateway: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    declared = plan["gateway"]
    names = {row["services"][0]: row["model"] for row in declared["models"]} if declared else {}
    for row in model_rows(plan["hosts"][host]["gateway"], gateway, names):
        has = {} if not declared or declared["address"] is None else {"address": "here" if gateway["address"] else "-"}
        yield {"gateway": host, "health": gateway["unit"]["active"], **has, **row}


def rank_shown(
    service: str, number: int, host: str, rank: Mapping[str, object] | None, unseen: str
) -> tuple[dict[str, str], list[str]]:
    """A rank's row and its problems. unseen: the word for one that was not read."""
    sentences = [problem.sentence() for problem in (problems(rank) if rank else ())]
    return _rank_row(service, number, host, rank, unseen), sentences


def _rank_row(service: str, number: int, host: str, rank: Mapping[str, Any] | None, unseen: str) -> dict[str, str]:
    supervisor = (rank["supervisor"] if rank else None) or {}
    speed, use = supervisor.get("tokens_per_s"), supervisor.get("kv_use")
    requests = (
        None if supervisor.get("running") is None else f"{supervisor['running']:.0f} + {supervisor['waiting'] or 0:.0f}"
    )
    return {
        "service": service,
        "rank": str(number),
        "host": host,
        "health": health(rank) if rank else unseen,
        "for": _held(supervisor),
        "tokens/s": "-" if speed is None else f"{speed:.1f}",
        "running + waiting": requests or "-",
        "KV use": "-" if use is None else f"{use:.0%}",
        "memory free": size(rank["memory"]["available"]) if rank else "-",
    }


def _held(supervisor: Mapping[str, Any]) -> str:
    """How long a supervisor has been in its state, by its own host's clock; `-` where it does not report its time."""
    if supervisor.get("age_s") is None or not {"since", "updated_at"} <= supervisor.keys():
        return "-"
    since, until = (datetime.fromisoformat(supervisor[name]) for name in ("since", "updated_at"))
    return duration((until - since).total_seconds() + supervisor["age_s"])
