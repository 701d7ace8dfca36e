# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie on a host and inside a container: every path of ours, once, and the line that marks our files."""

import hashlib
from pathlib import PurePosixPath

# The first comment of each file that roles write.
MARK = "# Managed by gb10.fleet: changes are overwritten by site.yml and reported by drift.yml."

# On the host.
LIBRARY = "/usr/local/lib/gb10-fleet"
STATE = "/var/lib/gb10-fleet"  # notes of the stores, and what they bring
UNITS = "/etc/systemd/system"
CONFIG = "/etc/gb10-fleet"
STATUS = "/run/gb10-fleet"
SERVICES = f"{CONFIG}/services"
SECRETS = f"{CONFIG}/secrets"
FIREWALL = f"{CONFIG}/firewall.nft"
UNDO = f"{CONFIG}/undo.json"  # what was there before the first change: `_operations.undo.record`
LAST_RUN = f"{CONFIG}/last-run.json"  # who changed the host last, by which release and commits
LEASE = f"{STATUS}/lease.json"  # who changes the host now; empty when nobody does
INSTALLED = f"{CONFIG}/installed"  # an empty file for each package that was missing
HOTPLUG = f"{CONFIG}/cx7-hotplug"  # that the adapter's hot-plug was switched off by us
NETPLAN = f"{CONFIG}/netplan"  # the network guard's record, and files of others that were moved
PEER = f"{CONFIG}/peer"
PEER_HOME = f"{STATE}/peer"
PEER_PROGRAM = f"{LIBRARY}/peer-serve"
MEMORY_GUARD_UNIT = "gb10-memory-guard.service"
GPU_UNIT = "gb10-gpu.service"
MEMORY_GUARD_PROGRAM = f"{LIBRARY}/memory_guard.py"
MONITORING = f"{CONFIG}/monitoring"
METRICS = "/run/gb10-metrics"  # what the node exporter shows besides its own
METRICS_PLAN = f"{CONFIG}/metrics.json"
METRICS_PROGRAM = f"{LIBRARY}/metrics.py"
METRICS_UNIT, EXPORTER_UNIT = "gb10-metrics.service", "gb10-node-exporter.service"
PROMETHEUS_UNIT, ALERTMANAGER_UNIT = "gb10-prometheus.service", "gb10-alertmanager.service"
MONITORING_UNITS = (METRICS_UNIT, EXPORTER_UNIT, PROMETHEUS_UNIT, ALERTMANAGER_UNIT)
PHOENIX = f"{CONFIG}/phoenix"
PHOENIX_TOOL = f"{LIBRARY}/phoenix"  # its virtual environment
PHOENIX_DATA = "/var/lib/gb10-phoenix"
PHOENIX_UNIT, PHOENIX_PROXY_UNIT = "gb10-phoenix.service", "gb10-phoenix-proxy.service"
PHOENIX_SOCKET = "gb10-phoenix-proxy.socket"
PHOENIX_UNITS = (PHOENIX_SOCKET, PHOENIX_PROXY_UNIT, PHOENIX_UNIT)
GATEWAY = f"{CONFIG}/gateway"
GATEWAY_UNIT = "gb10-gateway.service"
GATEWAY_CERTIFICATE = f"{GATEWAY}/tls.crt"
GATEWAY_STATUS = "/run/gb10-gateway"  # its sockets
GATEWAY_SOCKET = f"{GATEWAY_STATUS}/admin.sock"
GATEWAY_BODIES_UNIT = "gb10-gateway-bodies.service"
GATEWAY_BODIES_STATUS = "/run/gb10-gateway-bodies"
GATEWAY_ADDRESS_UNIT = "gb10-gateway-address.service"  # with a floating address alone
GATEWAY_UNITS = (GATEWAY_UNIT, GATEWAY_BODIES_UNIT, GATEWAY_ADDRESS_UNIT)
GATEWAY_READ = f"{GATEWAY_STATUS}/read"  # as old as its last reading of its files
CLIENTS = f"{CONFIG}/clients"  # settings and secrets of each
CLIENTS_STATUS = "/run/gb10-clients"
BUNDLE = f"{STATE}/bundle"  # what a run brought of a bundle, gone when it is in its place
PULL = f"{STATE}/pull"  # of a host that fetches its slice itself: the slice, how the last try ended
PULL_ENABLED = "/etc/systemd/system/timers.target.wants/gb10-pull.timer"  # by systemctl enable
PULL_REPORT = f"{PULL}/report.json"
PULL_UNIT = "gb10-pull.service"
EVIDENCE = f"{STATE}/evidence"  # what failed epochs leave
MODELS = f"{STATE}/hf"  # HF_HOME: the standard cache layout, with hub/ below
# Hugging Face caches that models are taken from, where root alone can write them: their content is trusted.
CACHES = ("/root/.cache/huggingface/hub",)
OVERLAYS = f"{STATE}/overlays"  # small files mounted over those of images and models, by service
STARTS = f"{STATE}/starts"  # the last starts of each service by phase, by the same key
BOOTS = f"{STATE}/boots"  # what starts have shown, by `_engines.memory.boots.boot_key`
CATALOGUES = f"{STATE}/catalogues"  # what images of unknown build hold, by `_engines.observed.image_key`
COMPILED = "/var/cache/gb10-fleet"  # what torch.compile, Triton and FlashInfer build, by service and image

UPDATE = f"{STATE}/update"  # an update that is under way: its record, and packages of the way back
UPDATE_RECORD = f"{UPDATE}/record.json"
UPDATE_TOOK = f"{STATE}/update-took.json"  # how long the last one took

# Folders that nobody else writes to, and what the names of files of ours elsewhere have.
OWN_FOLDERS = (CONFIG, LIBRARY, STATE, COMPILED)
_OWN_NAME = "gb10-"

# In the container.
# Where an owner's data lies, and ours that containers may read.
DATA = ("/srv/", "/mnt/", "/media/", "/data/", f"{MODELS}/", f"{OVERLAYS}/")
IN_MODELS = "/hf"
# Code that comes with a model is copied here (HF_MODULES_CACHE): the models themselves are mounted read-only.
IN_MODEL_CODE = "/tmp/hf_modules"
IN_LIBRARY = "/opt/gb10-fleet"  # modules of ours
IN_GROUP_TOKEN = "/run/secrets/group-token"


# What units and containers that own services begin with. Releases before 0.2.0 wrote the second.
_PREFIXES = ("gb10-service-", "gb10-vllm-")


def is_own(path: str) -> bool:
    """Whether a path that a slice names is of our making, whatever was there before. Any other may be an owner's."""
    return _OWN_NAME in PurePosixPath(path).name or path.startswith(tuple(f"{folder}/" for folder in OWN_FOLDERS))


def unit(service: str) -> str:
    """The systemd unit that owns a service on a host."""
    return f"{container(service)}.service"


def container(service: str) -> str:
    """The container that the unit runs."""
    return f"{_PREFIXES[0]}{service}"


def service_of(name: str) -> str | None:
    """The service whose unit or container has this name, also a former one; None for any other.

    A service's name begins with a letter or digit: it is the name of folders, too, which must not lead elsewhere.
    """
    stem = name.removesuffix(".service")
    found = (stem.removeprefix(prefix) for prefix in _PREFIXES if stem.startswith(prefix))
    return next((service for service in found if service[:1].isalnum()), None)


_CLIENT = "gb10-client-"


def client_unit(client: str) -> str:
    """The systemd unit that runs a client of the gateway."""
    return f"{client_container(client)}.service"


def client_container(client: str) -> str:
    """The container that the unit runs."""
    return f"{_CLIENT}{client}"


def client_of(unit: str) -> str | None:
    """The client whose unit has this name; None for any other. Its name is one of folders, too."""
    name = unit.removesuffix(".service").removeprefix(_CLIENT)
    return name if unit.startswith(_CLIENT) and name[:1].isalnum() else None


def client_folder(client: str) -> str:
    """Settings and secrets of a client."""
    return f"{CLIENTS}/{client}"


def client_data(client: str) -> str:
    """What a client keeps: accounts, chats, memories. It outlives the client."""
    return f"{STATE}/clients/{client}"


def client_started(client: str) -> str:
    """A file that is as old as the client's last start."""
    return f"{CLIENTS_STATUS}/{client}"


def rank_file(service: str) -> str:
    """What the supervisor of a rank goes by."""
    return f"{SERVICES}/{service}.json"


def supervisor_file(service: str) -> str:
    """Which supervisor the next start of a service takes: a file of variables for systemd."""
    return f"{SERVICES}/{service}.supervisor"


def taken_back(service: str) -> str:
    """Which definition of it a rollout has taken back, of it or of another replica."""
    return f"{SERVICES}/{service}.taken-back"


def way_back(service: str) -> str:
    """What a service went by before a rollout that has not proved the new one yet. It has secrets, for root alone."""
    return f"{SECRETS}/.way-back/{service}"


def way_back_index(service: str) -> str:
    """What is kept there; written last, so that without it nothing is kept as a whole."""
    return f"{way_back(service)}/index.json"


def trial(service: str) -> str:
    """The unit and the timer, without their kind, that end a trial which its controller has left."""
    return f"gb10-trial-{service}"


def trial_program(service: str) -> str:
    """Of each service its own: the end of one trial takes nothing away from another one of the host."""
    return f"{LIBRARY}/trial-{service}.py"


def deadline(service: str) -> str:
    """When that is, of this boot."""
    return f"/run/{trial(service)}"


def status_file(service: str) -> str:
    """What the supervisor of a rank says of it."""
    return f"{STATUS}/{service}/status.json"


def key_file(service: str) -> str:
    """The API key, on the head, in the engine's form."""
    return f"{SECRETS}/{service}.key"


def trace_headers(service: str) -> str:
    """Headers for the collector of its traces, on the head, as OpenTelemetry's variable has them."""
    return f"{SECRETS}/{service}.trace-headers"


def gateway_key(backend: str) -> str:
    """The key by which a gateway asks the heads of a backend, as HAProxy's map."""
    return f"{GATEWAY}/keys/{backend}.map"


def certificate_file(service: str) -> str:
    """The certificate that a service shows to clients, with its chain, on the head."""
    return f"{SECRETS}/{service}.tls.crt"


def certificate_key(service: str) -> str:
    """The key of that certificate."""
    return f"{SECRETS}/{service}.tls.key"


def trusted_ca(inventory: str) -> str:
    """The local CA of an inventory, among those that a host trusts."""
    return f"/usr/local/share/ca-certificates/gb10-fleet-{inventory}.crt"


def trusted_link(trusted: str) -> str:
    """What update-ca-certificates makes of such a file."""
    return f"/etc/ssl/certs/{PurePosixPath(trusted).stem}.pem"


def group_secret(service: str) -> str:
    """What the ranks of a group know each other by."""
    return f"{SECRETS}/{service}.group"


def compiled(service: str) -> str:
    """What a service has compiled, with all its images. For root alone: what lies there is code that it runs."""
    return f"{COMPILED}/{service}"


def compiled_key(reference: str, digest: str | None) -> str:
    """The folder of an image, as it is pinned, in each service's: compiled kernels fit one image only."""
    return hashlib.sha256(f"{reference}@{digest or ''}".encode()).hexdigest()[:32]


def group_token(service: str) -> str:
    """What an engine's own processes in a group know each other by: derived from the group's secret at each launch."""
    return f"{STATUS}/{service}/token"


def model_folder(repository: str, revision: str | None, home: str = MODELS) -> str:
    """A model's files in the standard Hugging Face cache layout below ``home``. repository: or one file of it, by its
    name in the store, `_facts.models.stored`.

    Without a pinned revision it is the link that model_store keeps to the revision that ``main`` stands for.
    """
    folder = f"{home}/hub/models--{repository.replace('/', '--')}"
    return f"{folder}/snapshots/{revision}" if revision else f"{folder}/main"
