# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes a host: keeps the way back, installs, puts back. By the record each is taken up where it was cut off."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..._base import layout
from ..._base.own_files import look, replace_file
from ..._host.probe.machine import read_packages_at_work
from ..._host.probe.parts import Run
from .form import record_of
from .look import APT, DEBS, FOLDER, RECORD, boot_id, kept_debs, lost, simulate, versions

# A person's or DGX OS's own update may be at work. apt itself waits for dpkg's lock alone, not for that of its lists.
_LOCK_S, _LOOK_S = 1800, 5.0
_CHANGE = (
    *APT,
    "--option",
    f"DPkg::Lock::Timeout={_LOCK_S}",
    "--option",
    "APT::Sandbox::User=root",
    # an owner's changed file stays
    "--option",
    "Dpkg::Options::=--force-confdef",
    "--option",
    "Dpkg::Options::=--force-confold",
    "--assume-yes",
)
# Nobody is asked; so linux-check-removal (linux-base 4.5 to 4.12) lets the running kernel go, as a way back has to.
# needrestart would restart services by itself; all of ours are stopped, and the host restarts.
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "LC_ALL": "C.UTF-8"}


class UpdateError(Exception):
    """What could not be done, in a sentence with what there is to do."""


def refresh(run: Run) -> None:
    """Package lists and fwupd's metadata, where the machine has it."""
    _do(run, [*_CHANGE, "update"], "the package lists can't be fetched")
    try:
        # 2: what is here is new enough
        code, out, err = run(["fwupdmgr", "refresh", "--assume-yes"])
    except FileNotFoundError:
        return
    if code not in (0, 2):
        raise UpdateError(f"fwupdmgr refresh: {_last(out, err)}; mend that, or write -e firmware=false")


def record() -> dict[str, Any] | None:
    found, why = look(RECORD, record_of)
    if why:
        raise UpdateError(f"{RECORD} can't be used: {why}; look at what is installed, remove {FOLDER} and begin again")
    return found


def keep(run: Run, ask: Mapping[str, Any], now: Callable[[], float] = time.time) -> dict[str, Any]:
    """Fetch what comes and what a way back needs, while all still runs.

    ask: ``{steps, firmware, units, expected, known, seconds, figures}`` of the record, as it was judged.
    """
    known = record()
    if known and known["stage"] != "kept":
        return known
    _require(run, ask["steps"], whole=True)
    _do(run, [*_CHANGE, "--no-remove", "--download-only", "dist-upgrade"], "what comes can't be fetched")
    DEBS.mkdir(mode=0o700, parents=True, exist_ok=True)
    moves = {step["package"]: step["have"] for step in ask["steps"] if step["action"] == "upgrade"}
    for name, version in sorted(moves.items()):
        _keep_deb(run, name, version)
    new = {
        **ask,
        # one that was cut off may have stopped them
        "units": sorted({*ask["units"], *(known["units"] if known else ())}),
        **{key: {**(known[key] if known else {}), **ask.get(key, {})} for key in ("seconds", "figures")},
        "stage": "kept",
        "boot_id": boot_id(),
        "begun_s": now(),
        "lost": lost(run, ask["steps"]),
        "automatic": _marks(run, [*moves]),
    }
    return _write(new)


def _keep_deb(run: Run, name: str, version: str) -> None:
    there = kept_debs().get((name, version))
    if there is not None:
        if there.parent != DEBS:
            shutil.copy(there, DEBS)
        return
    # what can't be had was shown before; apt writes into the folder that it runs in
    run(["env", "-C", str(DEBS), *APT, "--option", "APT::Sandbox::User=root", "download", f"{name}={version}"])


def _marks(run: Run, names: list[str]) -> list[str]:
    """Those that came along with another package: installed from a file, each would count as asked for."""
    return sorted(_do(run, ["apt-mark", "showauto", *names], "apt-mark").split()) if names else []


def install(run: Run) -> dict[str, Any]:
    """Install what was judged, and firmware."""
    known = _known()
    if known["stage"] not in ("kept", "installing"):
        return known
    _require(run, known["steps"], whole=known["stage"] == "kept")
    known = _write({**known, "stage": "installing"})
    _do(run, ["dpkg", "--configure", "-a", "--force-confdef", "--force-confold"], "dpkg can't end what was cut off")
    if known["steps"]:
        _do(run, [*_CHANGE, "--no-remove", "dist-upgrade"], "apt could not install it")
    if known["firmware"]:
        # 2: nothing to do
        code, out, err = run(["fwupdmgr", "update", "--assume-yes", "--no-reboot-check"])
        if code not in (0, 2):
            raise UpdateError(f"fwupdmgr update: {_last(out, err)}")
    return _write({**known, "stage": "installed", "boot_id": boot_id()})


def restore(run: Run) -> dict[str, Any]:
    """Put the packages back. Firmware stays, and what can't be had; a record of which nothing began is only kept."""
    known = _known()
    if known["stage"] in ("kept", "restored"):
        return known
    known = _write({**known, "stage": "back"})
    run(["dpkg", "--configure", "-a", "--force-confdef", "--force-confold"])
    wanted = _wanted(known)
    have = versions(run, [step["package"] for step in known["steps"]])
    debs = kept_debs()
    files = [str(debs[name, old]) for name, old in wanted.items() if old and have.get(name) != old]
    gone = [f"{name}-" for name, old in wanted.items() if not old and name in have]
    if files or gone:
        _do(run, [*_CHANGE, "--allow-downgrades", "install", *files, *gone], "apt can't put the packages back")
    if known["automatic"]:
        _do(run, ["apt-mark", "auto", *known["automatic"]], "apt-mark")
    after = versions(run, [*wanted])
    wrong = sorted(name for name, old in wanted.items() if after.get(name, "") != old)
    if wrong:
        words = ", ".join(f"{name} {after.get(name, 'none')}" for name in wrong[:12])
        raise UpdateError(
            f"not as before: {words}; packages of before lie in {DEBS}: sudo apt-get install ./FILE there"
        )
    return _write({**known, "stage": "restored", "boot_id": boot_id()})


def _wanted(known: Mapping[str, Any]) -> dict[str, str]:
    """Each package's version of before, empty for none; without those that can't be had."""
    return {step["package"]: step["have"] for step in known["steps"] if step["package"] not in known["lost"]}


def forget(now: Callable[[], float] = time.time) -> bool:
    """No way back any more. Of an update that was made it is kept how long it took."""
    if not FOLDER.exists():
        return False
    found, _why = look(RECORD, record_of)
    if found and found["stage"] == "installed":
        replace_file(Path(layout.UPDATE_TOOK), json.dumps({"took_s": round(now() - found["begun_s"])}).encode())
    shutil.rmtree(FOLDER)
    return True


def _known() -> dict[str, Any]:
    known = record()
    if known is None:
        raise UpdateError(f"{RECORD} is gone: nothing is known of an update here; run gb10.fleet.update again")
    return known


def _require(run: Run, judged: list[Mapping[str, str]], *, whole: bool) -> None:
    """That apt would do what was judged; of an update that was cut off, a part of it."""
    simulated, why = simulate(run)
    now = {(step["package"], step["version"]) for step in simulated["steps"]}
    was = {(package["package"], package["version"]) for package in judged}
    other = sorted(now ^ was if whole else now - was)
    if why and whole:
        raise UpdateError(f"apt can't say what it would do: {why}")
    if other:
        words = ", ".join(f"{name} {version}" for name, version in other[:12])
        raise UpdateError(
            f"apt would do something else than was judged: {words}; somebody fetched new package lists since then, "
            "so run gb10.fleet.update again"
        )


def wait_for_others(sleep: Callable[[float], None] = time.sleep) -> None:
    """Until nobody else installs anything, as long as is patient."""
    for _ in range(int(_LOCK_S / _LOOK_S)):
        if not read_packages_at_work()["holders"]:
            return
        sleep(_LOOK_S)


def _do(run: Run, command: list[str], what: str) -> str:
    wait_for_others()
    code, out, err = run(command)
    if code:
        raise UpdateError(f"{what}: {_last(out, err)}; mend that on the host, and run gb10.fleet.update again")
    return out


def _last(out: str, err: str) -> str:
    lines = [line.strip() for line in (err.strip() or out.strip()).splitlines() if line.strip()]
    return " | ".join(lines[-4:])[-600:] or "it says nothing"


def _write(new: dict[str, object]) -> dict[str, Any]:
    replace_file(RECORD, json.dumps(new, sort_keys=True).encode(), 0o600)
    return new
