#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_credentials
short_description: Install API keys, certificates and the CA on a host
version_added: 0.1.0
description:
  - Writes the API key, the certificate and its key of each service if they differ from the controller's files. Adds the
    local CA to the host's trusted CAs, or removes it if no service has a certificate of it any more.
  - Has the host trust the CA, also after a run that was cut off before it did.
  - One call, however many services a host has. Neither keys nor certificates are shown.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  services: {description: C(services) of the host's slice of the plan., type: list, elements: dict, default: []}
  tls: {description: C(tls) of the host's slice of the plan., type: dict, required: true}
  certificates:
    description: C(tls) of each service that has one, which the action takes of the plan.
    type: list
    elements: dict
    default: []
  modes: {description: "Permissions by path, which the action takes of the plan.", type: dict, default: {}}
  secrets:
    description: The secrets, which no plan holds, as text by path; the action reads them on the controller.
    type: dict
    default: {}
attributes:
  action:
    description: Reads keys and certificates on the controller, also those that ansible-vault encrypted.
    support: full
"""

EXAMPLES = r"""
- name: Bring keys and certificates
  gb10.fleet.service_credentials:
    services: "{{ fleet_slice.services }}"
    tls: "{{ fleet_slice.tls }}"
"""

RETURN = r"""
changed_files:
  description: Files that were written or removed, or would be.
  returned: success
  type: list
  elements: str
changed_services:
  description: The services with a file among them.
  returned: success
  type: list
  elements: str
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._base.own_files import clear_of_folders, holds, replace_file
from ..module_utils._subjects.tls.clients_view import CLOCKS, refused

_TRUST = ["update-ca-certificates"]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "services": {"type": "list", "elements": "dict", "default": []},
            "tls": {"type": "dict", "required": True},
            "certificates": {"type": "list", "elements": "dict", "default": []},
            "modes": {"type": "dict", "default": {}},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
        },
        supports_check_mode=True,
    )
    modes, secrets = (
        {Path(path): value for path, value in module.params[name].items()} for name in ("modes", "secrets")
    )
    ca, link = Path(module.params["tls"]["path"]), Path(layout.trusted_link(module.params["tls"]["path"]))
    other = [
        path for path, text in secrets.items() if text is None or not holds(path, text.encode(), int(modes[path], 8))
    ]
    for tls in module.params["certificates"]:
        if problem := _refused(tls, secrets, ca):
            module.fail_json(
                msg=f"{tls['certificate']['path']}: {problem}, and no key or certificate was changed; {CLOCKS} "
                "[certificate-refused]"
            )
    too_many = [ca] if ca not in secrets and (ca.is_file() or ca.is_symlink()) else []
    is_trusted = ca in other or bool(too_many) or (ca in secrets and not link.exists())
    if not module.check_mode:
        for path in other:
            clear_of_folders(path)
            replace_file(path, secrets[path].encode(), int(modes[path], 8))
        for path in too_many:
            path.unlink()
        if is_trusted:
            # links to one that is gone stay but for this
            _have_trusted(module, [*_TRUST, *(["--fresh"] if too_many else [])])
    diffs = [_diff(path, "", "another content, which is not shown\n") for path in other]
    diffs += [_diff(path, "a CA that nothing here is of\n", "") for path in too_many]
    diffs += [_diff(link, "as it was\n", f"as {' '.join(_TRUST)} makes it\n")] if is_trusted else []
    changed = sorted(map(str, [*other, *too_many]))
    module.exit_json(changed=bool(diffs), changed_files=changed, diff=diffs)


def _refused(tls: Mapping[str, Any], secrets: Mapping[Path, str | None], ca: Path) -> str:
    """Why clients would refuse a service's certificate; in check mode there may be none yet."""
    certificate, key = (secrets.get(Path(tls[kind]["path"])) for kind in ("certificate", "key"))
    by = secrets.get(ca)
    if not certificate or not key or (tls["ca"] and not by):
        return ""
    return refused(certificate, key, by if tls["ca"] else None, tls["names"])


def _have_trusted(module: AnsibleModule, command: list[str]) -> None:
    code, out, error = module.run_command(command)
    if code:
        module.fail_json(
            msg=f"{' '.join(command)}: {(error or out).strip()[-500:]}; expected a host that trusts the CAs of its own "
            "folder; mend what it names, and run site.yml again"
        )


def _diff(path: Path, before: str, after: str) -> dict[str, str]:
    return {"before": before, "after": after, "before_header": str(path), "after_header": str(path)}


if __name__ == "__main__":
    main()
