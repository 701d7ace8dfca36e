# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a host: the type of each part. `_subjects.form` checks a host's answer by it, once."""

from typing import Annotated, Any, NotRequired, TypedDict

from .typed import Limits

# What may be missing in an answer, and then is this.
_Words = Annotated[str, Limits(default="")]
_Word = Annotated[str, Limits(max=4096)]
_Version = Annotated[str, Limits(max=200)]  # its numbers are compared
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
    filesystem: str
    weights_bytes: Annotated[int | None, Limits(default=None)]


class Listener(TypedDict):
    port: int
    local: bool
    process: str
    container: str


class Publishing(TypedDict):
    """A running container, with the ports of the host that it publishes."""

    id: str
    name: str
    ports: list[int]


class FileAnswer(TypedDict):
    """salted, size: of a secret."""

    kind: Annotated[str, Limits(choices=["absent", "file", "folder", "link", "other", "unreadable"])]
    mode: _Words
    owner: _Words
    group: _Words
    sha256: _Words
    target: _Words
    why: _Words
    text: NotRequired[str]
    salted: NotRequired[Annotated[str, Limits(pattern="[0-9a-f]{64}", expected="64 hex digits")]]
    size: NotRequired[int]


class FileState(FileAnswer):
    """same: whether it is the controller's; None where that can't be told, with why."""

    same: NotRequired[bool | None]


class NetplanFile(FileAnswer):
    path: str
    claims: list[str]
    lines: dict[str, int]


class Later(TypedDict):
    key: str
    value: _Word
    file: str
    line: int


class Kernel(TypedDict):
    release: _Version
    cmdline: str
    swap: str
    read_ahead: dict[str, int]
    memlock: _Word
    reboot_required: bool


class Firmware(TypedDict):
    nic_firmware: _Version | None


class Package(TypedDict):
    version: str
    held: bool


class Unit(TypedDict):
    load: str
    active: str
    sub: str
    enabled: str
    restarts: int
    stale: bool
    drop_ins: list[str]
    active_s: int | None


class Disk(TypedDict):
    free: int
    total: int


class Platform(TypedDict):
    ota: _Version | None
    release: str | None
    bios: _Version | None
    vendor: str | None
    product: str | None


class Gpu(TypedDict):
    """why: it does not answer. The rest is of one that does: figures, and what holds its clock back now."""

    present: bool
    module: bool
    users: int
    why: _Words
    persistence: NotRequired[bool | None]
    held_back: NotRequired[list[str]]
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
    missing: list[str]


class BootEntry(TypedDict):
    release: _Version
    cmdline: str


class Boot(TypedDict):
    """What the next restart brings: installed kernels, GRUB's entries and its default, the driver on the disk."""

    kernels: list[_Version]
    entries: list[BootEntry]
    default: _Word
    driver: _Version | None


class AtWork(TypedDict):
    """Who holds a lock of the package manager, and whether an update was cut off."""

    holders: list[str]
    unproved: bool


class AptStep(TypedDict):
    action: Annotated[str, Limits(choices=["install", "upgrade", "remove"])]
    package: str
    have: str
    version: str


class Sudo(TypedDict):
    password: bool | None


class Network(TypedDict):
    renderers: list[str]
    wifi: dict[str, str]
    default: list[str]
    desktop: bool


class Fragments(TypedDict):
    free: int
    huge: int


class Engine(TypedDict):
    installed: bool
    running: bool
    hangs: NotRequired[str]
    version: NotRequired[_Version]
    store: NotRequired[_Version]
    missing_rules: NotRequired[list[str]]


class Daemon(TypedDict):
    masked: bool
    flags: list[str]
    where: dict[str, str]
    file: str
    settings: dict[str, Any]
    names: list[str]


class Firewall(TypedDict):
    text: str
    planned: str
    live: str
    live_planned: str
    why: str


class Peers(TypedDict):
    authorized: dict[str, str]
    known: dict[str, str]
    public_key: str
    host_key: str
    addresses: list[str]


class ImageNote(TypedDict):
    identity: str
    digest: str | None


class Image(TypedDict):
    id: str
    identity: str
    layers: int
    digests: list[str]
    recorded: ImageNote | None


class Model(TypedDict):
    revision: str | None
    seal: str | None
    changed: list[str]
    gone: list[str]
    broken: str
    access: list[_Path]
    closed: list[str]


class Models(TypedDict):
    models: dict[str, Model]
    others: list[str]


class Deep(TypedDict):
    good: list[str]
    bad: dict[str, str]
    left: list[str]


class TakenBack(TypedDict):
    """A definition that did not prove itself. of: the replica that showed it."""

    definition: str
    of: str
    at: str
    why: str


class OurUnit(TypedDict):
    unit: str
    inventory: str
    ranks: int
    asked: NotRequired[str]
    unproved: bool
    taken_back: NotRequired[TakenBack]


# With the names that Docker's options have.
Container = TypedDict(
    "Container",
    {
        "id": str,
        "image": str,
        "reference": str,
        "argv": list[str],
        "entrypoint": list[str],
        "image_entrypoint": list[str],
        "env": dict[str, str],
        "other_env": list[str],
        "mounts": list[list[str | bool]],
        "devices": list[str],
        "capabilities": list[str],
        "dropped": list[str],
        "pids-limit": int | None,
        "memory-limit": int | None,
        "oom-score-adj": int,
        "read-only": bool,
        "tmpfs": list[str],
        "log": str,
        "privileged": bool,
        "security": list[str],
        "network": str,
        "ipc": str,
        "published": list[list[str | int]],
    },
)


class Start(TypedDict):
    runs: bool
    enabled: bool
    stale: bool
    newer: str
    other_image: bool
    took_s: float | None


class Server(TypedDict):
    up: bool
    status: str
    running: int
    waiting: int


class Gateway(TypedDict):
    unread: list[str] | None
    servers: dict[str, dict[str, Server]] | None
    why: str
    leftovers: list[str]
    holds: dict[str, str]


class Certificate(TypedDict, total=False):
    """As the controller describes it: with why, where it is none."""

    names: list[str]
    days_left: float
    days_until: float
    why: str


class Parts(TypedDict):
    """A part that could not be read is None. `NotRequired`: not of every reading."""

    architecture: str | None
    memory_bytes: Memory | None
    paths: dict[str, PathState] | None
    listening: list[Listener] | None
    listening_udp: list[Listener] | None
    driver: _Version | None
    containers: list[Publishing] | None
    json: dict[str, dict[str, Any] | None] | None
    owned: list[str] | None
    sysctl: dict[str, str | None] | None
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
    iommu: dict[str, str] | None
    reach: dict[str, str] | None
    engine: Engine | None
    daemon: Daemon | None
    netplan: list[NetplanFile] | None
    fabric: dict[str, Any] | None
    firewall: Firewall | None
    closed: bool | None
    peers: Peers | None
    peers_entries: list[str] | None
    peers_inventory: str | None
    images: dict[str, Image | None] | None
    models: Models | None
    deep: Deep | None
    our_units: list[OurUnit] | None
    last_run: dict[str, str] | None
    running: dict[str, Container] | None
    gateway: Gateway | None
    gateway_address: bool | None
    peers_account: NotRequired[bool | None]
    images_changing: NotRequired[list[str] | None]
    models_changing: NotRequired[list[str] | None]
    starts: NotRequired[dict[str, Start] | None]


class Answer(Parts):
    """As a host answers."""

    files: dict[str, FileAnswer] | None
    certificates: dict[str, str | None] | None


class State(Parts):
    """As it is compared. asked_between: when it was asked, and when it had answered, in seconds since 1970."""

    files: dict[str, FileState] | None
    certificates: dict[str, Certificate] | None
    asked_between: tuple[float, float]
