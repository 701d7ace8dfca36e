# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's slice of the plan as a type: what its roles take. What each part means, its maker says.

A test holds the types equal to the slices of real plans. The file of a rank has the type by which its supervisor
reads it, `_on_host.rank.service.Service`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict, final

from .declared_host import Registry, Running
from .typed import Limits


class FileEntry(TypedDict):
    """content: null where no file is to be. source: a file of this collection by its path in it."""

    mode: str
    content: NotRequired[str | None]
    source: NotRequired[str]


Files = dict[str, FileEntry]
# {unit: enabled | started}
Units = dict[str, str]
# {path: mode}; null where mode and owner are left as they are.
Folders = dict[str, str | None]


class Copied(TypedDict):
    """source: on the controller. path: on the host."""

    source: str
    path: str


class KeyCopy(Copied):
    form: str


class UnitSecret(Copied):
    """unit: which reads it when it starts."""

    unit: str


class Certified(TypedDict):
    """What a TLS endpoint shows. ca: of the local CA on the controller; None for an owner's certificate."""

    certificate: Copied
    key: Copied
    ca: str | None
    names: list[str]


# Of the fabric ----------------------------------------------------------------------------------------------------


class Peer(TypedDict):
    host: str
    interface: str
    port: int | None
    half: int | None
    rdma_device: str | None
    address: str | None


class Identity(TypedDict):
    """What names an interface of an end; address: with its prefix."""

    name: str
    port: int | None
    half: int | None
    rdma_device: str | None
    address: str | None


class Interface(Identity):
    kind: str
    segment: str
    mtu: int | None
    speed_mbps: int | None
    peers: list[Peer]


class Gates(TypedDict):
    rail_gbps: float
    port_gbps: float


class Management(TypedDict):
    interface: str
    address: str


class Listen(TypedDict):
    device: str
    port: int
    client: str


class Rail(TypedDict):
    interface: str
    device: str
    server: str
    port: int


class Measurement(TypedDict):
    name: str
    segment: str
    peer: str
    rails: list[Rail]


class Bandwidth(TypedDict):
    listen: list[Listen]
    measure: list[Measurement]


class FabricSlice(TypedDict):
    mode: str
    keeper: str
    transport: str
    rails: str
    hotplug: str
    gates: Gates
    management: Management
    interfaces: list[Interface]
    sysctl: dict[str, int]
    netplan: dict[str, Any]
    files: Files
    units: Units
    bandwidth: NotRequired[Bandwidth]  # which only the plan of all hosts knows


# Of the host ------------------------------------------------------------------------------------------------------


class TuningSlice(TypedDict):
    """What null in ``fleet_host`` leaves alone is not there."""

    sysctl: dict[str, str]
    read_ahead_kb: NotRequired[int]
    swap: NotRequired[bool]
    memlock: NotRequired[str]
    default_target: NotRequired[str]
    files: Files
    links: dict[str, str | None]


class GpuSlice(TypedDict):
    clock_max_mhz: int | None
    persistence: bool | None
    unit: str
    units: Units
    files: Files


class MemoryGuardSlice(TypedDict):
    enabled: bool
    unit: str
    units: Units
    files: Files


class Login(Registry):
    """key: its name in Docker's file of logins."""

    key: str


class ContainerEngineSlice(TypedDict):
    daemon: dict[str, Any]
    registries: list[Login]
    units: Units
    reloadable: list[str]
    restart: bool


# Who answers clients at a port, and the addresses that alone may come, empty for everybody; by TCP, if it says nothing.
# port: null with the protocol vrrp.
Api = TypedDict("Api", {"port": int | None, "protocol": NotRequired[str], "from": list[str], "reason": str})
Opening = TypedDict("Opening", {"port": int | None, "protocol": str, "from": list[str], "reason": str})


class Neighbour(TypedDict):
    interface: str | None
    address: str


class Meeting(TypedDict):
    address: str | None
    port: int


class Rules(TypedDict):
    """state: closed but for ``open``; limited, where only these ports are filtered; or open, without rules. neighbours:
    who may reach every port. meetings: where ranks of this host listen, which root alone reaches."""

    state: Annotated[str, Limits(choices=["closed", "limited", "open"])]
    open: list[Opening]
    neighbours: list[Neighbour]
    meetings: Annotated[list[Meeting], Limits(default=[])]
    shut: Annotated[list[int], Limits(default=[])]


class FirewallSlice(Rules):
    files: Files
    units: Units


class VersionsSlice(TypedDict):
    running: Running
    held: list[str]
    tolerated: dict[str, str]


class TrustSlice(TypedDict):
    path: str
    source: str | None
    inventory: str


class SupervisorSlice(TypedDict):
    files: Files
    folders: Folders


# Of the stores ----------------------------------------------------------------------------------------------------


class PeerAddress(TypedDict):
    """host: its name in the inventory, which its SSH host key is pinned to. address: on the best network of both."""

    host: str
    address: str
    port: Annotated[int, Limits(default=22)]


_KINDS = ["registry", "archive", "build", "hub", "path", "host", "bundle"]


class Source(TypedDict):
    """Where an image or a model comes from when it is not there. path: of an archive, a folder or a bundle's layout on
    the host. host: which has or builds it. manifest: of an image in a bundle."""

    kind: Annotated[str, Limits(choices=_KINDS)]
    path: NotRequired[str]
    host: NotRequired[str]
    manifest: NotRequired[str]


class ImageId(TypedDict):
    digest: Annotated[str | None, Limits(default=None)]
    identity: str


class ModelId(TypedDict):
    revision: str
    seal: str


class Jobs(TypedDict):
    """argument: the Dockerfile's, that takes the number of compilers at once, of which there are no more than most."""

    argument: str | None
    most: int


class BuildOrder(TypedDict):
    """What the host is given that builds an image. files: texts by name. contexts: by the Dockerfile's names. labels:
    all that goes in. job_gib: memory of one compiler. floor_gib: what stays free. disk_gib: for Docker's images."""

    files: dict[str, str]
    target: str | None
    contexts: dict[str, str]
    downloads: dict[str, str]
    arguments: dict[str, str]
    labels: dict[str, str]
    network: Annotated[str, Limits(choices=["none", "default"])]
    jobs: Jobs
    job_gib: float
    floor_gib: float
    disk_gib: float


_Peers = Annotated[list[PeerAddress], Limits(default=[])]
_Switch = Annotated[bool, Limits(default=False)]


class StoredImage(TypedDict):
    """digest: the pin, of a registry, or an archive's or the image's own. peers: hosts to fetch it from, nearest first,
    the last one certain to have it. lock: what it is known by. renew: take what its source gives now."""

    reference: str
    digest: Annotated[str | None, Limits(default=None)]
    source: Source
    peers: _Peers
    lock: Annotated[ImageId | None, Limits(default=None)]
    renew: _Switch
    build: NotRequired[BuildOrder]


class StoredModel(TypedDict):
    """repository: ORG/NAME, or a file of it, ORG/NAME/FILE.gguf. revision: the pin. peers, lock, renew: of an image."""

    repository: str
    revision: Annotated[str | None, Limits(default=None)]
    bytes: Annotated[int | None, Limits(default=None)]
    source: Source
    peers: _Peers
    lock: Annotated[ModelId | None, Limits(default=None)]
    renew: _Switch


class Access(TypedDict):
    reads: dict[str, list[str]]
    readers: dict[str, list[str]]


class PeerAccess(Access):
    inventory: str
    files: Files
    owns: NotRequired[list[str]]


class RetentionSlice(TypedDict):
    images: int
    models: int
    after: list[str]


class Observation(TypedDict):
    """path: on the host. observed: below the controller's folder of such things."""

    path: str
    observed: str


class UnreadImage(TypedDict):
    image: str
    catalogues: Observation


# Of a service -----------------------------------------------------------------------------------------------------


class MountEntry(TypedDict):
    source: str
    target: str
    read_only: bool


class Published(TypedDict):
    address: str
    port: int


class ContainerEntry(TypedDict):
    """`_plan.container.Container`, which says what each key means."""

    name: str
    image: str
    arguments: Sequence[str]
    entrypoint: str | None
    env: Mapping[str, str]
    mounts: list[MountEntry]
    caches: Mapping[str, str]
    ports: Sequence[Published]
    network: str
    ipc: str
    devices: Sequence[str]
    capabilities: Sequence[str]
    pids_limit: int
    memory_limit: int | None
    oom_score_adj: int
    read_only: bool
    tmpfs: Sequence[str]
    security: Sequence[str]
    ulimits: Mapping[str, str]
    shared_memory: str | None
    stop_signal: NotRequired[str]


@final
class Written(TypedDict):
    """A text that is written as it is."""

    path: str
    content: str


@final
class Merged(TypedDict):
    """The original JSON file with the keys of ``json_merge`` merged into it."""

    path: str
    original: str
    json_merge: dict[str, Any]


class Key(KeyCopy):
    """made: by a run, if it is not there."""

    made: bool


class GroupSecret(TypedDict):
    path: str
    head: str


class ExampleRequest(TypedDict):
    """`_engines.openai.Example`."""

    path: str
    body: Mapping[str, Any]
    answers: Sequence[Sequence[str | int]]
    sound_s: float


class Expected(TypedDict):
    release: str | None
    kv_tokens: int | None
    kv_tokens_low: int | None
    kv_tokens_high: int | None


class Question(TypedDict):
    """What a proof asks besides (`_engines.openai.questions`). times: its text is sent so often in turn."""

    name: str
    request: ExampleRequest
    limit_s: int
    times: int


class StartsKept(Observation):
    """Where the last starts are kept, and of what they are. gb, loader: of weights that a host reads, and how."""

    image: str
    model: str
    gb: float | None
    loader: str | None


class Proof(TypedDict):
    """What is asked of the endpoint, and what its start is compared with. ca, names: of one with TLS."""

    url: str
    key_file: str
    key_form: str
    certificate: str | None
    ca: NotRequired[str | None]
    names: NotRequired[list[str]]
    health: str
    request: ExampleRequest
    questions: list[Question]
    boot_lines: str
    startup_limit_s: float
    memory_total_bytes: int
    requested_bytes: int | None
    boots: Observation
    starts: StartsKept
    expected: Expected


class ServiceSlice(TypedDict):
    """A service in one host's slice: `_plan.service_slice.service_slice`. supervisor: what its rank file says, which
    `_on_host.rank.service.from_plan` reads. start: a hash of what its engine is started with."""

    name: str
    engine: str
    unit: str
    rank: int
    ranks: int
    hosts: list[str]
    definition: str
    start: str
    container: ContainerEntry
    exec: Sequence[str] | None
    flags: dict[str, Any]
    files: Files
    merged: list[Merged]
    models: list[str]
    folders: Folders
    key: Key | None
    tls: Certified | None
    trace_headers: Copied | None
    secret: GroupSecret | None
    rank_file: str
    supervisor: Mapping[str, Any]
    status_file: str
    memory_bytes: int
    memory_floor_bytes: int
    proof: Proof | None


class ListenRow(TypedDict):
    """port: ``any`` for those that ranks take as they like."""

    port: int | str
    address: str
    service: str
    who: str


class MemoryLine(TypedDict):
    low: int
    expected: int
    high: int
    source: str


# Of the fleet's subjects ------------------------------------------------------------------------------------------


class GatewayRequest(TypedDict):
    model: str
    example: ExampleRequest


class GatewayProof(TypedDict):
    port: int
    name: str
    certificate: str
    ca: str | None
    names: list[str]
    models: list[str]
    requests: list[GatewayRequest]


class GatewaySlice(TypedDict, total=False):
    """Empty on a host that is no gateway's; else all of it."""

    inventory: str
    address: str | None
    packages: list[str]
    unit: str
    units: Units
    files: Files
    folders: Folders
    clients: Copied
    backend_keys: list[KeyCopy]
    tls: Certified
    listens: list[int]
    servers: dict[str, dict[str, str]]
    readiness: dict[str, dict[str, list[str | int]]]
    proof: GatewayProof


class ClientStart(TypedDict):
    name: str
    unit: str
    container: str
    image: str
    started: str
    files: list[str]


class ClientSecret(TypedDict):
    path: str
    source: str
    kind: str
    key: str


class ClientProof(TypedDict):
    kind: str
    url: str
    health: str
    account: str
    models: list[str]


class ClientSlice(TypedDict):
    name: str
    kind: str
    start: ClientStart
    unit: str
    units: Units
    files: Files
    folders: Folders
    secrets: list[ClientSecret]
    secret_made: bool
    listens: Published
    proof: ClientProof


class MonitoringPart(TypedDict):
    packages: list[str]
    units: Units
    folders: Folders
    files: Files
    reads: dict[str, list[str]]
    secrets: list[UnitSecret]


class MonitoringSlice(MonitoringPart):
    inventory: str
    url: str
    gone: list[str]


class PhoenixSlice(TypedDict):
    inventory: str
    tool: str
    url: str
    port: int | None
    packages: list[str]
    units: Units
    folders: Folders
    files: Files
    secrets: list[Copied]
    spans: str
    gone: list[str]


# What must be there before a change ---------------------------------------------------------------------------------


class NeededFile(TypedDict):
    """unless: a path that makes it needless."""

    path: str
    service: str
    option: str
    unless: str | None
    weights_bytes: NotRequired[int | None]  # of a folder of weights


class NeededDisk(TypedDict):
    path: str
    bytes: int
    what: str
    unless: str


class NeededSecret(Copied):
    service: str
    option: str


class NeededPort(TypedDict):
    port: int
    container: str
    service: str
    option: str


class NeededGroup(TypedDict):
    """A service whose hosts have to be alike."""

    service: str
    hosts: list[str]
    image: str
    pinned: bool


class Launch(TypedDict):
    """What is judged again with what only the host knows. request: as its engine takes it."""

    container: str
    service: str
    engine: str
    request: Mapping[str, Any]


class Needs(TypedDict):
    paths: list[str]
    files: list[NeededFile]
    disk: list[NeededDisk]
    secrets: list[NeededSecret]
    ports: list[NeededPort]
    installs: list[str]
    memory_bytes: int
    reach: dict[str, list[str]]
    groups: list[NeededGroup]
    launches: list[Launch]


class Slice(TypedDict):
    """``hosts.<name>`` of the plan."""

    fabric: FabricSlice
    images: list[StoredImage]
    models: list[StoredModel]
    peer_access: PeerAccess
    retention: RetentionSlice
    services: list[ServiceSlice]
    unread_images: list[UnreadImage]
    listens: list[ListenRow]
    memory: dict[str, dict[str, MemoryLine]]
    gateway: GatewaySlice
    clients: list[ClientSlice]
    monitoring: MonitoringSlice
    phoenix: PhoenixSlice
    gpu: GpuSlice
    memory_guard: MemoryGuardSlice
    host_tuning: TuningSlice
    container_engine: ContainerEngineSlice
    firewall: FirewallSlice
    supervisor: SupervisorSlice
    tls: TrustSlice
    versions: VersionsSlice
    needs: Needs


def part_of(slice_: Slice, name: str) -> Any:
    """A subject's part, by the subject's name."""
    parts: Mapping[str, Any] = slice_
    return parts[name]
