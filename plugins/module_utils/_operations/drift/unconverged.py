# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a converge has something to do on: by the comparison that a drift check makes, and by what roles look at.

Whatever is not certain is a reason to converge: a role that finds nothing to do changes nothing. A host is left out
only where every role would have found all as declared.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TypedDict, TypeVar

from ..._base import layout
from ..._base.faults import Fault, guarded
from ..._base.findings import Difference
from ..._base.gb10 import data_table
from ..._base.plan import Plan
from ..._base.reading import State
from ..._base.slice import ContainerEngineSlice, FabricSlice, PeerAccess, Slice, part_of
from ..._base.subject import Differences, DriftContext, Subject, Unknown
from ..._host.netplan.document import PATH as NETPLAN
from ..._stores.images.subject import IMAGES
from ..._stores.peers.subject import PEER_ACCESS
from ..._stores.weights.subject import MODELS
from ..._subjects.container_engine.subject import CONTAINER_ENGINE
from ..._subjects.fabric.hotplug import MARKER
from ..._subjects.firewall.subject import FIREWALL
from ..._subjects.registry import SUBJECTS
from .files import of_files, of_json, of_owned
from .questions import DOCKER_HOOK, GPU_DEVICE, hub_tool, packages
from .running import of_sysctl, of_units
from .secrets import same_on_all

# Subjects whose differences are of the machine, or are looked at where they are needed: `netplan_apply` compares the
# interfaces, whose neighbours are asked at the end of the run.
_OF_THE_MACHINE = ("versions", "fabric")
_STAGED = ("images", "models")
# What no role changes, whoever finds it: a drift check names it, and what a person can do.
_NOT_OURS: tuple[str, ...] = data_table("not_ours")
# A shorter secret is none: a run that was cut off has left it.
_SECRET_BYTES = 32
_RUNTIME = {"path": "nvidia-container-runtime", "args": []}

Note = Callable[[str], None]
T = TypeVar("T")


class Compared(TypedDict):
    """What a host answered, as `_subjects.form` took it."""

    state: State
    unknown: dict[str, str]


Answers = Mapping[str, Compared | None]


def _unnoted(_trace: str) -> None:
    pass


def unconverged(
    plan: Plan, states: Answers, interfaces: Mapping[str, bool], note: Note = _unnoted
) -> dict[str, list[str]]:
    """Why each host has to be converged, by host; an empty list for one that is as declared.

    states: what `host_info` read of each host of the run by `questions.before_change`; None of one that could not be
    compared. interfaces: by host whether `netplan_apply` would change it; missing where there are none. note: is given
    the traceback of each fault of ours. Hosts that depend on each other are converged together: a role may need what
    another host's has read.
    """
    found = {
        host: _judged(plan, host, states, partial(_reasons, netplan=interfaces.get(host, False)), note)
        for host in states
    }
    for item in guarded("", "the secrets of groups", partial(same_on_all, plan, _read(states))):
        for host in states if isinstance(item, Fault) else (item.host,):
            found[host].append(_reason(item, note))
    return {host: found[host] or _of_others(plan, host, found) for host in states}


def unstaged(plan: Plan, states: Answers, note: Note = _unnoted) -> dict[str, list[str]]:
    """Why images or models have to be brought to each host, or to one that it gives to or fetches from; as above."""
    found = {host: _judged(plan, host, states, _to_stage, note) for host in states}
    return {host: found[host] or _of_others(plan, host, found) for host in states}


# What the roles of site.yml need of roles before them, in the order in which they run.
_NEEDS: Mapping[str, tuple[str, ...]] = data_table("roles_needed")
# Without a word of a host's slice under this name, the role has nothing to do there.
_PLACED = {"image_store": "images", "model_store": "models"}
_IS_PLACED = {"monitoring": "packages", "phoenix": "tool"}


def needed_first(
    plan: Plan,
    states: Answers,
    interfaces: Mapping[str, bool],
    tags: Collection[str],
    skipped: Collection[str],
    note: Note = _unnoted,
) -> Iterator[str]:
    """Why a run of some roles can't go on without another role that it leaves out, a sentence each.

    states, interfaces, note: as of `unconverged`. tags, skipped: of the run, Ansible's ``all`` among the first for no
    limit. A role that has nothing to do may always be left out.
    """
    runs = {role for role in (*_NEEDS, *_BEFORE) if ("all" in tags or role in tags) and role not in skipped}
    for host in states:
        for role, needs in _NEEDS.items():
            if role not in runs or not _is_placed(plan["hosts"][host], role):
                continue
            for need in needs:
                reasons = [] if need in runs else _judged(plan, host, states, partial(_BEFORE[need], interfaces), note)
                if reasons:
                    instead = f"leave {need} out of --skip-tags" if need in skipped else f"add {need} to --tags"
                    yield f"{host}: {role} needs {need} first, since {reasons[0]}; {instead}"


def _is_placed(mine: Slice, role: str) -> bool:
    part = part_of(mine, _PLACED.get(role, role))
    return bool(part[_IS_PLACED[role]] if role in _IS_PLACED else part)


def _netplan(interfaces: Mapping[str, bool], view: DriftContext) -> Iterator[str]:
    yield from ["the network differs"] if interfaces.get(view.host) else []


def _of_subject(subject: Subject, _interfaces: Mapping[str, bool], view: DriftContext) -> Iterator[str]:
    yield from _ours(view, [subject.differences])


def _engine(_interfaces: Mapping[str, bool], view: DriftContext) -> Iterator[str]:
    yield from _ours(view, [CONTAINER_ENGINE.differences])
    yield from [] if sure(view.state["engine"])["running"] else ["Docker gives no answer"]


def _access(_interfaces: Mapping[str, bool], view: DriftContext) -> Iterator[str]:
    yield from _ours(view, [PEER_ACCESS.differences])
    yield from _peers(view.slice["peer_access"], view.state)


def _images(_interfaces: Mapping[str, bool], view: DriftContext) -> Iterator[str]:
    yield from _ours(view, [IMAGES.differences])
    yield from (f"{name} must be brought" for name in sure(view.state["images_changing"]))


def _models(_interfaces: Mapping[str, bool], view: DriftContext) -> Iterator[str]:
    yield from _ours(view, [MODELS.differences])
    yield from (f"{name} must be brought" for name in sure(view.state["models_changing"]))


_BEFORE: Mapping[str, Callable[[Mapping[str, bool], DriftContext], Iterator[str]]] = {
    "fabric": _netplan,
    "container_engine": _engine,
    "firewall": partial(_of_subject, FIREWALL),
    "peer_access": _access,
    "image_store": _images,
    "model_store": _models,
}


def _judged(
    plan: Plan, host: str, states: Answers, reasons: Callable[[DriftContext], Iterator[str]], note: Note
) -> list[str]:
    """A fault of ours is a reason too: the host is converged, and the roles judge it."""
    unread = [*_unread(states[host])]
    found = [] if unread else guarded(host, "what differs", lambda: reasons(DriftContext(host, plan, _read(states))))
    return unread + [item if isinstance(item, str) else _reason(item, note) for item in found]


def _reason(difference: Difference | Fault, note: Note) -> str:
    if isinstance(difference, Fault):
        note(difference.trace)
        return difference.why
    return f"{difference.place}: {difference.found}"


def _read(states: Answers) -> dict[str, State]:
    return {host: answer["state"] for host, answer in states.items() if answer}


def _of_others(plan: Plan, host: str, found: Mapping[str, list[str]]) -> list[str]:
    """The hosts of the run that have to be converged and on which this one depends, over any number of others."""
    seen, more = {host}, [host]
    while more:
        fresh = {other for name in more for other in _partners(plan, name)} & found.keys() - seen
        seen |= fresh
        more = sorted(fresh)
    return [f"{name} has to be converged" for name in sorted(seen) if found[name]]


def _partners(plan: Plan, host: str) -> set[str]:
    """Whose ranks are in a group with this host's, and who fetches from whom; either way round."""
    mine = plan["hosts"][host]
    grouped = {name for service in plan["services"].values() if host in service["hosts"] for name in service["hosts"]}
    return grouped | {*mine["peer_access"]["reads"]} | {*mine["peer_access"]["readers"]}


def _reasons(view: DriftContext, netplan: bool) -> Iterator[str]:
    compared = (subject.differences for subject in SUBJECTS if subject.name not in _OF_THE_MACHINE)
    yield from _ours(view, (of_files, of_owned, of_json, of_sysctl, of_units, *compared))
    yield from ["the network differs"] if netplan else []
    yield from _beside(view.slice, view.state)


def _to_stage(view: DriftContext) -> Iterator[str]:
    yield from _ours(view, [subject.differences for subject in SUBJECTS if subject.name in _STAGED])
    yield from _brought(view.slice, view.state)


def _unread(answer: Compared | None) -> Iterator[str]:
    if not answer:
        yield "it could not be compared"
    else:
        yield from (f"{part} could not be read" for part in answer["unknown"])


def _ours(view: DriftContext, checks: Iterable[Callable[[DriftContext], Differences]]) -> Iterator[str]:
    for check in checks:
        for finding in check(view):
            if isinstance(finding, Unknown):
                yield f"{finding.part} is not known"
            elif finding.rule not in _NOT_OURS:
                yield f"{finding.place}: {finding.found}"


def sure(part: T | None) -> T:
    """A part of a host of which all could be read."""
    if part is None:
        raise TypeError("a part that was not read is looked at")
    return part


def _beside(mine: Slice, state: State) -> Iterator[str]:
    """What roles bring or look at, and no drift check compares."""
    there = {path for path, found in sure(state["paths"]).items() if found["exists"]}
    yield from (f"package {name} is missing" for name in packages(mine) if sure(state["packages"])[name] is None)
    yield from _fabric(mine["fabric"], there)
    yield from _container_engine(mine["container_engine"], state, there)
    yield from _peers(mine["peer_access"], state)
    yield from _brought(mine, state)
    if mine["tls"]["source"] and layout.trusted_link(mine["tls"]["path"]) not in there:
        yield "the local CA is not trusted"
    for path in (service["secret"]["path"] for service in mine["services"] if service["secret"]):
        if sure(state["files"])[path].get("size", 0) < _SECRET_BYTES:
            yield f"file {path} holds no secret"
    for name, start in sure(state["starts"]).items():
        if not start["runs"] or not start["enabled"] or start["stale"] or start["newer"] or start["other_image"]:
            yield f"{name} has to be started"


def _fabric(fabric: FabricSlice, there: set[str]) -> Iterator[str]:
    if not fabric["interfaces"] and NETPLAN in there:
        yield f"file {NETPLAN} is there"
    switched_off = fabric["hotplug"] == "off" and fabric["sysctl"]
    if (MARKER if switched_off else layout.HOTPLUG) in there:
        yield "the adapter's hot-plug is not as declared"


def _container_engine(engine: ContainerEngineSlice, state: State, there: set[str]) -> Iterator[str]:
    if engine["registries"]:
        yield "logins to registries are compared only by their role"
    if not sure(state["engine"])["running"]:
        yield "Docker gives no answer"
    runtimes = sure(state["daemon"])["settings"].get("runtimes")
    ours = isinstance(runtimes, dict) and runtimes.get("nvidia") == _RUNTIME
    if GPU_DEVICE in there and (DOCKER_HOOK not in there or not ours):
        yield "NVIDIA's container toolkit is not set up"


def _peers(access: PeerAccess, state: State) -> Iterator[str]:
    if access["readers"] and not state["peers_account"]:
        yield "the account of readers is missing"
    if access["reads"] and not sure(state["peers"])["public_key"]:
        yield "this host has no key to read with"


def _brought(mine: Slice, state: State) -> Iterator[str]:
    yield from (f"image {name} must be brought" for name in sure(state["images_changing"]))
    yield from (f"model {name} must be brought" for name in sure(state["models_changing"]))
    for kind in ("images", "models"):
        if any(not item["lock"] or item.get("renew") for item in mine[kind]):
            yield f"{kind} are not locked"
    path, sha256 = hub_tool(mine)
    if path and sure(state["files"])[path].get("sha256") != sha256:
        yield "the hub's tool is not the locked one"
