# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.init: readings in, files and a screen out. Reaches no host."""

import itertools
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import ROOT
from ansible_collections.gb10.fleet.plugins.module_utils._base.own_files import look
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.machine import read_networks
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.decide import Host, propose
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.fitting import fitting, taking_over
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.write import fits_table, read_table, texts
from ansible_collections.gb10.fleet.plugins.plugin_utils._documented import OnController
from ansible_collections.gb10.fleet.plugins.plugin_utils._own_recipes import write_new
from ansible_collections.gb10.fleet.plugins.plugin_utils._screen import harmless, show, warn


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        hosts = {}
        for one in options["hosts"]:
            answer = variables["hostvars"][one["name"]].get("init_reading") or {}
            if "reading" not in answer:
                why = " ".join(str(answer.get("msg", "no answer")).split())
                remedy = "mend that, or name the others alone: -e host=NAME,NAME"
                raise AnsibleActionFail(
                    harmless(f"nothing was written: {one['name']} could not be read: {why}; {remedy}")
                )
            hosts[one["name"]] = Host(one["address"], answer["reading"])
        library, _findings = load_all([ROOT / "recipes"])
        proposal = propose(
            hosts, itertools.chain(*read_networks().values()), library, take_over=options["adopt"] is not False
        )
        users = {one["user"] for one in options["hosts"]} - {""}
        first = next(iter(hosts))
        fits = [] if proposal.services else fitting(first, hosts[first], library)
        words = taking_over(hosts, proposal, library) if proposal.services else {}
        files = texts(hosts, proposal, min(users, default=""), fits, words, take_over=options["adopt"] is True)
        folder = Path(options["folder"]).expanduser().absolute()
        wanted = {folder / name: text for name, text in files.items()}
        new = {path: text for path, text in wanted.items() if look(path, bytes)[0] != text.encode()}
        show(f"\n{read_table(hosts)}\n")
        for note in proposal.notes:
            show(f"  {note}")
        for name, one in proposal.services.items():
            for note in one.notes if options["adopt"] else ():
                warn(f"{name}: {note}")
            for word in words[name]:
                show(f"  {name}: {word}")
        show(f"\nfits on {first}, of what others have run:\n{fits_table(fits)}" if fits else "")
        diff = write_new(new, "into", dry=self._task.check_mode)
        written = "to be written" if self._task.check_mode else "written"
        show(f"\n{written}: " + (", ".join(str(path) for path in new) or f"nothing, {folder} has it all as it is"))
        show(f"next: ansible-playbook -i {folder} gb10.fleet.plan, once a service stands in fleet.yml\n")
        return {"changed": bool(new), "files": [*map(str, wanted)], "notes": [*proposal.notes], "diff": diff}
