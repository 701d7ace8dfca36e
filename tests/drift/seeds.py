# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeded drifts: how each is made on a host, what drift.yml must say of it, and how it is undone."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.supervisors import program
from lab.imitations import DRIVER

IMAGE = "gb10-lab/vllm-stand-in:0.32.0"
UNIT = "gb10-service-tiny.service"
CONTAINER = "gb10-service-tiny"
MODEL = "gb10-lab/tiny"
CACHE = "/var/lib/gb10-fleet/hf"
BLOBS = f"{CACHE}/hub/models--gb10-lab--tiny"
RECORDS = "/var/lib/gb10-fleet/models/models--gb10-lab--tiny"
WEIGHTS = f"$(readlink -f {BLOBS}/main/model.safetensors)"
SYSCTL = "/etc/sysctl.d/99-zz-gb10-fleet.conf"
UDEV = "/etc/udev/rules.d/90-gb10-fleet-read-ahead.rules"
LIMITS = "/etc/security/limits.d/90-gb10-fleet.conf"
SYSTEMD = "/etc/systemd/system.conf.d/90-gb10-fleet.conf"
RANK = next(path for path in program() if path.endswith("/judge.py"))
NETPLAN = "/etc/netplan/40-cx7.yaml"
RAIL = "enp1s0f1np1"
PLACE = f"port 1 half 0 ({RAIL})"
KEPT = "/root/kept"
PEER_KEYS = "/var/lib/gb10-fleet/peer/.ssh"

RULES = "nftables table inet gb10_fleet"
API_KEY = "/etc/gb10-fleet/secrets/tiny.key"
PYTHON = "/etc/python3.13/sitecustomize.py"

# Tasks of site.yml
FILES = "Keep the settings over a boot"
BOOT = FILES
GUARD = "Install what takes network changes back, and keep the rails' settings over a boot"
MEMORY_GUARD = "Write its program and unit as planned"
SUPERVISOR = "Install the supervisor, and make the services' folders"
PEERS = "Give access to this host, and to others from it"
KERNEL = "Set the running kernel"
DOCKER_FILE = "run | Write Docker's configuration"
DOCKER_UNIT = "run | Run Docker with it, now and after a boot"
SERVICES = "run | Start the services, and restart changed services"
REMOVAL = (
    "Remove services that are retired, or that other hosts have now, and units that an earlier release named otherwise"
)
IMAGES = "Bring the images"
MODELS = "Bring them"
RAILS = "Converge the interfaces"
RAILS_KERNEL = "Set the rails in the running kernel"
FIREWALL = "Converge the rules"


@dataclass(frozen=True)
class Seed:
    """make, undo: shell on the host. resource, rule, want, have: of the finding; want and have by a word of theirs.

    task: of site.yml, which repairs it and whose check mode says so; empty: not site.yml's. shows: words of what that
    task shows. also: rules that come with it. deep: only reading the weights shows it. alone: not together with others
    of its host. ordered: site.yml does it when it was told to. perhaps: tasks of whose work check mode can't know
    whether there will be any.
    """

    name: str
    host: str
    make: str
    undo: str
    resource: str
    rule: str
    want: str
    have: str
    task: str = ""
    shows: str = ""
    also: tuple[str, ...] = ()
    deep: bool = False
    alone: bool = False
    ordered: bool = False
    perhaps: tuple[str, ...] = ()

    @property
    def owned(self) -> bool:
        return bool(self.task)


def edited(name: str, host: str, path: str, rule: str, want: str, have: str, make: str, **more: object) -> Seed:
    """A change of a file that is undone by its copy, with everything that belongs to it."""
    keep, back = f"cp -a {path} {KEPT}-{name}", f"rm -f {path}; cp -a {KEPT}-{name} {path}"
    seen = {"shows": path} | more
    return Seed(name, host, f"{keep}; {make}", back, f"file {path}", rule, want, have, **seen)  # type: ignore[arg-type]


def planted(name: str, path: str, text: str) -> Seed:
    """What would let somebody in as root, on a host that nobody reads from."""
    make = f"echo '{text}' > {path}"
    return Seed(name, "spark-3", make, f"rm {path}", f"file {path}", "file-kind", "no such", "a file", PEERS, path)


def in_kernel(name: str, host: str, make: str, have: str, *, alone: bool = False) -> Seed:
    """A change of the live rules, which their file undoes."""
    undo, shows = "nft -f /etc/gb10-fleet/firewall.nft", "the rules in the kernel are others"
    return Seed(
        name, host, make, undo, RULES, "firewall-live", "planned", have, task=FIREWALL, shows=shows, alone=alone
    )  # fmt: skip


SEEDS = [
    # Files
    edited(
        "sysctl-file",
        "spark-3",
        SYSCTL,
        "file-content",
        "sha256",
        "sha256",
        f"echo vm.swappiness=60 >> {SYSCTL}",
        task=FILES,
    ),
    planted("peer-sudoers", "/etc/sudoers.d/gb10-peer", "gb10-peer ALL=(root) NOPASSWD: ALL"),
    planted("peer-program", "/usr/local/lib/gb10-fleet/peer-serve", "#!/bin/sh"),
    Seed(
        "peer-key",
        "titan",
        f"mkdir -p {PEER_KEYS}; echo 'ssh-ed25519 AAAA me@laptop' > {PEER_KEYS}/authorized_keys",
        f"rm -r {PEER_KEYS}",
        f"file {PEER_KEYS}/authorized_keys",
        "peer-key-undeclared",
        "nobody",
        "me@laptop",
        task=PEERS,
        shows="me@laptop",
    ),
    edited("limits-gone", "spark-3", LIMITS, "file-kind", "a file", "no such file", f"rm {LIMITS}", task=FILES),
    edited("udev-mode", "spark-3", UDEV, "file-access", "0644", "0666", f"chmod 666 {UDEV}", task=FILES),
    edited(
        "systemd-owner",
        "spark-3",
        SYSTEMD,
        "file-access",
        "root:root",
        "nvidia:root",
        f"chown nvidia {SYSTEMD}",
        task=FILES,
    ),
    edited(
        "boot-target",
        "spark-3",
        "/etc/systemd/system/default.target",
        "file-target",
        "multi-user",
        "graphical",
        "ln -sfn /usr/lib/systemd/system/graphical.target /etc/systemd/system/default.target",
        task=BOOT,
    ),
    edited(
        "swap-unmasked",
        "spark-3",
        "/etc/systemd/system/swap.target",
        "file-kind",
        "/dev/null",
        "no such file",
        "rm /etc/systemd/system/swap.target",
        task=BOOT,
    ),
    edited(
        "supervisor", "titan", RANK, "file-content", "sha256", "sha256", f"echo '# mine' >> {RANK}", task=SUPERVISOR
    ),
    edited(
        "rank-file",
        "titan",
        "/etc/gb10-fleet/services/tiny.json",
        "file-content",
        "sha256",
        "sha256",
        'sed -i \'s/"rank": 0/"rank":  0/\' /etc/gb10-fleet/services/tiny.json',
        task="Write the units, their supervisors' files and small files laid over models and images",
    ),
    Seed(
        "secrets-open",
        "titan",
        "chmod 755 /etc/gb10-fleet/secrets",
        "chmod 700 /etc/gb10-fleet/secrets",
        "file /etc/gb10-fleet/secrets",
        "file-access",
        "0700",
        "0755",
        task=SUPERVISOR,
        shows="0755",
    ),
    edited(
        "unit-file",
        "titan",
        f"/etc/systemd/system/{UNIT}",
        "file-content",
        "sha256",
        "sha256",
        f"sed -i s/Restart=always/Restart=no/ /etc/systemd/system/{UNIT}",
        also=("unit-stale",),
        alone=True,
        task="Write the units, their supervisors' files and small files laid over models and images",
    ),
    edited(
        "docker-key",
        "titan",
        "/etc/docker/daemon.json",
        "json-key log-opts",
        "50m",
        "9g",
        "sed -i s/50m/9g/ /etc/docker/daemon.json",
        task=DOCKER_FILE,
        shows="9g",
    ),
    Seed(
        "docker-mode",
        "spark-3",
        "chmod 600 /etc/docker/daemon.json",
        "chmod 644 /etc/docker/daemon.json",
        "file /etc/docker/daemon.json",
        "file-access",
        "0644",
        "0600",
        task=DOCKER_FILE,
        shows="0600",
    ),
    # Secrets and rules
    edited(
        "api-key",
        "titan",
        API_KEY,
        "file-content",
        "holds",
        "another",
        f"echo 'api-key: \"another\"' > {API_KEY}",
        task="credentials | Bring keys, certificates and what they are trusted by",
        shows="",
    ),
    in_kernel("rule-inserted", "titan", "nft insert rule inet gb10_fleet input tcp dport 9999 accept", "other rules"),
    in_kernel("chain-flushed", "spark-2", "nft flush chain inet gb10_fleet input", "other rules", alone=True),
    in_kernel("table-gone", "spark-3", "nft delete table inet gb10_fleet", "not in the kernel"),
    edited(
        "rules-file",
        "spark-2",
        "/etc/gb10-fleet/firewall.nft",
        "firewall-file",
        "planned",
        "other rules",
        "sed -i /5353/d /etc/gb10-fleet/firewall.nft",
        task=FIREWALL,
    ),
    # Room and clock: the lab's hosts share those of the machine, so one host is shown others.
    Seed(
        "memory-low",
        "titan",
        f"sed 's/^MemAvailable:.*/MemAvailable: 102400 kB/' /proc/meminfo > {KEPT}-meminfo; "
        f"mount --bind {KEPT}-meminfo /proc/meminfo",
        "umount /proc/meminfo",
        "free memory",
        "memory-low",
        "512.0 MiB",
        "100.0 MiB",
    ),
    Seed(
        "disk-low",
        "spark-2",
        "mkdir /run/small; mount -t tmpfs -o size=1m small /run/small; mkdir /run/small/new /run/small/work; "
        f"mount -t overlay -o lowerdir={CACHE},upperdir=/run/small/new,workdir=/run/small/work small {CACHE}",
        f"umount {CACHE} /run/small; rmdir /run/small",
        f"disk of {CACHE}",
        "disk-low",
        "512.0 MiB free",
        "of 1.0 MiB",
    ),
    Seed(
        "clock-ahead",
        "spark-3",
        f"cp -a {PYTHON} {KEPT}-python; "
        f"printf 'import time\\nreal = time.time\\ntime.time = lambda: real() + 3600\\n' >> {PYTHON}",
        f"cp -a {KEPT}-python {PYTHON}",
        "clock",
        "clock-off",
        "within 5 s",
        "s ahead of",
        alone=True,
    ),
    # The kernel
    Seed(
        "swappiness",
        "titan",
        "sysctl -qw vm.swappiness=60",
        "sysctl -qw vm.swappiness=1",
        "sysctl vm.swappiness",
        "sysctl-live",
        "1",
        "60",
        task=KERNEL,
        shows="vm.swappiness: '60'",
    ),
    Seed(
        "dirty-bytes",
        "spark-3",
        "sysctl -qw vm.dirty_bytes=4096000",
        "sysctl -qw vm.dirty_bytes=268435456",
        "sysctl vm.dirty_bytes",
        "sysctl-live",
        "268435456",
        "4096000",
        task=KERNEL,
        shows="vm.dirty_bytes: '4096000'",
    ),
    Seed(
        "swap-on",
        "spark-3",
        "swapon --all",
        "swapoff --all",
        "swap",
        "swap-live",
        "off",
        "/swap.img",
        task=KERNEL,
        shows="swap: /swap.img",
    ),
    Seed(
        "read-ahead",
        "titan",
        "echo 128 > /sys/block/nvme0n1/queue/read_ahead_kb",
        "echo 8192 > /sys/block/nvme0n1/queue/read_ahead_kb",
        "read-ahead of nvme0n1",
        "read-ahead-live",
        "8192",
        "128",
        task=KERNEL,
        shows="read_ahead_kb: '128'",
    ),
    Seed(
        "reboot-pending",
        "titan",
        "touch /run/reboot-required",
        "rm /run/reboot-required",
        "reboot",
        "reboot-pending",
        "runs",
        "waits",
    ),
    Seed(
        "driver",
        "spark-3",
        f"sed -i s/{DRIVER}/590.44/ /usr/bin/nvidia-smi",
        f"sed -i s/590.44/{DRIVER}/ /usr/bin/nvidia-smi",
        "driver 590.44",
        "known-bad driver-590",
        "not 590",
        "590.44",
        also=("version",),
    ),
    # Services
    Seed(
        "unit-disabled",
        "titan",
        f"systemctl disable -q {UNIT}",
        f"systemctl enable -q {UNIT}",
        f"unit {UNIT}",
        "unit-enabled",
        "enabled",
        "disabled",
        task=SERVICES,
        shows="item=tiny",
    ),
    Seed(
        "unit-stopped",
        "spark-2",
        "systemctl stop gb10-service-other",
        "systemctl start gb10-service-other",
        "unit gb10-service-other.service",
        "unit-active",
        "active",
        "inactive",
        task=SERVICES,
        shows="item=other",
    ),
    Seed(
        "unit-retired",
        "titan",
        "printf '[Service]\\nExecStart=/bin/true\\n' > /etc/systemd/system/gb10-service-old.service",
        "rm -f /etc/systemd/system/gb10-service-old.service",
        "unit gb10-service-old.service",
        "unit-undeclared",
        "no such",
        "its file",
        task=REMOVAL,
        shows="gb10-service-old.service",
        ordered=True,
    ),
    Seed(
        "docker-disabled",
        "spark-3",
        "systemctl disable -q docker.service",
        "systemctl enable -q docker.service",
        "unit docker.service",
        "unit-enabled",
        "enabled",
        "disabled",
        task=DOCKER_UNIT,
    ),
    Seed(
        "stray-container",
        "titan",
        f"docker run -d --name stray --entrypoint sleep {IMAGE} 1d",
        "docker rm -f stray",
        "container stray",
        "container-undeclared",
        "nobody",
        IMAGE,
    ),
    Seed(
        "stray-listener",
        "spark-3",
        "systemd-run -q --unit stray python3 -m http.server 9999;"
        " until ss -Hltn sport = :9999 | grep -q .; do sleep 0.2; done",
        "systemctl stop stray",
        "port 9999",
        "port-undeclared",
        "nobody",
        "python3",
    ),
    Seed(
        "out-of-band",
        "titan",
        f"systemctl stop {UNIT}; docker run -d --rm --name {CONTAINER} --privileged --entrypoint sleep {IMAGE} 1d",
        f"docker rm -f {CONTAINER}; systemctl start {UNIT}",
        f"container {CONTAINER}",
        "container-privileged",
        "false",
        "true",
        also=("unit-active", "container-"),
        alone=True,
    ),
    Seed(
        "docker-stopped",
        "spark-2",
        "systemctl stop docker.socket docker.service; pkill -x dockerd || :",
        "systemctl start docker.service",
        "Docker",
        "docker-down",
        "runs",
        "not answer",
        also=("unit-active", "unit-load"),
        alone=True,
        task=DOCKER_UNIT,
        # what it holds, and starts with it, nobody knows while it is down
        perhaps=(IMAGES, SERVICES),
    ),
    Seed(
        "docker-rules-flushed",
        "titan",
        "nft flush ruleset",
        "systemctl restart docker.service; nft -f /etc/gb10-fleet/firewall.nft",
        "Docker",
        "docker-rules",
        "made when it started",
        "are gone",
        also=("firewall-live",),
        alone=True,
        task=DOCKER_UNIT,
    ),
    # Images and weights
    Seed(
        "image-retagged",
        "titan",
        f"docker tag {IMAGE} kept:1; docker create --name copy {IMAGE}; "
        f"docker commit --change 'ENV MINE=1' copy {IMAGE}; docker rm copy",
        f"docker tag kept:1 {IMAGE}; docker rmi kept:1",
        f"image {IMAGE}",
        "image-other",
        "was staged",
        "another one",
        also=("container-image",),
        alone=True,
        task=IMAGES,
        shows=IMAGE,
        # the container has run all along the image that is staged again
        perhaps=(SERVICES,),
    ),
    Seed(
        "image-gone",
        "spark-2",
        f"docker tag {IMAGE} kept:1; docker rmi -f {IMAGE}",
        f"docker tag kept:1 {IMAGE}; docker rmi kept:1",
        f"image {IMAGE}",
        "image-missing",
        "store",
        "no such image",
        alone=True,
        task=IMAGES,
        shows=IMAGE,
    ),
    Seed(
        "weights-grown",
        "titan",
        f"cp -a {WEIGHTS} {KEPT}-grown; echo x >> {WEIGHTS}",
        f"cp -a {KEPT}-grown {WEIGHTS}",
        f"model {MODEL}",
        "model-file-changed",
        "verified",
        "model.safetensors",
        alone=True,
        task=MODELS,
        shows="model.safetensors",
    ),
    Seed(
        "weights-touched",
        "titan",
        f"touch -r {WEIGHTS} {KEPT}-time; touch {WEIGHTS}",
        f"touch -r {KEPT}-time {WEIGHTS}",
        f"model {MODEL}",
        "model-file-changed",
        "verified",
        "model.safetensors",
        task=MODELS,
        shows="model.safetensors",
    ),
    Seed(
        "weights-gone",
        "spark-2",
        f"readlink -f {BLOBS}/main/model.safetensors > {KEPT}-where; mv {WEIGHTS} {KEPT}-gone",
        f"mv {KEPT}-gone $(cat {KEPT}-where)",
        f"model {MODEL}",
        "model-file-missing",
        "all files",
        "model.safetensors",
        alone=True,
        task=MODELS,
        shows=MODEL,
    ),
    Seed(
        "seal-broken",
        "spark-2",
        f'cp -a {RECORDS} {KEPT}-records; sed -i \'s/"seal": "./"seal": "!/\' {RECORDS}/*.json',
        f"rm -rf {RECORDS}; cp -a {KEPT}-records {RECORDS}",
        f"model {MODEL}",
        "model-record",
        "sealed",
        "seal is broken",
        task=MODELS,
    ),
    Seed(
        "bit-rot",
        "titan",
        f"cp -a {WEIGHTS} {KEPT}-rot; printf X | dd of={WEIGHTS} bs=1 seek=9000 conv=notrunc status=none; "
        f"touch -r {KEPT}-rot {WEIGHTS}",
        f"cp -a {KEPT}-rot {WEIGHTS}",
        f"weights {MODEL}/model.safetensors",
        "model-bytes",
        "verified",
        "sha256",
        deep=True,
        alone=True,
    ),
    Seed(
        "stray-model",
        "titan",
        f"mkdir -p {CACHE}/hub/models--org--old/blobs",
        f"rm -r {CACHE}/hub/models--org--old",
        "model org/old",
        "model-undeclared",
        "nobody",
        "cache",
    ),
    # The fabric
    Seed(
        "mtu",
        "spark-2",
        f"ip link set {RAIL} mtu 1500",
        f"ip link set {RAIL} mtu 9000",
        PLACE,
        "fabric-mtu",
        "9000",
        "1500",
        also=("fabric-frames", "fabric-no-gid"),
        task=RAILS,
        shows="has MTU 1500",
    ),
    Seed(
        "address-gone",
        "spark-2",
        f"ip -4 address flush dev {RAIL}",
        f"nmcli connection up netplan-{RAIL}",
        PLACE,
        "fabric-address",
        "192.168.",
        "no address",
        also=("fabric-no-gid", "fabric-no-peer", "fabric-frames"),
        alone=True,
        task=RAILS,
        shows=RAIL,
    ),
    Seed(
        "address-more",
        "spark-3",
        f"ip address add 10.9.9.9/24 dev {RAIL}",
        f"ip address del 10.9.9.9/24 dev {RAIL}",
        PLACE,
        "fabric-address",
        "192.168.",
        "10.9.9.9/24",
        task=RAILS,
        shows="10.9.9.9/24",
    ),
    Seed(
        "link-down",
        "spark-2",
        "ip link set enP2p1s0f1np1 down",
        "ip link set enP2p1s0f1np1 up; nmcli connection up netplan-enP2p1s0f1np1",
        "port 1 half 1 (enP2p1s0f1np1)",
        "fabric-link-down",
        "up",
        "switched off",
        also=("fabric-", "sysctl-live"),
        alone=True,
        task=RAILS,
        shows="enP2p1s0f1np1",
    ),
    edited(
        "netplan-file",
        "spark-2",
        NETPLAN,
        "file-content",
        "sha256",
        "sha256",
        f"sed -i s/9000/1500/ {NETPLAN}",
        task=RAILS,
        shows=NETPLAN,
    ),
    Seed(
        "netplan-mode",
        "spark-3",
        f"chmod 644 {NETPLAN}",
        f"chmod 600 {NETPLAN}",
        f"file {NETPLAN}",
        "file-access",
        "0600",
        "0644",
        task=RAILS,
        shows="mode 0644",
    ),
    Seed(
        "netplan-foreign",
        "spark-3",
        f"printf 'network:\\n  ethernets:\\n    {RAIL}: {{dhcp4: true}}\\n' > /etc/netplan/99-mine.yaml",
        "rm /etc/netplan/99-mine.yaml",
        "netplan /etc/netplan/99-mine.yaml",
        "netplan-foreign",
        RAIL,
        "also",
    ),
    # What of the owner's own wins over ours at boot
    Seed(
        "sysctl-later",
        "titan",
        "printf '# mine\\nvm.swappiness = 60\\n' > /etc/sysctl.d/99-zzz-mine.conf",
        "rm /etc/sysctl.d/99-zzz-mine.conf",
        "/etc/sysctl.d/99-zzz-mine.conf, line 2",
        "sysctl-later",
        "after ours",
        "vm.swappiness = 60",
    ),
    Seed(
        "memlock-later",
        "titan",
        "printf '[Manager]\\nDefaultLimitMEMLOCK=64K\\n' > /etc/systemd/system.conf.d/99-mine.conf",
        "rm /etc/systemd/system.conf.d/99-mine.conf",
        "/etc/systemd/system.conf.d/99-mine.conf, line 2",
        "memlock-later",
        "after ours",
        "DefaultLimitMEMLOCK=64K",
    ),
    Seed(
        "arp",
        "spark-2",
        f"sysctl -qw net.ipv4.conf.{RAIL}.arp_ignore=0",
        f"sysctl -qw net.ipv4.conf.{RAIL}.arp_ignore=1",
        f"sysctl net.ipv4.conf.{RAIL}.arp_ignore",
        "sysctl-live",
        "1",
        "0",
        task=RAILS_KERNEL,
        shows="arp_ignore: '0'",
    ),
    Seed(
        "ipv6",
        "spark-3",
        f"sysctl -qw net.ipv6.conf.{RAIL}.disable_ipv6=0",
        f"sysctl -qw net.ipv6.conf.{RAIL}.disable_ipv6=1",
        f"sysctl net.ipv6.conf.{RAIL}.disable_ipv6",
        "sysctl-live",
        "1",
        "0",
        task=RAILS_KERNEL,
        shows="disable_ipv6: '0'",
    ),
    edited(
        "fabric-sysctl",
        "spark-3",
        "/etc/sysctl.d/90-gb10-fabric.conf",
        "file-kind",
        "a file",
        "no such file",
        "rm /etc/sysctl.d/90-gb10-fabric.conf",
        task=GUARD,
    ),
    edited(
        "guard",
        "spark-2",
        "/usr/local/lib/gb10-fleet/netplan/gb10_netplan/guard.py",
        "file-content",
        "sha256",
        "sha256",
        "echo '# mine' >> /usr/local/lib/gb10-fleet/netplan/gb10_netplan/guard.py",
        task=GUARD,
    ),
    edited(
        "memory-guard",
        "titan",
        "/usr/local/lib/gb10-fleet/memory_guard.py",
        "file-content",
        "sha256",
        "sha256",
        "echo '# mine' >> /usr/local/lib/gb10-fleet/memory_guard.py",
        task=MEMORY_GUARD,
    ),
    Seed(
        "memory-guard-stopped",
        "spark-3",
        "systemctl stop gb10-memory-guard",
        "systemctl start gb10-memory-guard",
        "unit gb10-memory-guard.service",
        "unit-active",
        "active",
        "inactive",
        task=MEMORY_GUARD,
        shows="gb10-memory-guard.service",
    ),
    Seed(
        "recover-disabled",
        "spark-2",
        "systemctl disable -q gb10-netplan-recover",
        "systemctl enable -q gb10-netplan-recover",
        "unit gb10-netplan-recover.service",
        "unit-enabled",
        "enabled",
        "disabled",
        task=GUARD,
        shows="gb10-netplan-recover.service",
    ),
    Seed(
        "speed",
        "spark-2",
        f"echo 100000 > /sys/class/net/{RAIL}/speed",
        f"echo 200000 > /sys/class/net/{RAIL}/speed",
        PLACE,
        "fabric-link-speed",
        "200000",
        "100000",
    ),
]
