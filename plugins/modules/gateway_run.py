#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: gateway_run
short_description: Validate, install and load the gateway's configuration
version_added: 0.1.0
description:
  - Compares configuration, maps, certificate and keys with the plan. Where one differs, all of them are laid beside the
    running gateway's and shown to HAProxy first; only what it takes comes into their place. If HAProxy refuses a
    configuration, every file stays as it was, so the host's next start works also.
  - Removes files of the gateway's folder that it does not need, such as keys of services that it reaches no more, and
    the unit of a floating address that is declared no more.
  - Starts the gateway's unit, now and at boot, where it does not run. If one of its files changed since it last read
    them, also in a run that was cut off, it reads them again; running answers go on to their end.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  plan:
    description: C(gateway) of the host's slice of the plan. Its unit is written before.
    type: dict
    required: true
  ca:
    description: The local CA that the host trusts, which verifies the services; empty if there is none.
    type: path
  unit_written: {description: "Whether its unit was written in this run, or would be.", type: bool, default: false}
  secrets: {description: "The secrets, which are in no plan, as text by path; the action reads them.", type: dict}
attributes:
  action:
    description: Reads keys and the certificate on the controller, also those that ansible-vault encrypted.
    support: full
"""

EXAMPLES = r"""
- name: Run the gateway
  gb10.fleet.gateway_run:
    plan: "{{ fleet_slice.gateway }}"
"""

RETURN = r"""
did:
  description: The actions that were taken, or would be, of V(start), V(reload) and V(enable).
  returned: success
  type: list
  elements: str
changed_files:
  description: Files that were written or removed, or would be.
  returned: success
  type: list
  elements: str
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._base.own_files import clear_of_folders, holds, replace_file
from ..module_utils._subjects.gateway.reading import (
    ADDRESS_CONFIG,
    ADDRESS_PROGRAM,
    BODIES_CONFIG,
    CONFIG,
    PROGRAM,
    leftovers,
    lost,
    reaches,
    unread,
)
from ..module_utils._subjects.tls.clients_view import CLOCKS, refused

# In the gateway's own folder, which root alone reads.
_STAGED = f"{layout.GATEWAY}/staged"
_PATIENCE_S = 20.0

Files = Mapping[str, Mapping[str, Any]]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "ca": {"type": "path"},
            "unit_written": {"type": "bool", "default": False},
            "secrets": {"type": "dict", "no_log": True},
        },
        supports_check_mode=True,
    )
    with contextlib.nullcontext() if module.check_mode else _alone():
        converge(module)


def converge(module: AnsibleModule) -> None:
    plan, ca, secrets = (module.params[name] for name in ("plan", "ca", "secrets"))
    shown = {path: file for path, file in plan["files"].items() if path.startswith(f"{layout.GATEWAY}/")}
    files = {**shown, **{path: {"mode": "0600", "content": text} for path, text in secrets.items()}}
    other = [path for path, file in files.items() if _differs(Path(path), file)]
    too_many = leftovers([*plan["files"], *files], layout.GATEWAY)
    is_active, is_enabled = (_holds(module, word, plan["units"]) for word in ("is-active", "is-enabled"))
    changed = unread([*plan["files"], *secrets, *([ca] if ca else [])]) if is_active else []
    did = [] if is_enabled else ["enable"]
    if not is_active or changed is None:
        did.append("start")
    elif changed or other or module.params["unit_written"]:
        did.append("reload")
    diffs = [*_diffs(shown, other, too_many), _state(is_active, is_enabled, changed, did)]
    if not module.check_mode:
        shutil.rmtree(_STAGED, ignore_errors=True)  # of a run that was cut off
        if {"start", "reload"} & {*did}:
            _require_supervisors(module, plan["readiness"])
            _require_shown(module, plan["tls"], secrets, ca)
            _require_valid(module, files)
        for path in other:
            _write(Path(path), files[path])
        for path in too_many:
            if path.startswith(f"{layout.UNITS}/"):
                _systemctl(module, ["disable", "--now"], Path(path).name)
            Path(path).unlink(missing_ok=True)
        if any(path.startswith(f"{layout.UNITS}/") for path in too_many):
            module.run_command(["systemctl", "daemon-reload"], check_rc=True)
        for word in did:
            for unit in plan["units"]:
                _systemctl(module, [word if word == "enable" else "reload-or-restart"], unit)
    module.exit_json(
        changed=bool(did or other or too_many), did=did, changed_files=sorted([*other, *too_many]), diff=diffs
    )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Of two runs at once, the second one looks when the first one has ended; the kernel ends it with the process."""
    Path(layout.GATEWAY).mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(layout.GATEWAY, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _differs(path: Path, wanted: Mapping[str, Any]) -> bool:
    return wanted["content"] is None or not holds(path, wanted["content"].encode(), int(wanted["mode"], 8))


def _write(path: Path, wanted: Mapping[str, Any]) -> None:
    clear_of_folders(path)
    replace_file(path, wanted["content"].encode(), int(wanted["mode"], 8))


def _diffs(shown: Files, other: list[str], too_many: list[str]) -> Iterator[dict[str, Any]]:
    """Of secrets and of files that go nothing but that."""
    for path in other:
        file = Path(path)
        before = file.read_text("utf-8", "replace") if path in shown and file.is_file() else ""
        after = shown[path]["content"] if path in shown else "another content, which is not shown\n"
        yield {"before": before, "after": after, "before_header": path, "after_header": path}
    for path in too_many:
        yield {"before": "a file that is not needed\n", "after": "", "before_header": path, "after_header": path}


def _state(active: bool, enabled: bool, changed: list[str] | None, did: list[str]) -> dict[str, Any]:
    before = {"active": active, "enabled": enabled, "unread": changed or []}
    after = {"active": True, "enabled": True, "unread": []} if did else before
    header = layout.GATEWAY_UNIT
    return {"before": before, "after": after, "before_header": header, "after_header": header}


def _holds(module: AnsibleModule, word: str, units: Iterable[str]) -> bool:
    """Of each unit: systemctl itself is content with one."""
    return all(module.run_command(["systemctl", word, "--quiet", unit])[0] == 0 for unit in units)


def _require_shown(module: AnsibleModule, tls: Mapping[str, Any], secrets: Mapping[str, str], ca: str | None) -> None:
    """Refuse a certificate that clients would, before it is brought."""
    certificate, key = (secrets[tls[kind]["path"]] for kind in ("certificate", "key"))
    proved = Path(ca).read_text("ascii", "replace") if ca and tls["ca"] and Path(ca).is_file() else None
    if problem := refused(certificate, key, proved, tls["names"]):
        module.fail_json(msg=f"the gateway: {problem}, and nothing of it was changed; {CLOCKS} [certificate-refused]")


def _require_supervisors(module: AnsibleModule, readiness: Mapping[str, Any]) -> None:
    """Refuse to go by supervisors that say nothing: their clients would find nobody. One that was just started anew
    has its time."""
    until = time.monotonic() + _PATIENCE_S
    while places := lost(readiness, reaches):
        if time.monotonic() > until:
            module.fail_json(
                msg=f"the gateway serves {', '.join(places)}, where no supervisor says whether it serves, as one of an "
                "earlier release, and nothing of the gateway was changed; run site.yml for those hosts, too (no -l) "
                "[gateway-readiness]"
            )
        time.sleep(1)


def _require_valid(module: AnsibleModule, files: Files) -> None:
    """Show its programs the whole set, in a folder of its own whose path stands in the place of the gateway's."""
    asked = [(PROGRAM, "-q", "-c", "-f", _as_staged(config)) for config in (CONFIG, BODIES_CONFIG)]
    if ADDRESS_CONFIG in files:
        asked.append((ADDRESS_PROGRAM, "--config-test", "--log-console", "--use-file", _as_staged(ADDRESS_CONFIG)))
    try:
        for path, file in files.items():
            text = _as_staged(file["content"]) if path in (CONFIG, BODIES_CONFIG) else file["content"]
            replace_file(Path(_as_staged(path)), text.encode(), int(file["mode"], 8))
        for words in asked:
            code, out, error = module.run_command([*words])
            if code:
                break
    finally:
        shutil.rmtree(_STAGED, ignore_errors=True)
    if code:
        why = (error or out).strip()[-2000:].replace(_STAGED, layout.GATEWAY)
        who = "HAProxy" if words[0] == PROGRAM else "keepalived"
        module.fail_json(
            msg=f"{who} refuses the new configuration, and nothing of it was changed: {why}; mend what the "
            "first line names, fleet_gateway or a file that it names, and run site.yml again"
        )


def _as_staged(text: str) -> str:
    return text.replace(f"{layout.GATEWAY}/", f"{_STAGED}/")


def _systemctl(module: AnsibleModule, words: list[str], unit: str) -> None:
    code, _out, error = module.run_command(["systemctl", *words, unit])
    if code:
        module.fail_json(msg=f"systemctl {words[0]} {unit}: {error.strip()}; journalctl -u {unit} -n 50 says more")


if __name__ == "__main__":
    main()
