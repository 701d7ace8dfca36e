# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may read images and models from a host: the program that runs as root for them, and the keys that start it."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from ..._base.findings import Difference
from ..._base.gb10 import data_table, text_of
from ..._base.layout import CACHES, LIBRARY, MODELS, STATE, UNITS
from ..._base.managed import Managed, ManagedJson, managed
from ..._base.reading import Peers
from ..._base.received import one_line
from ..._base.slice import Access, Files, PeerAccess
from ..._base.subject import Differences, DriftContext, Questions, SliceContext, Subject
from ..transfer import access
from ..transfer.access import PROGRAM
from .reading import READS
from .start import SLICE

_PACKAGE = "ansible_collections/gb10/fleet/plugins/module_utils"
_FOLDER = f"{LIBRARY}/peer"
OWNS = f"{_FOLDER}/**"  # another release has other modules
# All that the server and what starts it import of this collection: a test holds the list equal to what they load.
MODULES: tuple[str, ...] = data_table("peer_modules")
_SERVE = f"{_FOLDER}/serve"
_INTERPRETER = "#!/usr/bin/env -S python3 -IB\n"


def _starting(module: str, arguments: str, started_by: str) -> str:
    """A program that runs a module's `main`."""
    words = {"folder": _FOLDER, "package": _PACKAGE.replace("/", "."), "module": module}
    # The text has no first line of a program: ansible-test refuses that in a file that is none.
    return _INTERPRETER + text_of("peer_start.txt", **words, arguments=arguments, started_by=started_by)


def program_files() -> Files:
    """``{path: {mode, content or source}}``. Without the empty files Ansible's packages would count."""
    parents = ["/".join(_PACKAGE.split("/")[:depth]) for depth in range(1, _PACKAGE.count("/") + 2)]
    return {
        PROGRAM: {"mode": "0755", "content": _starting("start", f'"{_SERVE}"', "sshd for other hosts, by sudo")},
        _SERVE: {"mode": "0755", "content": _starting("server", "sys.argv[1:]", f"{PROGRAM}, within limits")},
        f"{UNITS}/{SLICE}": {"mode": "0644", "content": text_of("peer.slice")},
        **{f"{_FOLDER}/{parent}/__init__.py": {"mode": "0644", "content": ""} for parent in parents},
        **{
            f"{_FOLDER}/{_PACKAGE}/{name}.py": {"mode": "0644", "source": f"plugins/module_utils/{name}.py"}
            for name in MODULES
        },
    }


def peer_access(here: SliceContext) -> PeerAccess:
    """``peer_access_plan``: ``{reads, readers, files, inventory}``; the hosts follow from the sources of images and
    models."""
    return with_files(here.slices["peer_access"], here.fleet["name"])


def with_files(who: Access, inventory: str) -> PeerAccess:
    """``{reads, readers}`` with the files that let the readers of that inventory in; without readers there are none,
    and the module `peer_access` takes away what is there, unless another inventory lets others in."""
    if not who["readers"]:
        return {"reads": who["reads"], "readers": {}, "files": {}, "inventory": inventory}
    places = json.dumps({"folder": STATE, "models": MODELS, "caches": list(CACHES)}, indent=1, sort_keys=True) + "\n"
    return {
        "reads": who["reads"],
        "readers": who["readers"],
        "inventory": inventory,
        "owns": [OWNS],
        "files": {
            **program_files(),
            access.PLACES: {"mode": "0644", "content": places},
            access.SUDOERS: {"mode": access.ENTRIES[access.SUDOERS], "content": access.sudoers(inventory)},
        },
    }


def _files(plan: PeerAccess) -> Iterator[Managed | ManagedJson]:
    """The keys in these two are known to the hosts alone: `_differences` compares them."""
    yield from managed(plan)
    if plan["readers"]:
        yield Managed(access.AUTHORIZED_KEYS, "file", "0644")
    if plan["reads"]:
        yield Managed(access.KNOWN_HOSTS, "file", "0644")


def _differences(view: DriftContext) -> Differences:
    present, given, plan = view.state["peers"], view.state["peers_inventory"], view.slice["peer_access"]
    is_ours = bool(plan["readers"]) or not access.is_of_another(given, plan["inventory"])
    if present is not None:
        if is_ours:
            yield from _authorized(view, present["authorized"], plan["readers"])
        yield from _known(view, present["known"], plan["reads"])
    for path in (view.state["peers_entries"] or ()) if is_ours and not plan["readers"] else ():
        yield view.difference("error", "file-kind", f"file {one_line(path)}", found="a file", expected="no such file")


def _authorized(
    view: DriftContext, lines: Mapping[str, str], readers: Mapping[str, Collection[str]]
) -> Iterator[Difference]:
    """One line a reader, which starts our program alone; its own key and addresses where these could be read."""
    place = f"file {access.AUTHORIZED_KEYS}"
    for name in sorted(lines.keys() - {*readers}):
        expected = "no key of anybody but " + (", ".join(readers) or "nobody")
        yield view.difference("error", "peer-key-undeclared", place, found=f"a key of {name[:80]!r}", expected=expected)
    for name in readers:
        if name not in lines:
            yield view.differs("warning", "peer-key-missing", f"{place}, {name}", name=name)
            continue
        options, _, key = lines[name].partition(" ssh-")
        expected = _options(view, name, options, readers[name])
        theirs = _key_of(view, name, "public_key")
        if options != expected:
            yield view.difference(
                "error", "peer-key-options", f"{place}, {name}", found=options[:200], expected=expected
            )
        elif theirs and access.bare(f"ssh-{key}") != theirs:
            yield view.differs("error", "peer-key-other", f"{place}, {name}", name=name)


def _options(view: DriftContext, reader: str, found: str, planned: Collection[str]) -> str:
    """What a reader's line begins with: its addresses in the plan and, where it was asked, those that it comes from."""
    theirs = _peers_of(view, reader)
    try:
        return access.options([*planned, *(theirs["addresses"] if theirs else access.addresses_in(found))])
    except ValueError as problem:
        return f"addresses of {reader} ({problem})"


def _known(view: DriftContext, keys: Mapping[str, str], reads: Collection[str]) -> Iterator[Difference]:
    """The SSH host keys of those that this host reads from."""
    for name in reads:
        place, theirs = f"file {access.KNOWN_HOSTS}, {name}", _key_of(view, name, "host_key")
        if name not in keys:
            yield view.differs("warning", "peer-host-missing", place, name=name)
        elif theirs and keys[name] != theirs:
            yield view.differs("error", "peer-host-other", place, name=name)


def _key_of(view: DriftContext, host: str, which: Literal["public_key", "host_key"]) -> str:
    """Empty where that host could not be read, or has none."""
    theirs = _peers_of(view, host)
    return theirs[which] if theirs else ""


def _peers_of(view: DriftContext, host: str) -> Peers | None:
    return view.states[host]["peers"] if host in view.states else None


def _questions(asked: Questions) -> Mapping[str, Any]:
    """Whom it reads from, and at which addresses."""
    return {"reads": asked.slice["peer_access"]["reads"]}


PEER_ACCESS = Subject(
    "peer_access", slice=peer_access, questions=_questions, files=_files, read=READS, differences=_differences
)
