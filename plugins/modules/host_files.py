#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: host_files
short_description: Create, update and remove a host's planned files, links and units
version_added: 0.1.0
description:
  - Writes and removes exactly what it is given, in one call. All belongs to root.
  - Each new file is complete before it replaces the earlier file. Other files beside them stay.
  - A folder in the place of a file, and a file in the place of a folder, is kept under its name with C(.damaged).
  - The state before the first change is noted in C(/etc/gb10-fleet/undo.json); M(gb10.fleet.host_removal) restores it.
  - The files are written in the order of their names, programs last, since they may import the others.
  - systemd reads its unit files again when one of them changed, before a unit is enabled or started.
options:
  files:
    description:
      - The content of each file, by its path, as C(mode) with C(content), or with C(source), a file of this collection
        by its path in it. With a C(content) of V(null) the file is removed.
      - Folders that are missing are made with mode C(0755).
    type: dict
    default: {}
  links: {description: "Where each symbolic link leads, by its path; V(null) removes it.", type: dict, default: {}}
  folders:
    description: The mode of each folder, by its path; with V(null) one that is there keeps its mode and owner.
    type: dict
    default: {}
  owns:
    description:
      - Patterns of paths that are ours, as a part of the plan has them (docs/how-to/extending.md). A file or link that
        matches and is in none of the other options is removed; a unit is stopped and disabled before.
      - No link is followed. A pattern that could match anything of others fails the task before the first change.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  units:
    description: systemd's units, by name, each V(enabled), or V(started), which also enables it. A unit that runs is
      restarted when its file, or the file of the service of the same name, changed.
    type: dict
    default: {}
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
"""

EXAMPLES = r"""
- name: Install a unit and enable it
  gb10.fleet.host_files:
    files:
      /etc/systemd/system/gb10-firewall.service: {mode: "0644", source: roles/firewall/files/gb10-firewall.service}
    units: {gb10-firewall.service: enabled}
"""

RETURN = r"""
changed_files:
  description: The paths of the files, links and folders that were written or removed, or that got other access.
  returned: always
  type: list
  elements: str
  sample: [/etc/systemd/system/gb10-firewall.service]
changed_units:
  description: The units that were enabled, started or restarted.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.own_files import clear_of_folders, set_aside
from ..module_utils._base.owned import require_pattern, undeclared
from ..module_utils._host.probe.files import find_owned
from ..module_utils._host.probe.parts import UnreadableError, bounded_run
from ..module_utils._host.probe.units import read_units
from ..module_utils._host.settings.units import State, decide, refusal
from ..module_utils._operations.undo import record

UNITS = "/etc/systemd/system/"
OWNER = "root"
COMMAND_SECONDS = 60
UNIT_KINDS = (".path", ".service", ".slice", ".socket", ".target", ".timer")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **{name: {"type": "dict", "default": {}} for name in ("files", "links", "folders", "units")},
            "owns": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        for pattern in wanted["owns"]:
            require_pattern(pattern)
    except ValueError as why:
        module.fail_json(msg=str(why))
    diffs: dict[str, list[dict[str, Any]]] = {}
    for name, mode in sorted(wanted["folders"].items()):
        diffs[name] = converge_folder(module, Path(name), mode)
    for name, file in sorted(wanted["files"].items(), key=starters_last):
        diffs[name] = converge_file(module, Path(name), file)
    for name, target in sorted(wanted["links"].items()):
        diffs[name] = converge_link(module, Path(name), target)
    for name in undeclared(find_owned(wanted["owns"]), {*wanted["files"], *wanted["links"]}):
        diffs[name] = sweep(module, Path(name), wanted["owns"])
    changed = [name for name, found in diffs.items() if found]
    units = converge_units(module, wanted["units"], [path for path in changed if path.startswith(UNITS)])
    module.exit_json(
        changed=bool(changed or units),
        changed_files=changed,
        changed_units=[*units],
        diff=[diff for found in (*diffs.values(), units.values()) for diff in found],
    )


def starters_last(entry: tuple[str, dict[str, Any]]) -> tuple[bool, str]:
    """What may be started while this goes on finds all that it imports."""
    path, file = entry
    return file["content"] is not None and bool(int(file["mode"], 8) & 0o111), path


def sweep(module: AnsibleModule, path: Path, owns: list[str]) -> list[dict[str, Any]]:
    """Remove a file or link of ours that nobody declares any more, and the folders that are empty without it."""
    target = str(path.readlink()) if path.is_symlink() else None
    before = path.read_text("utf-8", "replace") if target is None else {"target": target}
    if not module.check_mode:
        if str(path).startswith(UNITS) and target is None and path.suffix in UNIT_KINDS:
            systemctl(module, "disable", "--now", path.name)
        record.remember_file(path)
        path.unlink()
        for folder in path.parents:
            if f"{folder}/**" in owns or not any(f"{above}/**" in owns for above in folder.parents):
                break
            if any(folder.iterdir()):
                break
            folder.rmdir()
    return [headed(path, before, "" if target is None else {"target": None})]


def converge_folder(module: AnsibleModule, path: Path, mode: str | None) -> list[dict[str, Any]]:
    if path.is_dir():
        return access(module, path, mode) if mode else []
    make_folders(module, path)
    if mode and not module.check_mode:
        access(module, path, mode)
    return [headed(path, {"state": "absent"}, {"state": "directory"})]


def make_folders(module: AnsibleModule, path: Path) -> None:
    missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
    for folder in [] if module.check_mode else reversed(missing):
        record.remember_folder(folder)
        if folder.exists() or folder.is_symlink():
            set_aside(folder)
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)  # whatever the umask


def converge_file(module: AnsibleModule, path: Path, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """What changed of one file, as diffs: its text, its access."""
    content = wanted["content"]
    is_there = path.is_file() or path.is_symlink()
    text = path.read_text("utf-8", "replace") if path.is_file() and not path.is_symlink() else None
    if content is None:
        if is_there and not module.check_mode:
            record.remember_file(path)
            path.unlink()
        return [headed(path, text or "", "")] if is_there else []
    found = [] if text == content else [headed(path, text or "", content)]
    if found and not module.check_mode:
        record.remember_file(path)
        make_folders(module, path.parent)
        with NamedTemporaryFile("w", dir=module.tmpdir, encoding="utf-8", delete=False) as new:
            new.write(content)
        Path(new.name).chmod(int(wanted["mode"], 8))
        if path.is_symlink():
            path.unlink()
        clear_of_folders(path)
        module.atomic_move(new.name, str(path))
    # of a new file its access is no news
    changed = access(module, path, wanted["mode"]) if path.exists() else []
    return found + (changed if text is not None else [])


def converge_link(module: AnsibleModule, path: Path, target: str | None) -> list[dict[str, Any]]:
    have = str(path.readlink()) if path.is_symlink() else None
    if have is None and path.exists():
        module.fail_json(msg=f"{path}: found a file or folder, expected a link or nothing; move it away, and run again")
    if have == target:
        return []
    if not module.check_mode:
        record.remember_file(path)
        path.unlink(missing_ok=True)
        if target is not None:
            make_folders(module, path.parent)
            path.symlink_to(target)
    return [headed(path, {"target": have}, {"target": target})]


def access(module: AnsibleModule, path: Path, mode: str) -> list[dict[str, Any]]:
    """Owner, group and mode."""
    wanted = {"path": str(path), "owner": OWNER, "group": OWNER, "mode": mode, "attributes": None}
    diff: dict[str, Any] = {}
    changed = module.set_fs_attributes_if_different(wanted | {"secontext": [None]}, False, diff)
    return [diff | {"before_header": str(path), "after_header": str(path)}] if changed else []


def headed(path: Path, before: object, after: object) -> dict[str, Any]:
    return {"before": before, "after": after, "before_header": str(path), "after_header": str(path)}


def converge_units(module: AnsibleModule, wanted: dict[str, str], changed: list[str]) -> dict[str, dict[str, Any]]:
    """A diff of each that was enabled, started or restarted; changed: unit files that were written or removed."""
    names = {Path(path).stem for path in changed}
    try:
        found = read_units(bounded_run(COMMAND_SECONDS), wanted)
    except UnreadableError as why:
        module.fail_json(msg=f"systemd's units can't be read: {why}")
    changes = {}
    for unit, state in sorted(wanted.items()):
        has_changed = Path(unit).stem in names
        started: State | None = None if state == "enabled" else "restarted" if has_changed else "started"
        changes[unit] = decide(found[unit], started, enabled=True)
        if problem := refusal(unit, found[unit], changes[unit], may_come=module.check_mode):
            module.fail_json(msg=problem.sentence())
    if not module.check_mode:
        # systemd reads everything anew at each `enable`, and once is enough.
        enabled = [unit for unit, change in changes.items() if "enable" in change.verbs]
        if enabled:
            systemctl(module, "enable", "--no-reload", *enabled)
        if changed or enabled:
            systemctl(module, "daemon-reload")
        for unit, change in changes.items():
            for verb in change.verbs:
                if verb != "enable":
                    systemctl(module, verb, unit)
    return {unit: change.diff(unit) for unit, change in changes.items() if change.verbs}


def systemctl(module: AnsibleModule, *words: str) -> None:
    code, _out, error = module.run_command(["systemctl", *words])
    if code:
        module.fail_json(msg=f"systemctl {' '.join(words)}: {error.strip()}; journalctl -xe says more")


if __name__ == "__main__":
    main()
