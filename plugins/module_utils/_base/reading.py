# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a host: the type of each part. `_subjects.form` checks a host's answer by it, once."""

from typing import Annotated, Any, NotRequired, TypedDict

from .received import LINE, Foreign
from .typed import Limits

# What may be missing in an answer, and then is this.
_Words = Annotated[Foreign, Limits(default="")]
_Word = Annotated[Foreign, Limits(max=4096)]
# Names and versions: nothing that a shell would obey.
_Name = Annotated[str, Limits(pattern=r"[\w .,:()~+/@=-]*", max=4096, expected="a name")]
_Version = Annotated[_Name, Limits(max=200)]  # its numbers are compared
_Given = Annotated[_Name, Limits(default="")]
_Line = Annotated[str, Limits(pattern=LINE, expected="a line")]
_Path = Annotated[str, Limits(pattern=r"/[^\ud800-\udfff]*", expected="a path")]
_Count = Annotated[int, Limits(default=0)]


class Memory(TypedDict):
    total: int
    available: int
    swapped: _Count
    unaccounted: _Count


class PathState(TypedDict):
    exists: bool
    free_bytes: int
    filesystem: Foreign
    weights_bytes: Annotated[int | None, Limits(default=None)]


class Listener(TypedDict):
    port: int
    local: bool
    process: Foreign
    container: Foreign


class Publishing(TypedDict):
    """A running container, with the ports of the host that it publishes."""

    id: _Name
    name: _Name
    ports: list[int]


class FileAnswer(TypedDict):
    """salted, size: of a secret."""

    kind: Annotated[str, Limits(choices=["absent", "file", "folder", "link", "other", "unreadable"])]
    mode: _Given
    owner: _Given
    group: _Given
    sha256: _Given
    target: _Words
    why: _Words
    text: NotRequired[Foreign]
    salted: NotRequired[Annotated[str, Limits(pattern="[0-9a-f]{64}", expected="64 hex digits")]]
    size: NotRequired[int]


class FileState(FileAnswer):
    """same: whether it is the controller's; None where that can't be told, with why."""

    same: NotRequired[bool | None]


class NetplanFile(FileAnswer):
    path: Foreign
    claims: list[Foreign]
    lines: dict[str, int]


class Later(TypedDict):
    key: Foreign
    value: _Word
    file: Foreign
    line: int


class Kernel(TypedDict):
    release: _Version
    cmdline: _Line
    swap: Foreign
    read_ahead: dict[str, int]
    memlock: _Word
    reboot_required: bool


class Firmware(TypedDict):
    nic_firmware: _Version | None


class Package(TypedDict):
    version: _Version
    held: bool


class Unit(TypedDict):
    load: _Name
    active: _Name
    sub: _Name
    enabled: _Name
    restarts: int
    stale: bool
    drop_ins: list[Foreign]
    active_s: int | None


class Disk(TypedDict):
    free: int
    total: int


class Platform(TypedDict):
    ota: _Version | None
    release: Foreign | None
    bios: _Version | None
    vendor: Foreign | None
    product: Foreign | None


class Gpu(TypedDict):
    """why: it does not answer. The rest is of one that does: figures, and what holds its clock back now."""

    present: bool
    module: bool
    closed: NotRequired[bool]
    users: int
    why: _Words
    persistence: NotRequired[bool | None]
    held_back: NotRequired[list[Foreign]]
    figures: NotRequired[dict[str, float]]


class MachineStart(TypedDict):
    days_ago: float
    cut_off: bool
    why: _Words


class KernelWarnings(TypedDict):
    count: int
    today: int
    last: _Word


class Health(TypedDict):
    boots: list[MachineStart] | None
    lines: dict[str, KernelWarnings]


class Sensors(TypedDict):
    heat_c: dict[str, float]
    errors: dict[str, dict[str, int]]


class Drive(TypedDict):
    """warning: bits of NVM Express; spare, used: per cent."""

    warning: int
    heat_c: int
    spare: int
    spare_least: int
    used: int
    errors: int


class Watchdog(TypedDict):
    unit: _Word
    line: _Words


class CdiDrivers(TypedDict):
    versions: list[_Version]
    missing: list[Foreign]


class BootEntry(TypedDict):
    release: _Version
    cmdline: _Line


class Boot(TypedDict):
    """What the next restart brings: installed kernels, GRUB's entries and its default, the driver on the disk."""

    kernels: list[_Version]
    entries: list[BootEntry]
    default: _Line
    driver: _Version | None


class AtWork(TypedDict):
    """Who holds a lock of the package manager, and whether an update was cut off."""

    holders: list[Foreign]
    unproved: bool


class AptStep(TypedDict):
    action: Annotated[str, Limits(choices=["install", "upgrade", "remove"])]
    package: Foreign
    have: Foreign
    version: Foreign


class Sudo(TypedDict):
    password: bool | None


class Network(TypedDict):
    renderers: list[Foreign]
    wifi: dict[str, Foreign]
    default: list[Foreign]
    desktop: bool


class Fragments(TypedDict):
    free: int
    huge: int


class Engine(TypedDict):
    installed: bool
    running: bool
    hangs: NotRequired[Foreign]
    version: NotRequired[_Version]
    store: NotRequired[_Version]
    missing_rules: NotRequired[list[Foreign]]


class Daemon(TypedDict):
    masked: bool
    flags: list[Foreign]
    where: dict[str, Foreign]
    file: Foreign
    settings: dict[str, Any]
    names: list[Foreign]


class Firewall(TypedDict):
    text: Foreign
    planned: Foreign
    live: Foreign
    live_planned: Foreign
    why: Foreign


class Peers(TypedDict):
    authorized: dict[str, _Line]
    known: dict[str, _Line]
    public_key: _Line
    host_key: _Line
    addresses: list[Foreign]


class ImageNote(TypedDict):
    identity: _Name
    digest: _Name | None


class Image(TypedDict):
    id: _Name
    identity: _Name
    layers: int
    digests: list[_Name]
    recorded: ImageNote | None


class Model(TypedDict):
    revision: _Name | None
    seal: _Name | None
    changed: list[Foreign]
    gone: list[Foreign]
    broken: Foreign
    access: list[_Path]
    closed: list[Foreign]


class Models(TypedDict):
    models: dict[str, Model]
    others: list[_Name]


class Deep(TypedDict):
    good: list[_Name]
    bad: dict[str, Foreign]
    left: list[Foreign]


class TakenBack(TypedDict):
    """A definition that did not prove itself. start: `ServiceSlice.start`. of: the replica that showed it."""

    definition: _Line
    start: NotRequired[_Line]
    of: _Line
    at: _Line
    why: _Line


class OurUnit(TypedDict):
    unit: _Name
    inventory: Foreign
    ranks: int
    asked: NotRequired[Foreign]
    unproved: bool
    taken_back: NotRequired[TakenBack]


# With the names that Docker's options have.
Container = TypedDict(
    "Container",
    {
        "id": _Name,
        "image": _Name,
        "reference": _Name,
        "argv": list[Foreign],
        "entrypoint": list[Foreign],
        "image_entrypoint": list[Foreign],
        "env": dict[str, Foreign],
        "other_env": list[Foreign],
        "mounts": list[list[Foreign | bool]],
        "devices": list[Foreign],
        "capabilities": list[Foreign],
        "dropped": list[Foreign],
        "pids-limit": int | None,
        "memory-limit": int | None,
        "oom-score-adj": int,
        "read-only": bool,
        "tmpfs": list[Foreign],
        "log": Foreign,
        "privileged": bool,
        "security": list[Foreign],
        "network": Foreign,
        "ipc": Foreign,
        "published": list[list[Foreign | int]],
    },
)


class Start(TypedDict):
    runs: bool
    enabled: bool
    stale: bool
    newer: Foreign
    other_image: bool
    took_s: float | None


class Server(TypedDict):
    up: bool
    status: _Name
    running: int
    waiting: int


class Gateway(TypedDict):
    unread: list[Foreign] | None
    servers: dict[str, dict[str, Server]] | None
    why: Foreign
    leftovers: list[Foreign]
    holds: dict[str, Foreign]


class Certificate(TypedDict, total=False):
    """As the controller describes it: with why, where it is none."""

    names: list[str]
    days_left: float
    days_until: float
    why: str


class Parts(TypedDict):
    """A part that could not be read is None. `NotRequired`: not of every reading."""

    architecture: _Name | None
    memory_bytes: Memory | None
    paths: dict[str, PathState] | None
    listening: list[Listener] | None
    listening_udp: list[Listener] | None
    driver: _Version | None
    containers: list[Publishing] | None
    json: dict[str, dict[str, Any] | None] | None
    owned: list[Foreign] | None
    sysctl: dict[str, Foreign | None] | None
    sysctl_later: list[Later] | None
    memlock_later: list[Later] | None
    kernel: Kernel | None
    firmware: Firmware | None
    packages: dict[str, Package | None] | None
    units: dict[str, Unit] | None
    clock: float | None
    disks: dict[str, Disk] | None
    platform: Platform | None
    gpu: Gpu | None
    health: Health | None
    sensors: Sensors | None
    drives: dict[str, Drive] | None
    watchdogs: list[Watchdog] | None
    apt: AtWork | None
    installs: dict[str, list[AptStep] | None] | None
    sudo: Sudo | None
    network: Network | None
    fragments: Fragments | None
    boot: Boot | None
    cdi_drivers: dict[str, CdiDrivers] | None
    iommu: dict[str, Foreign] | None
    reach: dict[str, Foreign] | None
    engine: Engine | None
    daemon: Daemon | None
    netplan: list[NetplanFile] | None
    fabric: dict[str, Any] | None
    firewall: Firewall | None
    closed: bool | None
    peers: Peers | None
    peers_entries: list[Foreign] | None
    peers_inventory: _Line | None
    images: dict[str, Image | None] | None
    models: Models | None
    deep: Deep | None
    our_units: list[OurUnit] | None
    last_run: dict[str, _Line] | None
    lease: dict[str, _Line] | None
    running: dict[str, Container] | None
    gateway: Gateway | None
    gateway_address: bool | None
    peers_account: NotRequired[bool | None]
    images_changing: NotRequired[list[_Name] | None]
    models_changing: NotRequired[list[_Name] | None]
    starts: NotRequired[dict[str, Start] | None]


class Answer(Parts):
    """As a host answers."""

    files: dict[str, FileAnswer] | None
    certificates: dict[str, Foreign | None] | None


class State(Parts):
    """As it is compared. asked_between: when it was asked, and when it had answered, in seconds since 1970."""

    files: dict[str, FileState] | None
    certificates: dict[str, Certificate] | None
    asked_between: tuple[float, float]
