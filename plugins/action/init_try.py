# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.init_try: what is tried on machines that were read, and a yes to it. Reaches no host."""

import itertools
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..action.init import account_of, read_hosts
from ..module_utils._base.findings import sentence
from ..module_utils._base.gb10 import ROOT
from ..module_utils._base.own_files import replace_file, unwritten
from ..module_utils._base.plan import Plan
from ..module_utils._base.yaml_text import read_yaml
from ..module_utils._engines.recipes.recipe import load_all
from ..module_utils._host.probe.machine import read_networks
from ..module_utils._operations.init import trying
from ..module_utils._operations.init.decide import Host, propose
from ..module_utils._operations.init.write import FLEET, HOSTS, KEPT, tried_texts
from ..module_utils._plan.text import WIDTH, summary
from ..plugin_utils._documented import OnController
from ..plugin_utils._questions import agreed
from ..plugin_utils._screen import show

Options = dict[str, Any]


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        folder = Path(options["folder"]).expanduser().absolute()
        if options["plan"] is not None:
            return self._begin(options, folder)
        hosts = read_hosts(options["hosts"], variables)
        if others := {*variables["groups"]["all"]} - {*hosts, "localhost"}:
            problem = f"this run has an inventory, with {', '.join(sorted(others)[:3])}, and try makes its own"
            raise AnsibleActionFail(f"{problem}; write -i localhost, in front of gb10.fleet.try; nothing was changed")
        return _decided(hosts, options, folder)

    def _begin(self, options: Options, folder: Path) -> dict[str, Any]:
        """Shows what would be done, asks, and writes the inventory by which it can be kept and taken away."""
        width = max(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
        plan: Plan = options["plan"]
        show("\n".join(summary(plan["summary"], width)))
        for finding in (finding for finding in plan["findings"] if finding["severity"] == "warning"):
            show(f"  to know: {sentence(finding)}")
        show(
            f"  changes there: a container with its unit, image and weights; notes and keys go into {options['folder']}"
        )
        if not self._task.check_mode:
            if not (options["go"] or agreed("Go? [yes]", "write -e go=true")):
                raise AnsibleActionFail("you said no; nothing was written and nothing was changed")
            try:
                for name, text in options["texts"].items():
                    replace_file(folder / name, text.encode())
            except OSError as problem:
                remedy = "make it writable, or name another folder: -e into=FOLDER"
                raise AnsibleActionFail(unwritten(problem, folder, "a folder of yours", remedy)) from None
        return {"changed": not self._task.check_mode}


def _decided(hosts: dict[str, Host], options: Options, folder: Path) -> dict[str, Any]:
    """The service, and the inventory that declares it. AnsibleActionFail where nothing can be tried."""
    before, inventory = _before(folder, hosts)
    library, _findings = load_all([ROOT / "recipes"])
    proposal = propose(hosts, itertools.chain(*read_networks().values()), library, take_over=True)
    fabric = proposal.fabric if len(hosts) > 1 else {}
    if len(hosts) > 1 and not fabric:
        raise AnsibleActionFail(
            f"no cable joins {' and '.join(hosts)}; nothing was changed; plug it in, or try one of them alone"
        )
    running = [*(service.service for service in proposal.services.values()), *trying.of_inventories(hosts)]
    name = before or trying.name_for(running, inventory)
    for note in (*trying.running_words(running, inventory), *(proposal.notes if fabric else ())):
        show(f"  {note}")
    # Ansible's own kind of text is none that YAML writes
    model, problem = trying.named("".join(options["model"]), library) if options["model"] else ({}, "")
    if problem:
        raise AnsibleActionFail(f"{problem}; nothing was changed")
    chosen = "" if model else trying.best(hosts, fabric, library)
    if not (model or chosen):
        raise AnsibleActionFail(f"{trying.none_fits(hosts, library)}; nothing was changed")
    service = {**(model or {"recipe": chosen}), "hosts": [*hosts], "port": trying.port_for(running, inventory)}
    plan = trying.planned(service, hosts, fabric, library)
    if short := trying.shortage(plan):
        smaller = trying.best(hosts, fabric, library)
        remedy = f"-e model={smaller} fits" if smaller else "more hosts have more memory: -e host=NAME,NAME"
        raise AnsibleActionFail(
            f"{options['model']} does not fit on {', '.join(hosts)}: {short}; {remedy}; nothing was changed"
        )
    services = {name: service}
    return {
        "changed": False,
        "texts": tried_texts(hosts, services, fabric, account_of(options["hosts"]), inventory),
        "variables": {host: trying.variables(read, services, fabric, inventory) for host, read in hosts.items()},
        "name": name,
        "folder": str(folder),
        "spoken": trying.spoken(plan),
        "end": trying.end_lines(options["folder"], [*hosts]),
    }


def _before(folder: Path, hosts: Mapping[str, Host]) -> tuple[str, str]:
    """The service of a try before, in the folder that is ours alone, empty without one; and the inventory's name, which
    is a new one where that service is kept."""
    new = "", f"{trying.FOLDER}-{secrets.token_hex(3)}"
    if not (folder / HOSTS).exists():
        return new
    try:
        text = (folder / FLEET).read_text("utf-8")
        if KEPT in text:
            return new
        written = read_yaml(text)
        [(name, found)] = written["fleet_services"].items()
        before = [*found["hosts"]]
    except (OSError, ValueError, LookupError, TypeError):
        raise AnsibleActionFail(
            f"{folder} holds what try did not write; nothing was changed; name another folder: -e into=FOLDER"
        ) from None
    if {*before} - {*hosts}:
        away = trying.end_lines(str(folder), before)[1].partition(":")[2].strip()
        problem = f"{folder} holds a try on {', '.join(before)}; nothing was changed"
        raise AnsibleActionFail(f"{problem}; take it away first: {away}; or name another folder: -e into=FOLDER")
    return name, written.get("fleet_name", folder.name)
