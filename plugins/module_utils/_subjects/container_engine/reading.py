# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads Docker's engine."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._host.probe.parts import Part, Run, UnreadableError, output

_DOWN = ("Cannot connect to the Docker daemon", "failed to connect to the docker API", "Is the docker daemon running")


_DAEMON = Path("/etc/docker/daemon.json")
_FIELDS = "LoadState,ExecStart,FragmentPath,DropInPaths"
# Options of dockerd that daemon.json knows by another name.
_SHORT = {"H": "hosts", "host": "hosts", "s": "storage-driver", "l": "log-level", "D": "debug", "g": "data-root"}
# What Docker makes in the kernel when it starts, and never again: by the backend of its packet filter, how to ask.
_RULES: Mapping[str, Mapping[str, list[str]]] = {
    "iptables": {
        f"the chain DOCKER of iptables' table {table}": ["iptables", "--wait", "-t", table, "--list-rules", "DOCKER"]
        for table in ("nat", "filter")
    },
    "nftables": {"nftables' table ip docker-bridges": ["nft", "--terse", "list", "table", "ip", "docker-bridges"]},
}
# What helps a daemon that hangs: systemd waits for it, and kills it in the end.
RESTART = "sudo systemctl restart docker on that host, then run again"
_GONE = re.compile("No chain/target/match by that name|No such file or directory")
# Settings whose values may be shown; of others, a proxy's password might be among them, only the names are read.
SHOWN = frozenset(
    {
        "bip",
        "data-root",
        "default-runtime",
        "default-shm-size",
        "features",
        "fixed-cidr",
        "icc",
        "iptables",
        "live-restore",
        "log-driver",
        "log-opts",
        "runtimes",
        "storage-driver",
    }
)


def read_daemon(run: Run) -> dict[str, Any]:
    """``{masked, flags, where, file, settings, names}``: whether its unit is masked; options on dockerd's command line
    by the names of daemon.json, with file and line of its unit that has each; the file that it reads instead of
    daemon.json, else empty; what daemon.json holds, and names: its settings whose values are not read.

    Whichever has a setting twice, dockerd does not start, and ``dockerd --validate`` does not see it.
    """
    try:
        words = output(run, ["systemctl", "show", "docker.service", f"--property={_FIELDS}"])
    except UnreadableError:
        words = ""
    try:
        document = json.loads(_DAEMON.read_text(encoding="utf-8") or "{}")
    except (FileNotFoundError, ValueError):
        document = {}
    shown = {key: value for key, value in sorted(document.items()) if key in SHOWN}
    flags, file = daemon_flags(words), re.search(r"--config-file[= ]([^\s;]+)", words)
    return {
        "masked": "LoadState=masked" in words.splitlines(),
        "flags": flags,
        "where": written(flags, unit_files(words)),
        "file": file[1] if file and file[1] != str(_DAEMON) else "",
        "settings": shown,
        "names": sorted(document.keys() - shown.keys()),
    }


def unit_files(shown: str) -> list[Path]:
    """The files of the unit, in the order in which systemd reads them."""
    fields = dict(line.partition("=")[::2] for line in shown.splitlines())
    return [Path(path) for name in ("FragmentPath", "DropInPaths") for path in fields.get(name, "").split()]


def written(flags: Sequence[str], files: Iterable[Path]) -> dict[str, str]:
    """``{flag: "file, line N"}``: the last line of these files that has it; none for what comes from elsewhere."""
    found: dict[str, str] = {}
    for file in files:
        try:
            lines = file.read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            found |= {flag: f"{file}, line {number}" for flag in flags if f"--{flag}" in line.replace("=", " ").split()}
    return found


def daemon_flags(shown: str) -> list[str]:
    """The options of dockerd in ``ExecStart={ path=... ; argv[]=/usr/bin/dockerd -H fd:// ... ; ...}``."""
    found = re.search(r"argv\[\]=\S+ (.*?) ;", shown)
    words = found.group(1).split() if found else []
    names = [word.lstrip("-").partition("=")[0] for word in words if word.startswith("-")]
    return sorted({_SHORT.get(name, name) for name in names})


def read_engine(run: Run) -> dict[str, Any]:
    """``{installed, running, hangs, version, store, missing_rules}``.

    hangs: why a daemon that is there gave no answer in time; only there for such a one. store: ``containerd``, or the
    graph driver's name; it, version and missing_rules are there of a daemon that answers. missing_rules: what Docker
    makes in the kernel when it starts, and is not there (`needed_rules`).
    """
    try:
        code, out, err = run(["docker", "info", "--format", "{{json .}}"])
    except FileNotFoundError:
        return {"installed": False, "running": False}
    except UnreadableError as why:
        return {"installed": True, "running": False, "hangs": str(why)}
    info = json.loads(out) if out.strip() else {}
    message = " ".join([*(info.get("ServerErrors") or []), err])
    if any(mark in message for mark in _DOWN):
        return {"installed": True, "running": False}
    if code != 0 or not info.get("ServerVersion"):
        raise UnreadableError(message.strip() or f"docker info ended with {code}")
    driver = dict(info.get("DriverStatus") or ()).get("driver-type", "")
    store = "containerd" if driver.startswith("io.containerd.snapshotter") else info["Driver"]
    # Docker before 28.1 does not report it, and knows iptables alone; "iptables+firewalld" is iptables.
    backend = (info.get("FirewallBackend") or {}).get("Driver", "iptables").partition("+")[0]
    return {
        "installed": True,
        "running": True,
        "version": info["ServerVersion"],
        "store": store,
        "missing_rules": [what for what, ask in _RULES.get(backend, {}).items() if _is_gone(run, ask)],
    }


def needed_rules(engine: Mapping[str, Any], daemon: Mapping[str, Any]) -> list[str]:
    """What Docker made in the kernel and somebody took away, as `nft flush ruleset` does: no container with a published
    port starts without. Both as they are read; where daemon's settings forbid rules, Docker made none.
    """
    missing = list(engine.get("missing_rules", ()))
    if missing and (daemon["settings"].get("iptables") is False or "iptables" in daemon["flags"] or daemon["file"]):
        return []
    return missing


def _is_gone(run: Run, ask: list[str]) -> bool:
    try:
        code, _out, err = run(ask)
    except FileNotFoundError:
        return False
    return code != 0 and bool(_GONE.search(err))


READS: Mapping[str, Part] = {"engine": lambda run, _ask: read_engine(run), "daemon": lambda run, _ask: read_daemon(run)}
