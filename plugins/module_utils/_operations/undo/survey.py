# SPDX-License-Identifier: GPL-3.0-or-later
"""What of ours is on a host, and what is not as it was before: each with the step that undoes it.

The same look is the plan of a removal, what check mode shows, and the proof afterwards: nothing is left to be found.
Network and firewall go before, by their own transactions.
"""

import base64
import contextlib
import pwd
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..._base import layout
from ..._base.staging import LOCKS
from ..._host.settings import json_settings, kernel_settings
from ..._on_host.netplan.links import addresses, read_links
from ..._on_host.netplan.record import put, snapshot
from ..._stores.transfer.access import ACCOUNT
from ..._subjects.services.reading import read_units

# What the choice of each keeps: of models and images also the notes by which they are known.
KEPT: Mapping[str, tuple[str, ...]] = {"models": ("hf", "models"), "images": ("images",), "data": ("clients",)}
# Of units with a state folder of their own, systemd's place for it.
_STATE_FOLDERS = ("/var/lib/gb10-prometheus", "/var/lib/gb10-alertmanager", layout.PHOENIX_DATA)
# These go when nothing is left to be undone.
_RECORDS = (layout.UNDO, layout.INSTALLED)
BACKUPS = Path("/var/backups/gb10-fleet")
PACKAGES, _PACKAGES = BACKUPS / "packages", Path("/var/lib/dpkg/info")
_DOCKER = "/etc/docker/daemon.json"
_CERTIFICATES = Path(layout.trusted_ca("")).parent
_TRUSTED = Path(layout.trusted_link(layout.trusted_ca(""))).parent
_LAST = ("gb10-memory-guard", "gb10-firewall", "gb10-netplan")  # what guards the host goes after what it guards
_AT_REST = ("", "inactive", "failed")

# (exit code, stdout, stderr) of an argument list
Run = Callable[[list[str]], tuple[int, str, str]]


@dataclass(frozen=True)
class RemovalStep:
    """One thing that is not as it was. act: undoes it. then: commands for all that ask for
    them, once, at the end."""

    place: str
    found: str
    before: str
    act: Callable[[], None]
    then: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class RemovalOrder:
    """paths: files and links that the host's slice names. links: the addresses that it gives, by interface.

    keep: of `KEPT`, what stays.
    """

    paths: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    keep: frozenset[str] = frozenset(KEPT)


def survey(asked: RemovalOrder, record: Mapping[str, Any] | None, run: Run) -> list[RemovalStep]:
    """In the order in which it has to go."""
    known = record or {"files": {}, "folders": {}, "json": {}, "kernel": {}, "links": {}}
    steps = [
        *running(run),
        *_containers(run),
        *_files(asked, known),
        *_json(known["json"]),
        *_certificates(),
        *_of_owner(asked.paths),
        *_folders(asked.keep),
        *_account(run),
        *_kernel(known["kernel"], run),
        *_links(asked.links, known["links"], run),
    ]
    return [*steps, *_made(known["folders"], {step.place for step in steps})]


def foreign(inventory: str) -> list[str]:
    """Units that another inventory wrote, with its name: they are not ours to remove."""
    units = read_units()
    return [f"{unit['unit']} ({unit['inventory']})" for unit in units if unit["inventory"] not in ("", inventory)]


def running(run: Run) -> Iterator[RemovalStep]:
    """Units of ours that run, or will at the next boot. Stopping a service lets it end the answers that it gives."""
    for unit in _units():
        # of a converge that is under way: "activating", for which is-active says no
        active = run(["systemctl", "show", "--property=ActiveState", "--value", unit])[1].strip() not in _AT_REST
        enabled = run(["systemctl", "is-enabled", "--quiet", unit])[0] == 0
        if active or (enabled and not unit.endswith(".slice") and _has_install(unit)):
            state = " and ".join(word for word, holds in (("runs", active), ("is enabled", enabled)) if holds)
            yield RemovalStep(unit, state, "not there", partial(_must, run, ["systemctl", "disable", "--now", unit]))


def _has_install(unit: str) -> bool:
    return "[Install]" in (Path(layout.UNITS) / unit).read_text("utf-8", "replace")


def _units() -> list[str]:
    names = [path.name for path in Path(layout.UNITS).glob("gb10-*") if path.is_file()]
    return sorted(names, key=lambda name: (name.startswith(_LAST), not name.endswith(".timer"), name))


def _containers(run: Run) -> Iterator[RemovalStep]:
    if not shutil.which("docker"):
        return
    code, out, _error = run(["docker", "ps", "--all", "--format", "{{.Names}}"])
    for name in sorted(out.split()) if code == 0 else ():
        if layout.service_of(name) or layout.client_of(f"{name}.service"):
            remove = ["docker", "rm", "--force", "--volumes", name]
            yield RemovalStep(f"container {name}", "is there", "not there", partial(_must, run, remove))


def _files(asked: RemovalOrder, known: Mapping[str, Any]) -> Iterator[RemovalStep]:
    """Of the slice what bears our name, of the record what is not as it was. Of a link without a record, the
    distribution's own default is what it leads to once it is gone."""
    units = [str(path) for path in Path(layout.UNITS).glob("gb10-*")]
    for path in sorted({*asked.paths, *units} - {*known["files"]}):
        if not path.startswith(tuple(f"{folder}/" for folder in layout.OWN_FOLDERS)) and _there(path):
            yield RemovalStep(path, "is there", "not there", partial(remove, Path(path)), _reread(path))
    for path, file in known["files"].items():
        if snapshot(Path(path)) != file:
            was = "not there" if file is None else f"a link to {file['link']}" if "link" in file else "another file"
            yield RemovalStep(path, "is ours", was, partial(put, Path(path), file), _reread(path))


def _reread(path: str) -> tuple[tuple[str, ...], ...]:
    """systemd's own settings it reads anew only so; what starts meanwhile is lost, and nothing of ours starts."""
    if path.startswith("/etc/systemd/system.conf.d/"):
        return (("systemctl", "daemon-reexec"),)
    return (("systemctl", "daemon-reload"),) if path.startswith("/etc/systemd/") else ()


def _json(known: Mapping[str, Any]) -> Iterator[RemovalStep]:
    """Our keys go, whatever their owner has changed of others meanwhile."""
    for path, entry in known.items():
        file = Path(path)
        now = json_settings.parsed(path, file.read_text("utf-8") if file.is_file() else "")
        before = json_settings.parsed(path, _text(entry["file"]))
        back = json_settings.restored(now, before, entry["keys"])
        keys = json_settings.changed_keys(now, back)
        if keys or (file.exists() and entry["file"] is None and not back):
            then = (("systemctl", "try-restart", "docker.service"),) if path == _DOCKER else ()
            # the very bytes of before where they say the same
            whole = entry["file"] if back == before else {**(snapshot(file) or {}), "content": _encoded(back)}
            yield RemovalStep(path, f"has our {', '.join(keys)}", "its own values", partial(put, file, whole), then)


def _certificates() -> Iterator[RemovalStep]:
    """What this host trusts by us. Without `--fresh` the links to what is gone stay."""
    for path in (*sorted(_CERTIFICATES.glob("gb10-fleet-*.crt")), *sorted(_TRUSTED.glob("gb10-fleet-*.pem"))):
        then = (("update-ca-certificates", "--fresh"),)
        yield RemovalStep(str(path), "this host trusts it", "not there", partial(remove, path), then)


def _of_owner(paths: Iterable[str]) -> Iterator[RemovalStep]:
    """Files in our folders of settings that we did not write. They are kept elsewhere, and named."""
    ours = {*paths, layout.UNDO, layout.LAST_RUN, layout.HOTPLUG, layout.FIREWALL, layout.METRICS_PLAN}
    for folder in (layout.CONFIG, layout.SERVICES, layout.GATEWAY, layout.CLIENTS, layout.MONITORING):
        for file in sorted(Path(folder).glob("[!.]*")):
            if file.is_file() and str(file) not in ours:
                place = BACKUPS / f"{file.parent.name}-{file.name}"
                yield RemovalStep(str(file), "is none of ours", f"kept as {place}", partial(_keep, file, place))


def _keep(file: Path, place: Path) -> None:
    place.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.move(file, place)


def _folders(keep: Iterable[str]) -> Iterator[RemovalStep]:
    """All of ours but `_RECORDS`."""
    kept = {f"{layout.STATE}/{name}" for kind in keep for name in KEPT[kind]}
    kept |= {*_STATE_FOLDERS} if "data" in keep else set()
    run = sorted(str(path) for path in Path("/run").glob("gb10-*") if path not in locks())
    inside = [str(path) for path in sorted(Path(layout.STATE).glob("*"))]
    inside += [path for path in sorted(map(str, Path(layout.CONFIG).glob("*"))) if path not in _RECORDS]
    for path in (*inside, layout.LIBRARY, layout.COMPILED, *_STATE_FOLDERS, *run):
        if path not in kept and _there(path):
            yield RemovalStep(path, "is there", "not there", partial(remove, Path(path)))
    state = Path(layout.STATE)
    if state.is_dir() and not any(str(path) in kept for path in state.iterdir()):
        yield RemovalStep(str(state), "is there", "not there", partial(remove, state))


def locks() -> list[Path]:
    """What a run that finds nothing leaves as well: no difference, and gone at its end."""
    found = Path("/run").glob("gb10-*")
    left = {LOCKS.name, Path(layout.LEASE).name}
    return [path for path in found if path.suffix == ".lock" or (path.is_dir() and left.issuperset(_names(path)))]


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def _account(run: Run) -> Iterator[RemovalStep]:
    with contextlib.suppress(KeyError):
        pwd.getpwnam(ACCOUNT)
        yield RemovalStep(f"account {ACCOUNT}", "is there", "not there", partial(_must, run, ["userdel", ACCOUNT]))


def _kernel(before: kernel_settings.Values, run: Run) -> Iterator[RemovalStep]:
    differing = kernel_settings.unlike_before(before)
    for name, now in differing.items():
        yield RemovalStep(name, now, before[name], partial(kernel_settings.put_back, {name: before[name]}, run))


def _links(given: Mapping[str, str], before: Mapping[str, Any], run: Run) -> Iterator[RemovalStep]:
    """netplan leaves on an interface what it no longer names."""
    for link in read_links() if given or before else ():
        name = str(link["ifname"])
        known = before.get(name, {"addresses": [], "mtu": link["mtu"]})
        address = given.get(name)
        if address in addresses(link) and address not in known["addresses"]:
            away = ["ip", "address", "delete", address, "dev", name]
            yield RemovalStep(name, f"has {address}", "without it", partial(_must, run, away))
        if name in before and link["mtu"] != known["mtu"]:
            set_mtu = ["ip", "link", "set", "dev", name, "mtu", str(known["mtu"])]
            found, was = f"MTU {link['mtu']}", f"MTU {known['mtu']}"
            yield RemovalStep(name, found, was, partial(_must, run, set_mtu))


def _made(folders: Iterable[str], going: Collection[str]) -> Iterator[RemovalStep]:
    """Folders that were made for a file, the deepest first; whoever has put something in has one of his own now.

    going: paths that are gone by then.
    """
    for folder in sorted(folders, key=len, reverse=True):
        path = Path(folder)
        files = {str(entry) for entry in path.rglob("*") if entry.is_symlink() or not entry.is_dir()}
        if path.is_dir() and files <= {*going}:
            yield RemovalStep(folder, "is there", "not there", partial(_rmdir, path))


def brought() -> list[str]:
    """The packages that roles installed. Those of an earlier removal count while they are here."""
    earlier = PACKAGES.read_text("utf-8").split() if PACKAGES.is_file() else []
    here = {name for name in earlier if [*_PACKAGES.glob(f"{name}.list"), *_PACKAGES.glob(f"{name}:*.list")]}
    return sorted(here | {path.name for path in Path(layout.INSTALLED).glob("*")})


def leave() -> None:
    """Takes the records away. The packages are kept by name, for the next removal: a converge finds them here."""
    if packages := brought():
        PACKAGES.parent.mkdir(mode=0o700, exist_ok=True)
        PACKAGES.write_text("".join(f"{name}\n" for name in packages), "utf-8")
    shutil.rmtree(layout.CONFIG)


def stays(record: Mapping[str, Any] | None, keep: Iterable[str], unset: Iterable[str]) -> list[str]:
    """What is not as it was, in sentences: by choice, or since nobody knows how it was.

    unset: names of the kernel's values that the slice declares.
    """
    found = []
    if packages := brought():
        found.append(f"packages that were installed stay: apt-get remove {' '.join(packages)} takes them away")
    for kind in sorted(keep):
        paths = [f"{layout.STATE}/{name}" for name in KEPT[kind]] + [*(_STATE_FOLDERS if kind == "data" else ())]
        there = [path for path in paths if _there(path)]
        if there:
            found.append(f"{kind} stay, with {', '.join(there)}: -e {kind}=true removes them")
    if record is None or record["late"]:
        names = [name for name in unset if not record or name not in record["kernel"]]
        reason = "this host was converged by a release that kept no record of the earlier state"
        found.append(
            f"{reason}: files and links of ours are gone, so that the distribution's own hold from the next boot on; "
            f"until then {', '.join(names) or 'the kernel'} stay as they are, and {_DOCKER} as it says"
        )
    return found


def _there(path: str) -> bool:
    return Path(path).exists() or Path(path).is_symlink()


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _rmdir(path: Path) -> None:
    """With the folders in it, of which one that is removed before is gone already."""
    if path.is_dir():
        for folder in sorted(path.rglob("*"), key=lambda entry: len(str(entry)), reverse=True):
            folder.rmdir()
        path.rmdir()


def _must(run: Run, command: list[str]) -> None:
    code, out, err = run(command)
    if code:
        raise OSError(f"{' '.join(command)}: {(err or out).strip()[-500:]}")


def _text(file: Mapping[str, Any] | None) -> str:
    return base64.b64decode((file or {}).get("content", "")).decode("utf-8", "replace")


def _encoded(data: Mapping[str, object]) -> str:
    return base64.b64encode(json_settings.written(data).encode("utf-8")).decode("ascii")
