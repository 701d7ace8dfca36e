# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.init_hosts: from nothing to machines that let this account in. It changes none of them."""

import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from ansible import constants as C  # noqa: N812 - as Ansible calls it
from ansible import context
from ansible.errors import AnsibleActionFail

from ..module_utils._operations.init.find import Machine, host_name
from ..module_utils._operations.init.login import Login, Refused
from ..module_utils._operations.init.look import host_key, log_in_here, look_around, own_addresses
from ..module_utils._operations.init.write import found_table
from ..plugin_utils._documented import OnController
from ..plugin_utils._questions import agreed, ask
from ..plugin_utils._reached import HERE, log_into, named_hosts, ssh_arguments
from ..plugin_utils._screen import show

_NAME_THEM = "ansible-playbook gb10.fleet.init -e host=192.168.1.40,spark-3f1c.local"
_NOBODY = (
    "no Spark answered: none in NVIDIA Sync's list and ssh's files, none among the neighbours or by its own name; "
    "it may be in another network (guest Wi-Fi) or still update after its first boot, and WSL passes no question on; "
    f"give what you have: {_NAME_THEM}"
)
# What people type for ssh, or into a browser.
_TYPED = re.compile(r"(?:\w{1,8}://)?(?:([\w.-]{1,64})@)?\[?([\w.:-]{1,253}?)\]?(:\d{1,5})?/?")


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        user = options["user"]
        if user and not host_name(user):
            raise AnsibleActionFail("user: found what is no account's name; expected one like anna; write -e user=anna")
        machines = _found(_named(options["hosts"]))
        arguments = ssh_arguments(variables)
        logins = log_into(machines, user, arguments)
        logins = self._keys_kept(machines, user, arguments, logins, options["keep_keys"])
        sparks = {one: login for one, login in logins.items() if isinstance(login, Login) and login.is_spark}
        for one in (machine for machine in machines if machine not in sparks):
            no_spark = f"{one.name}: it has no GB10, by the ids of its PCI devices"
            show(f"left out: {login.why if isinstance(login := logins[one], Refused) else no_spark}")
        if not sparks:
            raise AnsibleActionFail("none of them can be read, for the reasons above; nothing was written")
        hosts = named_hosts(sparks, user, arguments)
        if len(hosts) > (forks := int(context.CLIARGS.get("forks") or C.DEFAULT_FORKS)):
            raise AnsibleActionFail(
                f"{len(hosts)} hosts have to be read at the same time, and Ansible runs {forks}; add -f {len(hosts)}"
            )
        if any(login.sudo_password for login in sparks.values()) and not _has_password(variables):
            instead = "write -K, or --become-password-file FILE"
            password = ask("The sudo password there (asked once, kept nowhere):", instead, private=True)
            hosts = [{**host, "password": password} for host in hosts]
        hidden = {"_ansible_no_log": True} if any(host["password"] for host in hosts) else {}
        return {"changed": False, "hosts": hosts, "token": secrets.token_hex(8), **hidden}

    def _keys_kept(
        self,
        machines: Sequence[Machine],
        user: str,
        arguments: Sequence[str],
        logins: dict[Machine, Login | Refused],
        keep: bool,
    ) -> dict[Machine, Login | Refused]:
        """The logins, tried again where host keys that nobody had compared may be kept."""
        unknown = [
            machine for machine in machines if isinstance(found := logins[machine], Refused) and found.unknown_key
        ]
        keys = {machine: key for machine in unknown if (key := host_key(machine.name, arguments))}
        if not keys:
            return logins
        show(
            "Nobody has logged into these from this account. Each shows its key on its own screen by\n"
            "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub; compare, or trust your cable:"
        )
        for one, (fingerprint, _line, _file) in keys.items():
            show(f"  {one.name}  {fingerprint}")
        question = "Keep these keys in your known_hosts? [yes]"
        if self._task.check_mode or not (keep or agreed(question, "compare them above, then write -e host_keys=keep")):
            return logins
        for _fingerprint, line, file in keys.values():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as stream:
                stream.write(f"{line}\n")
        return {**logins, **log_into([*keys], user, arguments)}


def _named(hosts: Iterable[str]) -> list[str]:
    names = [(word, host_name(word)) for word in hosts if word.strip()]
    for word, name in names:
        if not name:
            seen = _TYPED.fullmatch(word.strip())
            parts = seen.groups("") if seen and host_name(seen[2]) else ("", "", "")
            remedy = f"write -e host={host_name(parts[1])}" if parts[1] else _NAME_THEM
            remedy += f" -e user={parts[0]}" if parts[0] else ""
            remedy += "; its port stands in ~/.ssh/config" if parts[2] else ""
            raise AnsibleActionFail(f"host: {word!a} is no host's name or address; {remedy}")
    return [name for _word, name in names]


def _found(named: list[str]) -> list[Machine]:
    """Those that a person named or chose. AnsibleActionFail where there are none."""
    if not named:
        show("Looking for Sparks: NVIDIA Sync's list, ssh's files, the neighbours and their own answers")
    machines = look_around(named)
    here = log_in_here()
    if here and here.is_spark:
        own = {here.hostname, f"{here.hostname}.local", HERE, *own_addresses(), "127.0.0.1"}
        others = [machine for machine in machines if machine.name not in own]
        machines = [Machine(HERE, ("this machine",)), *others] if not named or len(others) < len(machines) else others
    if not machines:
        raise AnsibleActionFail(_NOBODY)
    if named or len(machines) == 1:
        return machines
    show(f"\n{found_table(machines)}\n")
    chosen = ask("Which of these are yours? Numbers, or Enter for all:", f"name them: {_NAME_THEM}")
    numbers = chosen.replace(",", " ").split() or [str(number) for number in range(1, len(machines) + 1)]
    if not all(word.isdecimal() and 0 < int(word) <= len(machines) for word in numbers):
        raise AnsibleActionFail(
            f"found {chosen!a}; expected numbers of the list, like 1 2; run it again; nothing was written"
        )
    return [machines[int(word) - 1] for word in dict.fromkeys(numbers)]


def _has_password(variables: dict[str, object]) -> bool:
    of_command = context.CLIARGS.get("become_ask_pass") or context.CLIARGS.get("become_password_file")
    return bool(
        of_command or variables.get("ansible_become_password") or C.config.get_config_value("BECOME_PASSWORD_FILE")
    )
