#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: netplan_apply
short_description: Change a netplan file and roll back if SSH is cut off
version_added: 0.1.0
description:
  - Writes one netplan file, applies it, and has the host itself take everything back within 90 seconds unless a new SSH
    connection, opened after the change was applied, confirms it.
  - Nothing is changed when netplan refuses the result, when another file configures the same interfaces, or when the
    interface that carries SSH would change without having been named.
  - A diff shows the files that change, and names those that are moved aside.
  - Needs the units and the program that the role P(gb10.fleet.fabric#role) installs.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  path:
    description: The file.
    type: path
    default: /etc/netplan/40-cx7.yaml
  content:
    description: Its text. Without it a file that bears this collection's mark is removed.
    type: str
  files:
    description: Further files that are changed and taken back together with it, texts by path. A null text removes one
      that bears this collection's mark.
    type: dict
    default: {}
  interfaces:
    description:
      - The state afterwards. An interface that differs is set right also when the file is as it should be.
      - Each is a map with C(name), C(address) (its one IPv4 address with prefix, or null) and C(mtu) (in bytes, or
        null). A key that is null is not compared. Keys that are left out are not compared either.
    type: list
    elements: dict
    required: true
  foreign:
    description: The treatment of other files that configure the same interfaces. With V(refuse) nothing is changed and
      they are named. With V(move) they are kept in C(/etc/gb10-fleet/netplan/moved).
    type: str
    choices: [refuse, move]
    default: refuse
  ssh_interface:
    description: The interface that carries SSH, where it may be changed.
    type: str
  restore:
    description: Also put back the files of others that O(foreign=move) has moved aside, in the same change, with an
      empty O(interfaces) and without O(content).
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Give both halves of port 1 their addresses
  gb10.fleet.netplan_apply:
    content: "{{ fabric_plan.files['/etc/netplan/40-cx7.yaml'].content }}"
    interfaces:
      - {name: enp1s0f1np1, address: 192.168.100.10/24, mtu: 9000}
      - {name: enP2p1s0f1np1, address: 192.168.101.10/24, mtu: 9000}
"""

RETURN = r"""
findings:
  description: Why nothing was changed, each with rule, place, found, expected and remedy.
  returned: when refused
  type: list
  elements: dict
differs:
  description: Whether there was anything to change, also where a task shows no change.
  returned: success
  type: bool
moved:
  description: Files that were moved aside, with the place of their copy.
  returned: success
  type: dict
  sample: {/etc/netplan/50-10gbe.yaml: /etc/gb10-fleet/netplan/moved/50-10gbe.yaml.1f2e3d4c}
live:
  description: The parts of the interfaces that were wrong before.
  returned: success
  type: list
  elements: str
transaction:
  description: The id of the change that waits to be confirmed.
  returned: when changed
  type: str
"""

import base64
import dataclasses
import fcntl
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._base.findings import FleetError
from ..module_utils._base.slice import Interface
from ..module_utils._host.netplan import judge, staging
from ..module_utils._host.netplan.ssh_session import carriers, session_address
from ..module_utils._host.settings.kernel_settings import normalised, sysctl_path
from ..module_utils._on_host.netplan import guard, record
from ..module_utils._on_host.netplan.links import CommandError, addresses, read_links, read_routes, run, unmet
from ..module_utils._operations.undo import record as undo
from ..module_utils._subjects.fabric import hotplug

# NetworkManager's own profiles. What netplan writes for it lies in /run.
PROFILES = ("/etc/NetworkManager/system-connections", "/usr/lib/NetworkManager/system-connections")
_SETTLE_PATIENCE_S = 90.0
# What `netplan generate` runs, which also has the host's systemd and udev read everything anew, whatever folder it
# renders: a check would not leave the host alone. Where there is a second program (netplan 1.2), the command alone
# knows what each of them does (netplan_cli/cli/utils.py).
_GENERATOR = Path("/usr/libexec/netplan/generate")
_CONFIGURATOR = Path("/usr/libexec/netplan/configure")
OPTIONS = {
    "path": {"type": "path", "default": "/etc/netplan/40-cx7.yaml"},
    "content": {"type": "str"},
    "files": {"type": "dict", "default": {}},
    "interfaces": {"type": "list", "elements": "dict", "required": True},
    "foreign": {"type": "str", "choices": ["refuse", "move"], "default": "refuse"},
    "ssh_interface": {"type": "str"},
    "restore": {"type": "bool", "default": False},
}


def main() -> None:
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    present = Path(module.params["path"]).exists()
    others = [path for path, text in module.params["files"].items() if text is not None or Path(path).exists()]
    copies = _copies() if module.params["restore"] else []
    if not (present or others or copies) and module.params["content"] is None and not module.params["interfaces"]:
        module.exit_json(changed=False, differs=False, diff=[], moved={}, live=[])
    if shutil.which("netplan") is None:
        module.fail_json(msg="there is no netplan on this host; apt-get install netplan.io [netplan-missing]")
    links = read_links()
    try:
        host = _read_host(links)
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or 'a file'}: {error.strerror}; repair or remove it [netplan-unreadable]"
        )
    wanted = module.params["interfaces"]
    try:
        decision = _decide(module, host, copies)
    except FleetError as refusal:
        module.fail_json(msg=str(refusal), findings=[finding.as_dict() for finding in refusal.findings])
    files = {path: _file(text) for path, text in decision.files.items()}
    loose = _loose_mode(module.params["path"], decision, host)
    files |= loose
    beside = {path: _beside(path, text) for path, text in module.params["files"].items()}
    beside = {path: file for path, file in beside.items() if file != record.snapshot(Path(path))}
    files |= beside
    live = unmet(wanted, links)
    changed = bool(files or live)
    diff = judge.describe(decision, host.files) + [_access_diff(path) for path in loose]
    diff += [_text_diff(path, file) for path, file in beside.items()]
    if live:
        diff.append({"before": "".join(f"{problem}\n" for problem in live), "after": "", "before_header": "interfaces"})
    if changed and os.statvfs("/etc").f_flag & os.ST_RDONLY:
        module.fail_json(
            msg="/etc is on a file system that is mounted read-only, nothing was changed: `dmesg` says why (often a "
            "damaged disk); repair it and restart the host, unless "
            "gb10.fleet.doctor shows restart-known-bad [netplan-read-only]"
        )
    result = {"changed": changed, "differs": changed, "diff": diff, "moved": dict(decision.moved), "live": live}
    if changed and not module.check_mode:
        _remember([link for link in links if link["ifname"] in {item["name"] for item in wanted}])
        result["transaction"] = _start(module, files, wanted)
    module.exit_json(**result)


def _decide(module: AnsibleModule, host: judge.Host, copies: list[Path]) -> judge.Decision:
    path, ssh_interface = module.params["path"], module.params["ssh_interface"]
    if module.params["restore"]:
        there = {**host.files, **{str(copy): copy.read_bytes() for copy in copies}}
        names = [str(copy) for copy in copies]
        return judge.decide_back(dataclasses.replace(host, files=there), _render, path, names, ssh_interface)
    return judge.decide(
        host,
        _render,
        path,
        module.params["content"],
        module.params["interfaces"],
        move_foreign=module.params["foreign"] == "move",
        ssh_interface=ssh_interface,
    )


def _copies() -> list[Path]:
    """What was moved aside, the oldest first."""
    return sorted(Path(judge.MOVED).glob("*"), key=lambda path: (path.stat().st_mtime, path.name))


def _remember(links: list[dict[str, Any]]) -> None:
    """What the interfaces are before the first change, and what the renderer itself sets on them by it."""
    undo.remember(
        "links", {link["ifname"]: {"mtu": link["mtu"], "addresses": sorted(addresses(link))} for link in links}
    )
    keys = [key for link in links if sysctl_path(key := f"net.ipv6.conf.{link['ifname']}.disable_ipv6").exists()]
    undo.remember("kernel", {key: normalised(sysctl_path(key).read_text(encoding="ascii")) for key in keys})


def _read_host(links: list[dict[str, Any]]) -> judge.Host:
    files = {str(path): path.read_bytes() for folder in judge.FOLDERS for path in sorted(Path(folder).glob("*.yaml"))}
    macs = {str(link["ifname"]): str(link.get("address", "")) for link in links if link["ifname"] != "lo"}
    # What an earlier change's guard could not put back is put back before anything else is changed.
    files = staging.owed(record.read()[0], files)
    profiles = {
        str(path): path.read_text(encoding="utf-8", errors="replace")
        for folder in PROFILES
        for path in sorted(Path(folder).glob("*"))
        if path.is_file()
    }
    adapter = {"marker": Path(hotplug.MARKER).exists(), "state": _text(Path(hotplug.STATE))}
    why = hotplug.absent(adapter)
    return judge.Host(
        files,
        macs,
        carriers(links, session_address(os.getppid())),
        altnames={other: str(link["ifname"]) for link in links for other in link.get("altnames", ())},
        profiles=profiles,
        routes=read_routes(),
        absent=(why, hotplug.SEAT if why else ""),
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def _render(files: Mapping[str, bytes]) -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="gb10-netplan-") as scratch:
        root = Path(scratch)
        for path, text in files.items():
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch(mode=0o600)
            target.write_bytes(text)
        is_whole = _GENERATOR.exists() and not _CONFIGURATOR.exists()
        try:
            run([*([str(_GENERATOR)] if is_whole else ["netplan", "generate"]), "--root-dir", scratch])
        except CommandError as refusal:
            raise judge.RenderError(str(refusal).replace(scratch, "")) from None
        return {
            path.name: path.read_text(encoding="utf-8", errors="replace")
            for folder in judge.RENDERED
            for path in sorted((root / folder).glob("*"))
        }


def _file(text: bytes | None, mode: int = 0o600) -> dict[str, Any] | None:
    if text is None:
        return None
    return {"content": base64.b64encode(text).decode("ascii"), "mode": mode, "uid": 0, "gid": 0}


def _beside(path: str, text: str | None) -> dict[str, Any] | None:
    """A further file as it is to be; one without our mark stays as it is where none is wanted."""
    present = record.snapshot(Path(path))
    if text is None and present is not None and not _content(present).startswith(layout.MARK.encode("ascii")):
        return present
    return _file(None if text is None else text.encode("utf-8"), 0o644)


def _content(file: Mapping[str, Any] | None) -> bytes:
    return base64.b64decode((file or {}).get("content", ""))


def _text_diff(path: str, file: Mapping[str, object] | None) -> dict[str, str]:
    before, after = (_content(content).decode("utf-8", "replace") for content in (record.snapshot(Path(path)), file))
    return judge.shown(path, before, after)


def _loose_mode(path: str, decision: judge.Decision, host: judge.Host) -> dict[str, dict[str, Any] | None]:
    """The file again, when its text is right and its mode or owner is not."""
    present = record.snapshot(Path(path))
    if present is None or path in decision.files or not host.files[path].startswith(layout.MARK.encode("ascii")):
        return {}
    wanted = _file(host.files[path])
    return {} if wanted == present else {path: wanted}


def _access_diff(path: str) -> dict[str, str]:
    return judge.shown(path, _access(record.snapshot(Path(path)) or {}), _access(_file(b"") or {}))


def _access(file: Mapping[str, object]) -> str:
    if "link" in file:
        return f"a link to {file['link']}\n"
    return f"mode {file['mode']:04o}, owner {file['uid']}:{file['gid']}\n"


def _start(module: AnsibleModule, files: dict[str, dict[str, object] | None], wanted: list[Interface]) -> str:
    """Stage the change and have the host's own unit carry it out; returns the change's id."""
    try:
        record.RUN.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Of two runs at once, the second finds the unit of the first.
        with (record.RUN / "lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _refuse_second(module)
            change = staging.stage(uuid.uuid4().hex, files, wanted)
            code, out, err = module.run_command(["systemctl", "start", guard.UNIT])
    except OSError as error:
        where = error.filename or record.STATE
        module.fail_json(
            msg=f"nothing was changed: {where}: {error.strerror}: a change is made only where it can be recorded; "
            "see `findmnt /etc /run`, `df /etc /run`, `dmesg` [netplan-no-record]"
        )
    if code != 0:
        module.fail_json(msg=f"{guard.UNIT} does not start, nothing was changed: {json.dumps(err or out)}")
    return str(change["id"])


def _refuse_second(module: AnsibleModule) -> None:
    if _unit_state(module) not in ("inactive", "failed"):
        module.fail_json(
            msg="another change of the network is not settled yet on this host: run again in 90 s [netplan-busy]"
        )
    if _unsettled():
        # Its own unit could not take it back then, for instance because its program was damaged.
        module.run_command(["systemctl", "start", guard.UNIT])
        deadline = time.monotonic() + _SETTLE_PATIENCE_S
        while _unit_state(module) not in ("inactive", "failed") and time.monotonic() < deadline:
            time.sleep(1.0)
    if _unsettled():
        module.fail_json(
            msg=f"an earlier change was neither confirmed nor taken back, see `journalctl -u {guard.UNIT}`: restart "
            "the host, unless doctor.yml shows restart-known-bad; it then takes the change back [netplan-unsettled]"
        )


def _unsettled() -> bool:
    return (record.load() or {}).get("phase") in record.UNSETTLED


def _unit_state(module: AnsibleModule) -> str:
    _code, state, _err = module.run_command(["systemctl", "show", "--property=ActiveState", "--value", guard.UNIT])
    return str(state).strip()


if __name__ == "__main__":
    main()
