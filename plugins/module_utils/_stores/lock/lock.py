# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock's form and its rules: what a name stands for, who may say so first, and which hosts have something else.

A plain map, ``{images: {name: {digest, identity}}, models: {name: {revision, seal}}}``. An image's name is its
reference, a model's its repository, each with its pin behind an ``@`` where one is declared: another pin is another
thing. digest: the registry's, null where none is known. identity: `_stores.images.identity.Identity.digest`. seal:
`_stores.weights.manifest.Manifest.seal`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, FleetError, did_you_mean
from ..._base.place import Place, keys_of
from ..._base.received import DIGEST, REVISION, SHA256
from ..._base.schema import Spec, check

Lock = Mapping[str, Mapping[str, Mapping[str, Any]]]
VERSION = 1
EMPTY: Lock = {"images": {}, "models": {}}
MOST_BYTES = 4 << 20
_MOST_NAMES = 10_000


@dataclass(frozen=True)
class Kind:
    """Images or models. name: of an entry of the plan; pin: the key of its pin. known_by: the keys that must be equal.

    sources: where a thing may be brought anew from. spec: what the lock holds for a name.
    """

    name: str
    pin: str
    known_by: tuple[str, ...]
    sources: tuple[str, ...]
    spec: Spec


KINDS = {
    "images": Kind(
        "reference",
        "digest",
        ("identity",),
        ("registry", "build"),
        {"type": "map", "options": {"digest": {**DIGEST, "nullable": True}, "identity": DIGEST}},
    ),
    "models": Kind(
        "repository",
        "revision",
        ("revision", "seal"),
        ("hub",),
        {"type": "map", "options": {"revision": REVISION, "seal": SHA256}},
    ),
}
_NAMES: Spec = {"type": "str", "pattern": r"[\w./:@-]{1,512}", "expected": "a name of an image or a model"}
_SPEC: Spec = {
    "type": "map",
    "options": {
        "version": {"type": "int", "required": True, "choices": [VERSION]},
        **{
            kind: {"type": "map", "required": True, "max": _MOST_NAMES, "keys": _NAMES, "values": KINDS[kind].spec}
            for kind in KINDS
        },
    },
}
_REMEDY = (
    "take the file of the last good commit (git checkout -- FILE), or mend that line; without the file, the next run "
    "takes whatever the hosts have for right"
)


# The file ---------------------------------------------------------------------------------------------------------


def parse(content: bytes, file: str) -> Lock:
    """What a lock file holds. file: its name, for messages. Raises FleetError for anything that is not in its form.

    Nothing of a damaged file is used: whoever can damage it could otherwise choose what is compared with.
    """
    if len(content) > MOST_BYTES:
        raise _damaged(file, 1, f"{len(content)} bytes")
    text = content.decode("utf-8", "replace")
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as problem:
        raise _damaged(file, problem.lineno, f"{problem.msg} at column {problem.colno}") from None
    except _TwiceError as problem:
        raise _damaged(file, _line_of(text, [problem.name], last=True), f"{problem.name} is there twice") from None
    except (ValueError, RecursionError):
        raise _damaged(file, 1, "no JSON that this collection writes") from None
    checked, problems = check(_SPEC, value, Place())
    if problems:
        found = problems[0]
        names = [str(key) for key in keys_of(found.option)]
        if found.rule == "schema-required":
            names.pop()  # what is missing stands nowhere
        raise _damaged(file, _line_of(text, names), f"{found.place or 'the file'}: {found.found}")
    return {kind: checked[kind] for kind in KINDS}


def dump(lock: Lock) -> str:
    """The file's text: sorted, a key a line, so that a change of one thing is one place of a diff."""
    return json.dumps({**lock, "version": VERSION}, indent=2, sort_keys=True) + "\n"


class _TwiceError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _once(pairs: list[tuple[str, object]]) -> dict[str, Any]:
    """A map none of whose keys is there twice, as it may be after two branches were merged."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(name)
        found[name] = value
    return found


def _line_of(text: str, names: Sequence[str], last: bool = False) -> int:
    """The number of the line where the last of the names stands, each looked for behind the one before it.

    names: as findings show them, a long one cut. last: where it stands for the last time.
    """
    at = 0
    for name in names:
        quoted = '"' + name.removesuffix("...")
        found = text.rfind(quoted) if last else text.find(quoted, at)
        at = max(at, found)
    return text.count("\n", 0, at) + 1


def _damaged(file: str, line: int, found: str) -> FleetError:
    return worded.refusal(
        "lock-damaged/damaged", f"{file}, line {line}", found=found, remedy=_REMEDY.replace("FILE", file)
    )


# What the plan takes of it ----------------------------------------------------------------------------------------


def key(kind: str, entry: Mapping[str, object]) -> str:
    """The name by which the lock knows an entry of the plan: ``demo:1``, or with a pin ``demo:1@sha256:...``."""
    name, pin = entry[KINDS[kind].name], entry[KINDS[kind].pin]
    return f"{name}@{pin}" if pin else str(name)


def anchored(kind: str, entry: Mapping[str, Any], lock: Lock, relock: str) -> tuple[dict[str, Any], list[Finding]]:
    """An entry of the plan with ``lock``, what it is known by, null as long as nobody knows, and ``renew``.

    relock: the name whose entry in the file doesn't count any more. renew: bring it anew from its source, which may
    give another one than is here. What a recipe says (``known``) counts in any case.
    """
    entry, sort = dict(entry), KINDS[kind]
    known, name = entry.pop("known"), entry[sort.name]
    named = is_named(kind, entry, relock)
    in_lock = locked(kind, entry, lock, relock)
    problems = []
    if known and any(known[part] is None for part in sort.known_by):
        problems.append(worded.error("lock-recipe-unpinned", name, kind__words=_words(kind, known), pin=sort.pin))
        known = None
    if known and in_lock and not _same(kind, known, in_lock):
        found, expected = f"{_words(kind, in_lock)} in the lock", f"{_words(kind, known)}, as its recipe has it"
        problems.append(
            worded.error("lock-recipe-differs", key(kind, entry), found=found, expected=expected, name=name)
        )
    renew = named and not entry[sort.pin] and entry["source"]["kind"] in (*sort.sources, "host")
    return {**entry, "lock": known or in_lock, "renew": renew}, problems


def locked(kind: str, entry: Mapping[str, object], lock: Lock, relock: str) -> Mapping[str, Any] | None:
    """What the lock says of an image or a model, named as in the plan; None for what is to be brought anew."""
    return None if is_named(kind, entry, relock) else lock[kind].get(key(kind, entry))


def is_named(kind: str, entry: Mapping[str, object], relock: str) -> bool:
    return bool(relock) and relock in (entry[KINDS[kind].name], key(kind, entry))


def unknown_name(relock: str, wanted: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> Iterator[Finding]:
    """A finding where ``relock`` names nothing of the plan. wanted: by kind and host the plan's entries."""
    all_of = [(kind, entry) for kind, hosts in wanted.items() for entries in hosts.values() for entry in entries]
    if relock and not any(is_named(kind, entry, relock) for kind, entry in all_of):
        remedy = did_you_mean(relock, {entry[KINDS[kind].name] for kind, entry in all_of})
        yield worded.error("lock-unknown-name", "relock", remedy=remedy, relock=relock)


# What hosts have brought ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settled:
    """lock: with what was brought for the first time. refused: by host what it has instead."""

    lock: Lock
    refused: Mapping[str, Sequence[Finding]]


def settle(
    lock: Lock,
    wanted: Mapping[str, Mapping[str, Sequence[Mapping[str, object]]]],
    reports: Mapping[str, Mapping[str, object]],
    relock: str = "",
) -> Settled:
    """The lock after a run, and the hosts whose images or models are others.

    wanted: by kind and host the plan's entries. reports: by kind and host a list, in the order of ``wanted``, of maps
    with ``lock``, what the host has; without it where nothing is there yet. Hosts that are missing reported nothing. A
    thing is known by what the host has that brought it, not by what those have that took it from there; where that host
    reported nothing, only if all others report the same.
    """
    settled: dict[str, dict[str, Mapping[str, Any]]] = {kind: dict(lock[kind]) for kind in KINDS}
    refused: dict[str, list[Finding]] = {}
    for kind in KINDS:
        found = _reported(kind, wanted[kind], reports.get(kind, {}), refused)
        for name, hosts in found.items():
            entries = {host: entry for host, (entry, _) in hosts.items()}
            first = next(iter(entries.values()))
            anchor = first["lock"] or (None if is_named(kind, first, relock) else settled[kind].get(name))
            values = {host: value for host, (_, value) in hosts.items()}
            if anchor is None:
                origins = [host for host in values if not entries[host]["peers"]] or [*values]
                anchor = _agreed(kind, name, {host: values[host] for host in origins}, refused)
            if anchor is not None:
                settled[kind][name] = anchor
                for host, value in values.items():
                    if not _same(kind, value, anchor):
                        refused.setdefault(host, []).append(_other(kind, name, value, anchor, entries[host]))
    return Settled(settled, {host: tuple(found) for host, found in sorted(refused.items())})


_Reported = dict[str, dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]]


def _reported(
    kind: str,
    wanted: Mapping[str, Sequence[Mapping[str, Any]]],
    reports: Mapping[str, Any],
    refused: dict[str, list[Finding]],
) -> _Reported:
    """By name and host the plan's entry and what the host says it is. A host that says something else is refused."""
    found: _Reported = {}
    for host in sorted({*wanted} & {*reports}):
        spec: Spec = {
            "type": "list",
            "min": len(wanted[host]),
            "max": len(wanted[host]),
            "elements": {**KINDS[kind].spec, "nullable": True},
            "expected": f"what its {len(wanted[host])} {kind} are",
        }
        answer = reports[host]
        values = (
            [item.get("lock") for item in answer if isinstance(item, Mapping)] if isinstance(answer, list) else answer
        )
        _checked, problems = check(spec, values, Place(host=host, thing=f"its {kind}"))
        if problems:
            refused.setdefault(host, []).append(problems[0])
            continue
        for entry, value in zip(wanted[host], values, strict=True):
            if value is not None:
                found.setdefault(key(kind, entry), {})[host] = entry, value
    return dict(sorted(found.items()))


def _agreed(
    kind: str, name: str, values: Mapping[str, Mapping[str, object]], refused: dict[str, list[Finding]]
) -> Mapping[str, Any] | None:
    """What all these hosts have; none where they differ, and then all are refused, for nobody knows who is right."""
    first = next(iter(values.values()))
    if all(_same(kind, value, first) for value in values.values()):
        return first
    found = "; ".join(f"{_words(kind, value)} on {host}" for host, value in values.items())
    for host in values:
        refused.setdefault(host, []).append(
            worded.host_error("lock-hosts-differ", Place(host=host, thing=name), found=found)
        )
    return None


def _other(
    kind: str, name: str, value: Mapping[str, object], anchor: Mapping[str, object], entry: Mapping[str, object]
) -> Finding:
    found = _words(kind, value)
    return worded.host_error(
        "lock-differs", f"{name}", found=found, kind__words=_words(kind, anchor), entry=entry[KINDS[kind].name]
    )


def _same(kind: str, value: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return all(value[part] == other[part] for part in KINDS[kind].known_by)


def _words(kind: str, value: Mapping[str, Any]) -> str:
    known = {part: value[part] for part in KINDS[kind].known_by if value[part]}
    return ", ".join(f"{part} {text.removeprefix('sha256:')[:12]}" for part, text in known.items())
