# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine brings along that is in the way of a first run: updates at work, a GPU without its module, memory that
is gone before a service starts, Wi-Fi, servers that can't be reached."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from ..._base import layout
from ..._base.findings import Finding, host_error, host_warning
from ..._base.gb10 import fact
from ..._base.sizes import GIB, gib, size
from ..._base.subject import PreflightContext

# Of a host whose updates want a restart, in a drift check as before a first service.
REBOOT_PENDING = {
    "rule": "reboot-pending",
    "place": "reboot",
    "found": "an update waits for a restart",
    "expected": "what is installed runs",
    "remedy": "restart the host when its services may stop: sudo systemctl reboot --no-block",
}
UPDATE_UNPROVED = {
    "rule": "update-unproved",
    "place": "update",
    "found": "gb10.fleet.update was cut off before this host had proved itself",
    "expected": "packages that were proved, or those of before",
    "remedy": "ansible-playbook gb10.fleet.update goes on where it was",
}
# Below this share of what is free in blocks of 2 MiB, a driver asks in vain while memory is free.
_HUGE_SHARE = 0.05
_FREE_ENOUGH = 8 * GIB
# More than a driver holds without a program that uses the GPU.
_LEAKED = 8 * GIB
# Packages of one over-the-air update, and those that flash firmware; behind each, what is none of them.
_TORN = (
    ("linux-image*", ""),
    ("linux-modules*", ""),
    ("linux-nvidia*", ""),
    ("linux-firmware*", ""),
    ("nvidia-*", "nvidia-container-*"),
    ("libnvidia-*", "libnvidia-container*"),
    ("mlnx-*", ""),
    ("doca-*", ""),
    ("dgx-*", ""),
    ("fwupd*", ""),
)
# Its reset path oopsed and left the kernel's network lock taken: no `ip` command ends, SSH neither.
_BAD_WIFI = "mt7925e"


def system_obstacles(look: PreflightContext) -> Iterator[Finding]:
    yield from _packages(look)
    yield from _installs(look)
    yield from _gpu(look)
    yield from _sudo(look)
    yield from _wifi(look)
    yield from _reboot(look)
    yield from _memory(look)
    yield from _reach(look)


def _packages(look: PreflightContext) -> Iterator[Finding]:
    if holders := look.part("apt").get("holders"):
        yield host_warning(
            "packages-at-work",
            "the package manager",
            found=f"{', '.join(holders)} holds its lock",
            expected="nobody installs anything now",
            remedy="finish the update in the DGX Dashboard, restart if it asks for it, then begin",
            reason="a run waits for the lock half an hour, and an over-the-air update restarts the machine under it",
            source="an owner's journal of September 2026: the four claimants of the lock on a new machine",
        )


def _installs(look: PreflightContext) -> Iterator[Finding]:
    """What apt would do besides, for each package that a role installs on this host."""
    asked = look.part("installs")
    unknown = sorted(package for package, steps in asked.items() if steps is None and _is_installed(look, package))
    if unknown:
        yield host_warning(
            "packages-unknown",
            "the package manager",
            found=f"by the package lists that are here, it can't install {', '.join(unknown)}",
            expected="to know what it would do",
            remedy=f"sudo apt-get update, and look again; `apt-get --simulate install {unknown[0]}` says what is wrong",
            reason="a kernel, driver or firmware that it would bring along can't be seen before",
        )
    for package, steps in sorted(asked.items()):
        torn = [_step(step) for step in steps or () if _is_torn(step) and step["package"] != package]
        if torn and _is_installed(look, package):
            yield host_error(
                "packages-pulled-along",
                f"package {package}",
                found=f"installing it would {', '.join(torn)}",
                expected="nothing of kernel, driver or firmware that comes along, and nothing that is removed",
                remedy="finish the update in the DGX Dashboard, restart, and begin again; if apt still wants it "
                f"(`apt-get --simulate install {package}`), install {package} by hand",
                reason="kernel, driver and firmware belong to one over-the-air update: torn apart, the GPU is gone "
                "after a restart, and a ConnectX-7 was left dead by firmware that a package had flashed",
                source="forums.developer.nvidia.com thread 373900; GB10 community wiki, torn pairing",
            )


def _is_installed(look: PreflightContext, package: str) -> bool:
    """Whether a role installs it here where it is missing."""
    has_gpu = bool(look.part("gpu").get("present"))
    return package in look.slice["needs"]["installs"] and (package != "nvidia-container-toolkit" or has_gpu)


def _is_torn(step: Mapping[str, str]) -> bool:
    name = step["package"]
    return step["action"] == "remove" or any(
        fnmatchcase(name, pattern) and not fnmatchcase(name, but) for pattern, but in _TORN
    )


def _step(step: Mapping[str, str]) -> str:
    versions = " to ".join(text for text in (step["have"], step["version"]) if text)
    return f"{step['action']} {step['package']}" + (f" ({versions})" if versions else "")


def _gpu(look: PreflightContext) -> Iterator[Finding]:
    gpu, kernel = look.part("gpu"), look.part("kernel").get("release", "")
    if gpu.get("present") and not gpu["module"]:
        yield host_error(
            "driver-missing",
            f"kernel {kernel}",
            found="it has no module of NVIDIA's driver, so the GPU can't be used",
            expected="a kernel and a driver of the same update",
            remedy=f"sudo apt-get install linux-modules-nvidia-580-open-{kernel}, or boot the kernel before it; "
            "then finish the update in the DGX Dashboard",
            reason="apt brought a kernel without its module package",
            source="an owner's journal, kernel 6.17.0-1021-nvidia",
        )


def _sudo(look: PreflightContext) -> Iterator[Finding]:
    if look.part("sudo").get("password"):
        yield host_warning(
            "sudo-password",
            "sudo",
            found="it asks the account for its password",
            expected="",
            remedy="give each command -K where the inventory has no ansible_become_password; the nightly check of "
            "gb10.fleet.drift_timer needs a rule without password "
            "(sudo visudo -f /etc/sudoers.d/gb10-fleet: ACCOUNT ALL=(ALL) NOPASSWD:ALL)",
        )


def _wifi(look: PreflightContext) -> Iterator[Finding]:
    network = look.part("network")
    ways = network.get("default", [])
    for name, driver in sorted(network.get("wifi", {}).items()):
        if ways[:1] == [name]:
            bad = driver == _BAD_WIFI
            yield host_warning(
                "wifi-management",
                name,
                found=f"the host is reached by Wi-Fi ({driver or 'unknown driver'})",
                expected="a cable in enP7s7",
                remedy="plug a network cable in, and use that address as ansible_host",
                reason="its driver's reset has left hosts unreachable until the power was cut"
                if bad
                else "a change of the network cuts it for seconds, and a download of weights takes days",
                source="MiaAI-Lab DSpark pull request 157" if bad else "",
            )


def _reboot(look: PreflightContext) -> Iterator[Finding]:
    if look.part("kernel").get("reboot_required"):
        yield host_warning(**REBOOT_PENDING)
    if look.part("apt").get("unproved"):
        yield host_warning(**UPDATE_UNPROVED)


# Memory -----------------------------------------------------------------------------------------------------------


def _memory(look: PreflightContext) -> Iterator[Finding]:
    """What is free before a service starts. While one of ours runs, it holds its own, and nothing is said."""
    memory, running = look.part("memory_bytes"), look.state.get("containers")
    if not memory or running is None:
        return
    names = sorted(process["name"] for process in running)
    if any(layout.service_of(name) is not None for name in names):
        return
    yield from _fits(look, names)
    yield from _fragmented(look)


def _fits(look: PreflightContext, others: list[str]) -> Iterator[Finding]:
    memory = look.part("memory_bytes")
    wanted = sum(service["memory_bytes"] for service in look.slice["services"])
    floor, leaked = gib(fact("memory", "floor_gib")), _leaked(look, others)
    short = wanted + floor - memory["available"] if wanted else 0
    if short > 0:
        severity = host_error if wanted > memory["available"] else host_warning
        yield severity(
            "memory-leaked" if leaked else "memory-short",
            "memory",
            found=f"{size(memory['available'])} of {size(memory['total'])} are available before any service starts",
            expected=f"{size(wanted)} for its services, and {size(floor)} that stay free",
            remedy=_remedy(look, leaked, others),
        )
    elif leaked:
        yield host_warning(
            "memory-leaked",
            "memory",
            found=f"{size(memory['unaccounted'])} belong to no process and no cache, and no program uses the GPU",
            expected="what a stopped program held is free again",
            remedy=_remedy(look, leaked, others),
            reason="a program that was killed leaves its GPU memory with the driver",
            source="eugr issue 257; a cluster owner's notes of August 2026",
        )


def _leaked(look: PreflightContext, others: list[str]) -> bool:
    return bool(
        look.part("gpu").get("present")
        and not others
        and not look.part("gpu").get("users")
        and look.part("memory_bytes").get("unaccounted", 0) > _LEAKED
    )


def _remedy(look: PreflightContext, leaked: bool, others: list[str]) -> str:
    if leaked:
        return "restart this host: sudo systemctl reboot --no-block; only that brings the memory back"
    if others:
        return f"stop what else runs here (docker stop {' '.join(others)}), or place the services on another host"
    if look.part("network").get("desktop"):
        return "end the desktop: sudo systemctl isolate multi-user.target (site.yml keeps it off from the next boot on)"
    return "see what takes it (ps aux --sort=-rss | head), and stop it or restart this host"


def _fragmented(look: PreflightContext) -> Iterator[Finding]:
    fragments = look.part("fragments")
    free, huge = fragments.get("free", 0), fragments.get("huge", 0)
    if look.part("gpu").get("present") and free >= _FREE_ENOUGH and huge < free * _HUGE_SHARE:
        yield host_warning(
            "memory-fragmented",
            "memory",
            found=f"{size(free)} are free, of which {size(huge)} in blocks of 2 MiB or more",
            expected=f"at least {size(int(free * _HUGE_SHARE))}",
            remedy="echo 1 | sudo tee /proc/sys/vm/compact_memory; if that does not help, restart this host",
            reason="the GPU's driver asks for such blocks and fails with NV_ERR_NO_MEMORY while memory is free",
            source="MiaAI-Lab issue 23",
        )


def _reach(look: PreflightContext) -> Iterator[Finding]:
    """Servers that something still has to be fetched from."""
    images, models = look.part("images"), look.part("models").get("models", {})
    for server, why in sorted(look.part("reach").items()):
        missing = [
            name for name in look.slice["needs"]["reach"].get(server, ()) if not (images.get(name) or models.get(name))
        ]
        if why and missing:
            yield host_error(
                "server-unreachable",
                server,
                found=why,
                expected=f"an answer by HTTPS: {', '.join(missing)} is fetched from it",
                remedy="let the host out (DNS, proxy, firewall), or bring it another way: source in the recipe or "
                "the service (docs/images-and-weights.md)",
            )
