# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads how a machine's starts ended, what its kernel complains of, its heat, its disks, and who else ends its engines:
files and one request to each disk, no program."""

import contextlib
import ctypes
import fcntl
import os
import re
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ..._host.probe.parts import Part, text_of
from ..._on_host.textfile import Kernel

_WTMP = (Path("/var/log/wtmp.1"), Path("/var/log/wtmp"))
_PSTORE = (Path("/sys/fs/pstore"), Path("/var/lib/systemd/pstore"))
_DAY_S, _DAYS = 86_400, 30
# utmp(5): the length of a record, and where its time is and in which form: glibc has two forms on 64 bits.
_FORMS: Mapping[int, tuple[int, str]] = {400: (344, "<q"), 384: (340, "<i")}
_RUN_LEVEL, _BOOT, _USER, _YEAR_2001 = 1, 2, slice(44, 76), 1_000_000_000
# The end of a file of logins that is read, a multiple of both lengths, and what is read of other files.
_MOST_LOGINS, _MOST_BYTES, _MOST_FILES, _MOST_WORDS, _MOST_LISTED = 400 * 384 * 20, 1 << 16, 200, 200, 10_000
_MANY_RECORDS = 400 * 384
_PANIC = re.compile(r"(?m)Kernel panic - not syncing.*|^.*(?:watchdog: BUG|hard LOCKUP|soft lockup).*")
_HWMON, _ZONES, _RDMA = (Path("/sys/class") / name for name in ("hwmon", "thermal", "infiniband"))
_ERRORS = (
    *("symbol_error", "port_rcv_errors", "local_link_integrity_errors", "link_error_recovery", "link_downed"),
    *("rx_icrc_encapsulated", "out_of_sequence", "local_ack_timeout_err", "req_transport_retries_exceeded"),
)
# NVM Express 2.0: Get Log Page 2 (SMART) of the whole controller; linux/nvme_ioctl.h: _IOWR('N', 0x41, 72 bytes).
_ADMIN, _SMART, _WHOLE, _LOG_BYTES, _DISK_MS = 0xC0484E41, 2, 0xFFFFFFFF, 512, 5000
_UNITS, _HOMES = Path("/etc/systemd/system"), Path("/home")
_CRON = (Path("/etc/crontab"), Path("/etc/cron.d"), Path("/var/spool/cron/crontabs"))
# Programs of packages: to read them all takes 20 ms, and who kills engines puts his own elsewhere.
_OURS, _PACKAGED = "gb10-", tuple(f"{top}/{name}/" for top in ("", "/usr") for name in ("bin", "sbin", "lib"))
_ENDS = re.compile(
    r"\b(?:(?:docker|podman) +(?:kill|stop|restart|rm)|p?kill(?:all)?|os\.kill|systemctl +(?:restart|stop|kill)"
    r"|\w+\.(?:kill|terminate)(?=\())\b[ \w.@-]{0,60}"
)
_ENGINES = re.compile(r"vllm|sglang|llama|trtllm|compute-apps|\bray\b", re.IGNORECASE)
_WATCHES = re.compile(r"\bwhile\b|/health|MemAvailable|nvidia-smi|\bfree -")
_STARTS = re.compile(r"docker (?:compose|run)\b|vllm serve|launch_server|llama-server ")


def read_health() -> dict[str, Any]:
    """``{boots, lines}``: starts of `_DAYS` days as `boots` finds them, None where the host keeps no record; ``{count,
    today, last}`` of each kind of the kernel's complaints since it started."""
    records = [content for path in _WTMP if (content := _tail(path))]
    kernel = Kernel()
    lines = kernel.look()
    kernel.close()
    return {"boots": boots(records, time.time(), panics()) if records else None, "lines": complaints(lines)}


def complaints(found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        kind: {"count": one["count"], "today": len(one["times"]), "last": one["last"]} for kind, one in found.items()
    }


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_LOGINS) // _MANY_RECORDS * _MANY_RECORDS)
            return file.read(_MOST_LOGINS + _MANY_RECORDS)
    except OSError:
        return b""


def boots(records: Iterable[bytes], now: float, panics: Iterable[tuple[float, str]] = ()) -> list[dict[str, Any]]:
    """``{days_ago, cut_off, why}`` of each start in wtmp's files, the oldest first; cut_off: another start came with no
    shutdown before it. why: what the kernel left of its end. panics: as of `panics`."""
    found: list[dict[str, Any]] = []
    ends: list[tuple[float, dict[str, Any]]] = []
    shut = True
    for kind, user, at in (record for content in records for record in _records(content)):
        if kind == _BOOT:
            if found and not shut:
                found[-1]["cut_off"] = True
                ends.append((at, found[-1]))
            found.append({"days_ago": max(0.0, (now - at) / _DAY_S), "cut_off": False, "why": ""})
            shut = False
        elif kind == _RUN_LEVEL and user == b"shutdown":
            shut = True
    for when, why in panics if ends else ():  # kept just before the next start, or moved away just after it
        min(ends, key=lambda end: abs(end[0] - when))[1]["why"] = why
    return [boot for boot in found if boot["days_ago"] <= _DAYS]


def panics(folders: Iterable[Path] = _PSTORE) -> list[tuple[float, str]]:
    """When and by which words the kernel's own records of its ends say that it stopped itself."""
    found = []
    every = [path for folder in folders for path in islice(folder.glob("**/*"), _MOST_LISTED)]
    for path in sorted(every)[-_MOST_FILES:]:
        if words := _PANIC.search(_text(path)):
            found.append((path.stat().st_mtime, " ".join(words[0].split())[:_MOST_WORDS]))
    return found


def _records(content: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Of the form in which most records have a kind and a time that there are: the last may have been cut off."""
    found: list[list[tuple[int, bytes, int]]] = []
    for size, (place, form) in _FORMS.items():
        records = [content[at : at + size] for at in range(0, len(content) - size + 1, size)]
        read = [(one[0], one[_USER].split(b"\0")[0], struct.unpack_from(form, one, place)[0]) for one in records]
        found.append([one for one, record in zip(read, records, strict=True) if _is_record(record, one[2])])
        if found[-1] and len(found[-1]) == len(records):
            break
    yield from max(found, key=len)


def _is_record(record: bytes, at: int) -> bool:
    return 0 < record[0] < 10 and record[1] == 0 and _YEAR_2001 < at < 10 * _YEAR_2001


def read_sensors() -> dict[str, Any]:
    """``{heat_c, errors}``: degrees of the chip's zones and of the adapters, by name; errors of the RDMA devices that
    are not 0. A disk's heat is its own to tell."""
    heat = {f"zone {zone.name[12:]}": _number(zone / "temp") for zone in _ZONES.glob("thermal_zone*")}
    for sensor in _HWMON.glob("hwmon*"):
        if (name := _text(sensor / "name")) not in ("nvme", "acpitz"):
            heat |= {
                f"{name} {path.name[4:-6]} {sensor.name[5:]}": _number(path) for path in sensor.glob("temp*_input")
            }
    errors: dict[str, dict[str, int]] = {}
    for path in [path for name in _ERRORS for path in _RDMA.glob(f"*/ports/1/*counters/{name}")]:
        if value := _number(path):
            errors.setdefault(path.parents[3].name, {})[path.name] = value
    return {
        "heat_c": {name: value / 1000 for name, value in sorted(heat.items()) if value is not None},
        "errors": errors,
    }


def read_drives() -> dict[str, dict[str, int]]:
    """What `worn` says of each NVMe disk that answers."""
    found = {}
    for path in sorted(Path("/dev").glob("nvme[0-9]")):
        with contextlib.suppress(OSError):
            found[path.name] = worn(_smart(path))
    return found


def _smart(path: Path) -> bytes:
    log = ctypes.create_string_buffer(_LOG_BYTES)
    words = (_LOG_BYTES // 4 - 1) << 16 | _SMART
    head = struct.pack("<BBHIII", _SMART, 0, 0, _WHOLE, 0, 0) + struct.pack(
        "<QQII", 0, ctypes.addressof(log), 0, _LOG_BYTES
    )
    request = bytearray(head + struct.pack("<8I", words, 0, 0, 0, 0, 0, _DISK_MS, 0))
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if status := fcntl.ioctl(descriptor, _ADMIN, request):
            raise OSError(status, "it refuses to tell its health")
    finally:
        os.close(descriptor)
    return log.raw


def worn(log: bytes) -> dict[str, int]:
    """``{warning, heat_c, spare, spare_least, used, errors}`` of the SMART log: warning is its bits, spare and used are
    in per cent."""
    warning, kelvin, spare, least, used = struct.unpack_from("<BHBBB", log)
    errors = int.from_bytes(log[160:176], "little")
    return {
        **{"warning": warning, "heat_c": kelvin - 273, "spare": spare, "spare_least": least, "used": used},
        "errors": min(errors, 1 << 53),
    }


def read_watchdogs() -> list[dict[str, str]]:
    """``{unit, line}`` of what somebody let run again and again that ends engines: units with their scripts, and lines
    of cron."""
    runs: list[tuple[str, str]] = []
    for folder in (_UNITS, *sorted(_HOMES.glob("*/.config/systemd/user"))):
        for link in sorted(folder.glob("*.wants/*"))[:_MOST_FILES]:
            target = Path(os.path.realpath(link))  # which a loop of links does not stop
            unit = target if link.suffix == ".service" else target.with_suffix(".service")
            if not unit.name.startswith(_OURS):
                name = unit.name if folder == _UNITS else str(unit)
                runs.append((name, "\n".join(re.findall(r"^ExecStart=(.*)$", _text(unit), re.MULTILINE))))
    for path in [path for place in _CRON for path in ([place] if place.is_file() else sorted(place.glob("*")))]:
        runs += [(str(path), f"while {row}") for row in _text(path).splitlines() if not row.lstrip().startswith("#")]
    found = []
    for name, words in list(dict.fromkeys(runs))[: 2 * _MOST_FILES]:
        paths = [path for path in re.findall(r"(?<!\S)[-@!+]*(/[\w./+-]+)", words) if not path.startswith(_PACKAGED)]
        scripts = [_text(Path(path)) for path in paths[:4]]
        if line := ends_engines("\n".join([words, *scripts])):
            found.append({"unit": name, "line": line})
    return found


def ends_engines(text: str) -> str:
    """The command that ends engines in what watches them; empty for another program, and for one that starts them."""
    plain = re.sub(r"^[ \t]*#.*$", "", text, flags=re.MULTILINE)
    is_watchdog = _ENGINES.search(plain) and _WATCHES.search(plain) and not _STARTS.search(plain)
    # words of a command in a list of Python's are words of it too
    ends = _ENDS.search(re.sub(r"[\"'], *[\"']", " ", plain)) if is_watchdog else None
    return " ".join(ends[0].split())[:_MOST_WORDS] if ends else ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if re.fullmatch(r"-?\d{1,15}", text) else None


def _text(path: Path) -> str:
    return text_of(path, _MOST_BYTES)


READS: Mapping[str, Part] = {
    "health": lambda _run, _ask: read_health(),
    "sensors": lambda _run, _ask: read_sensors(),
    "drives": lambda _run, _ask: read_drives(),
    "watchdogs": lambda _run, _ask: read_watchdogs(),
}
