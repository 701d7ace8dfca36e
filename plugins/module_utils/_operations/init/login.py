# SPDX-License-Identifier: GPL-3.0-or-later
"""A first login: what is run there, what the host answers, and what ssh's refusals mean for a person."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..._base.gb10 import data_table
from ..._base.received import one_line
from .find import host_name, own_name

# The GPU of a GB10, in all makers' machines. Names prove nothing: owners change them.
GB10 = "10de:2e12"
# A shell is all that is sure to be there.
SCRIPT = (
    "for d in /sys/bus/pci/devices/*; do read v <$d/vendor; read m <$d/device; echo pci=$v:$m; done 2>/dev/null; "
    "echo host=$(uname -n); read m </sys/class/net/enP7s7/address && echo mac=$m; "
    "echo memory=$(sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo); "
    "for k in sys_vendor product_name; do read v </sys/class/dmi/id/$k && echo $k=$v; done; "
    "echo ota=$(sed -n 's/^DGX_OTA_VERSION=//p' /etc/dgx-release | tail -n 1); "
    "sudo -n true 2>/dev/null && echo sudo=none; echo end=1"
)
_SHOWN = {"sys_vendor": "maker", "product_name": "product", "ota": "ota"}
_MOST = 1 << 16
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NEW_KEY = "host key is known for|Host key verification failed"
_HOW: tuple[tuple[str, str, str], ...] = data_table("login_refusals")


@dataclass(frozen=True)
class Login:
    """A host that lets this account in. memory_kib: 0 where it is not shown. shown: maker, product, ota."""

    is_spark: bool
    hostname: str
    mac: str
    sudo_password: bool
    memory_kib: int = 0
    shown: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Refused:
    """why: a sentence with its remedy. unknown_key: whether its host key alone is in the way."""

    why: str
    unknown_key: bool = False


def answer(text: str) -> Login | None:
    """What `SCRIPT` printed; None for anything else."""
    rows = re.findall(r"^(pci|host|mac|memory|sys_vendor|product_name|ota|sudo|end)=(.*)$", text[:_MOST], re.MULTILINE)
    values = dict(rows)
    name = own_name(values.get("host", ""))
    if "end" not in values or not name:
        return None
    devices = {value.replace("0x", "") for key, value in rows if key == "pci"}
    kib = values.get("memory", "")
    # a host's words become variables and names of groups: nothing in them is a template
    shown = {ours: re.sub(r"[^\w .,()+-]", "", values.get(theirs, "")).strip()[:60] for theirs, ours in _SHOWN.items()}
    memory = int(kib) if re.fullmatch(r"\d{7,9}", kib) else 0
    mac = values.get("mac", "") if _MAC.fullmatch(values.get("mac", "")) else ""
    return Login(GB10 in devices, name, mac, values.get("sudo") != "none", memory, shown)


def problem(name: str, user: str, words: str) -> tuple[str, str] | None:
    """What ssh's words mean, and what to do; None for words that say nothing known. user: as far as it is known."""
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in words:
        known = re.search(r"^Offending (?:\S+ )?key in (\S+:\d+)", words, re.MULTILINE)
        now = re.search(r"^(SHA256:[\w+/=]+)", words, re.MULTILINE)
        return (
            f"its host key is not that of {known[1] if known else 'known_hosts'}; it shows "
            f"{now[1] if now else 'another one'}",
            f"was it installed again? Then run ssh-keygen -R {name} and this again; if not, somebody else has its name",
        )
    if re.search(_NEW_KEY, words):
        return "nobody has compared its host key", f"run ssh {user}@{name} once, and compare it"
    for pattern, found, remedy in _HOW:
        if seen := re.search(pattern, words[-_MOST:], re.MULTILINE):
            named = {key: one_line(value or "", 200) for key, value in seen.groupdict().items()}
            at = {"name": name, "user": user, **named}
            return found.format(**at), remedy.format(**at)
    if "Permission denied" in words:
        of_words = re.search(r"(\S{1,64})@\S+: Permission denied", words)
        who = host_name(of_words[1]) if of_words else ""
        user = who or user
        remedy = f"bring your key there, into ~{user}/.ssh/authorized_keys"
        if "password" in words.rpartition("Permission denied")[2]:
            remedy = f"ssh-copy-id {user}@{name} brings your key there (it asks for the password once)"
        return (
            f"it lets nobody called {user} in by a key of yours",
            f"{remedy}; a key with a passphrase needs ssh-add first; does your account there have another name? "
            "Name it: a Spark has the account of its first boot",
        )
    return None


def refused(name: str, user: str, words: str, line: Callable[[str], str]) -> Refused:
    """Why ssh did not let this account in, of what it printed. line: makes one harmless line of its words."""
    last = [line for line in words.splitlines() if line.strip()]
    unknown = line(last[-1]) if last else "it answered what no Spark does"
    found, remedy = problem(name, user, words) or (unknown, f"see what ssh {user}@{name} answers")
    of_user = "; write -e user=NAME" if "called" in found else ""
    changed = "IDENTIFICATION HAS CHANGED" in words
    return Refused(f"{name}: {found}; {remedy}{of_user}", bool(re.search(_NEW_KEY, words)) and not changed)
