# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.init: readings in, files and a screen out. Reaches no host."""

import itertools
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.gb10 import ROOT
from ..module_utils._base.own_files import look, replace_file
from ..module_utils._base.received import harmless
from ..module_utils._base.yaml_text import read_yaml
from ..module_utils._engines.recipes.recipe import load_all
from ..module_utils._host.probe.machine import read_networks
from ..module_utils._operations.init.decide import Host, propose
from ..module_utils._operations.init.trying import FOLDER, fitting, of_inventories, running_words, taking_over
from ..module_utils._operations.init.write import FLEET, IGNORE, KEPT, Row, fits_table, kept_text, read_table, texts
from ..module_utils._stores.lock.file import NAME
from ..plugin_utils._documented import OnController
from ..plugin_utils._own_recipes import write_new
from ..plugin_utils._screen import show, warn


def account_of(found: Iterable[Row]) -> str:
    """The account of all machines that are reached by ssh; empty where they differ, or where ssh's files name one."""
    users = {item.get("user", "") for item in found if item.get("address")}
    return users.pop() if len(users) == 1 else ""


def read_hosts(found: Sequence[Row], variables: dict[str, Any]) -> dict[str, Host]:
    """What `init_info` read of the hosts that `init_hosts` found. AnsibleActionFail where one was not read."""
    hosts, shared = {}, account_of(found)
    for item in found:
        answer = variables["hostvars"][item["name"]].get("init_reading") or {}
        if "reading" not in answer:
            why = " ".join(str(answer.get("msg", "no answer")).split())
            remedy = "mend that, or name the others alone: -e host=NAME,NAME"
            raise AnsibleActionFail(harmless(f"nothing was written: {item['name']} could not be read: {why}; {remedy}"))
        hosts[item["name"]] = Host(item["address"], answer["reading"], "" if shared else item.get("user", ""))
    return hosts


def _declared_by(tried: Path) -> tuple[dict[str, Any], str]:
    """What `try` declared in a folder of its own, and the name of that inventory."""
    try:
        written = read_yaml((tried / FLEET).read_text("utf-8"))
        found: tuple[dict[str, Any], str] = written["fleet_services"], written.get("fleet_name", tried.name)
    except (OSError, ValueError, LookupError, TypeError):
        problem = f"tried: {tried / FLEET} holds no service; expected the folder that gb10.fleet.try wrote"
        raise AnsibleActionFail(f"{problem}; nothing was written; do this: -e tried={FOLDER}") from None
    return found


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        hosts = read_hosts(options["hosts"], variables)
        library, _findings = load_all([ROOT / "recipes"])
        proposal = propose(
            hosts, itertools.chain(*read_networks().values()), library, take_over=options["adopt"] is not False
        )
        tried = Path(options["tried"]).expanduser().absolute() if options["tried"] else None
        first = next(iter(hosts))
        fits = [] if proposal.services or tried else fitting(first, hosts[first], library)
        proposal = replace(proposal, services={}) if tried else proposal
        words = taking_over(hosts, proposal, library) if proposal.services else {}
        files = texts(hosts, proposal, account_of(options["hosts"]), fits, words, take_over=options["adopt"] is True)
        files |= {FLEET: kept_text(proposal, *_declared_by(tried))} if tried else {}
        folder = Path(options["folder"]).expanduser().absolute()
        wanted = {folder / name: text for name, text in files.items()}
        if (folder / IGNORE).exists():  # the owner's, who is told by the plan what it lacks
            del wanted[folder / IGNORE]
        new = {path: text for path, text in wanted.items() if look(path, bytes)[0] != text.encode()}
        show(f"\n{read_table(hosts)}\n")
        for note in (*proposal.notes, *([] if tried else running_words(of_inventories(hosts), ""))):
            show(f"  {note}")
        for name, one in proposal.services.items():
            for note in one.notes if options["adopt"] else ():
                warn(f"{name}: {note}")
            for word in words[name]:
                show(f"  {name}: {word}")
        show(f"\nfits on {first}, of what others have run:\n{fits_table(fits)}" if fits else "")
        diff = write_new(new, "into", dry=self._task.check_mode)
        if tried and new and not self._task.check_mode:
            shutil.copytree(tried / ".fleet", folder / ".fleet", dirs_exist_ok=True)  # its keys
            if (tried / NAME).exists():
                shutil.copy(tried / NAME, folder)
            text = (tried / FLEET).read_text("utf-8")
            replace_file(tried / FLEET, f"{text}{KEPT} {folder}\n".encode())
        written = "to be written" if self._task.check_mode else "written"
        show(f"\n{written}: " + (", ".join(str(path) for path in new) or f"nothing, {folder} has it all as it is"))
        after = "site -K" if tried else "plan, once a service stands in fleet.yml"
        show(f"next: ansible-playbook -i {folder} gb10.fleet.{after}\n")
        return {"changed": bool(new), "files": [*map(str, wanted)], "notes": [*proposal.notes], "diff": diff}
