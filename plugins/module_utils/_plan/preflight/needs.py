# SPDX-License-Identifier: GPL-3.0-or-later
"""Can this host carry its slice of the plan? The judgement over a `host_info` reading, before the first change."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..._base import layout, worded
from ..._base.findings import Finding, host_warning, ordered
from ..._base.place import Place
from ..._base.reading import Listener, State
from ..._base.received import one_line
from ..._base.sizes import room_for, size
from ..._base.slice import NeededDisk, NeededFile, NeededPort, NeededSecret, Needs, PeerAccess, Slice
from ..._base.subject import PreflightContext
from ..._engines.registry import ENGINES
from ..._host.probe.listeners import PROXY, holder
from ..._subjects.registry import SUBJECTS
from ..._subjects.system.next_boot import judged
from .groups import Alike, of_groups

# Machines of one kind differ by some MB; those of 2025 have 2 GB less than those of 2026, others half the memory.
MEMORY_SLACK = 0.998
WEIGHTS_SLACK = 0.02


def preflight(needs: Needs, state: State, others: Mapping[str, Alike] | None = None) -> list[Finding]:
    """needs: `hosts.<host>.needs` of the plan; state: a `host_info` reading. What can't be read is not judged.

    others: the readings of all hosts of the run, for services on several of them; None leaves those alone.
    Errors refuse the run; warnings are shown.
    """
    own = [*_files(needs, state), *_disk(needs, state), *_ports(needs, state), *_memory(needs, state)]
    own += [*_weights(needs, state), *_launches(needs, state)]
    return ordered([*own, *(of_groups(needs["groups"], others) if others is not None else ())])


def obstacles(host: str, plan: Slice, state: State) -> list[Finding]:
    """What of a host is in the way of its slice of the plan or will hurt, over all subjects. plan: ``hosts.<host>``."""
    look = PreflightContext(host, plan, state)
    return ordered(judged(look, obstacle) for subject in SUBJECTS for obstacle in subject.obstacles(look))


def _place_of(need: NeededFile | NeededSecret | NeededPort) -> Place:
    if need["service"]:
        return Place(service=need["service"], option=need["option"])
    return Place(variable=need["option"])  # of the fleet


def _is_there(path: str | None, state: State) -> bool:
    found = (state["paths"] or {}).get(path or "")
    return found is not None and found["exists"]


def _files(needs: Needs, state: State) -> Iterator[Finding]:
    for file in needs["files"]:
        if not _is_there(file["path"], state) and not _is_there(file.get("unless"), state):
            yield worded.host_error("preflight-file", _place_of(file), path=file["path"])


def made_elsewhere(needs: Needs, state: State, kept: Collection[str] | None) -> Iterator[Finding]:
    """A run makes what is missing: another key or CA than clients were given by the controller that made the first.

    It is the controller's fault, and refuses the run on all its hosts. kept: those of ``needs.secrets`` that the
    controller has; None where a run makes none.
    """
    for secret in needs["secrets"]:
        if kept is not None and secret["source"] not in kept and _is_there(secret["path"], state):
            source, path = secret["source"], secret["path"]
            folder = source.rpartition("/")[0]
            yield worded.host_error("preflight-secret", _place_of(secret), path=path, its_source=source, folder=folder)


def lets_others_in(access: PeerAccess, state: State) -> Iterator[Finding]:
    """Where two inventories let hosts read from this one, each would lock out the other's at every run.

    access: ``peer_access`` of the slice. It refuses the run on all its hosts, as above.
    """
    given = state.get("peers_inventory")
    if access["readers"] and given not in (None, "", access["inventory"]):
        inventory = access["inventory"]
        readers = ", ".join(access["readers"])
        yield worded.host_error("peer-access-foreign", "peer_access", given=given, inventory=inventory, readers=readers)


def _disk(needs: Needs, state: State) -> Iterator[Finding]:
    wanted: dict[int, list[NeededDisk]] = {}
    for write in needs["disk"]:
        reading = (state["paths"] or {}).get(write["path"])
        if reading is not None and not _is_there(write.get("unless"), state):
            # equal free space to the byte means the same file system: its writes count together
            wanted.setdefault(reading["free_bytes"], []).append(write)
    for free, writes in sorted(wanted.items()):
        total = room_for(sum(write["bytes"] for write in writes))
        if total > free:
            what = ", ".join(f"{write['what']} {size(write['bytes'])}" for write in writes)
            place = " and ".join(sorted({write["path"] for write in writes}))
            yield worded.host_error(
                "preflight-disk", place, free=size(free), total=size(total), what=what, total_size=size(total - free)
            )


def _ports(needs: Needs, state: State) -> Iterator[Finding]:
    """A listener on a port that a service is to take. One in a container is not judged where Docker gave no answer:
    it may be the service itself, and the start looks again."""
    containers = state["containers"]
    for wanted in needs["ports"]:
        for listener in state["listening"] or []:
            if listener["port"] != wanted["port"]:
                continue
            if containers is None and (listener["container"] or listener["process"] == PROXY):
                continue
            name = holder(listener, containers or [])
            if not name or layout.service_of(name) != layout.service_of(wanted["container"]):
                yield _taken(wanted, listener, name)


def _taken(wanted: NeededPort, listener: Listener, name: str) -> Finding:
    port, process = wanted["port"], listener["process"]
    if name:
        by, end = f"the container {name}", f"stop that container (docker stop {name})"
    elif process == PROXY:
        # the brackets keep sudo's own command from being found and ended
        by = f"a {PROXY} that outlived its container"
        end = f"end it (sudo pkill -KILL -f 'docker-prox[y] .*-host-port {port} ')"
    else:
        by, end = one_line(process) or "another process", f"end that process (ss -ltnp sport = :{port})"
    return worded.host_error("preflight-port", _place_of(wanted), port=port, by=by, end=end)


def _memory(needs: Needs, state: State) -> Iterator[Finding]:
    memory = state["memory_bytes"]
    if memory is not None and memory["total"] < needs["memory_bytes"] * MEMORY_SLACK:
        yield worded.host_error(
            "preflight-memory",
            Place(variable="fleet_host", option="memory_kib"),
            total=size(memory["total"]),
            memory_bytes=size(needs["memory_bytes"]),
            other_total=memory["total"] // 1024,
        )


def _weights(needs: Needs, state: State) -> Iterator[Finding]:
    """A checkpoint on the host whose index says another size than the plan has, or the size that the plan lacks."""
    for file in needs["files"]:
        read, planned = (state["paths"] or {}).get(file["path"]), file.get("weights_bytes")
        found = read and read.get("weights_bytes")
        if found and (not planned or abs(found - planned) > WEIGHTS_SLACK * planned):
            place = Place(service=file["service"], option="model.weights_bytes")
            expected = f"{size(planned)} as the plan has it" if planned else "a size in the plan"
            remedy = f"write model.weights_bytes: {found}, and the memory is planned with it"
            index = f"the checkpoint's index says {size(found)}"
            yield host_warning("preflight-weights", place, found=index, expected=expected, remedy=remedy)


def _launches(needs: Needs, state: State) -> Iterator[Finding]:
    """What the linter's rules say with the host's own facts, beyond what the plan found without them."""
    running = {layout.service_of(container["name"]) for container in state["containers"] or []}
    for launch in needs["launches"]:
        request = launch["request"]
        facts = _facts(state, launch["service"] in running)
        judge, place = ENGINES[launch["engine"]].judge, Place(service=launch["service"])
        known = judge(request, place)
        with_facts = judge({**request, "host": {**request["host"], **facts}}, place)
        for finding in with_facts:
            if finding not in known and finding.severity != "hint":
                # nothing that a host shows now is worth refusing what its convergence may change
                yield replace(finding, severity="warning")


def _facts(state: State, runs: bool) -> dict[str, Any]:
    """The linter's facts on a host. Free memory counts only while the service doesn't run: else it holds its own."""
    models = (state["paths"] or {}).get(layout.MODELS)
    memory = state["memory_bytes"]
    facts = {
        "driver": state.get("driver"),
        "cache_filesystem": models and models["filesystem"],
        "mem_available_bytes": memory["available"] if memory and not runs else None,
    }
    return {name: value for name, value in facts.items() if value}
