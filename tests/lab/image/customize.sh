#!/bin/sh
# mmdebstrap's customize hook: makes a Debian root ($1) into the disk of a bare Spark look-alike.
# $2: the file that lists the packages of the offline pool.
set -eu
root=$1
pool=$(sed 's/#.*//' "$2")

# The pool: downloaded with what the packages need on this very root, then indexed by hand (no dpkg-dev here).
mkdir -p "$root/srv/lab-apt/partial"
# shellcheck disable=SC2086  # one word a package
chroot "$root" apt-get install --yes --no-install-recommends --download-only \
    -o Dir::Cache::archives=/srv/lab-apt -o APT::Sandbox::User=root $pool
rm -rf "$root/srv/lab-apt/partial" "$root/srv/lab-apt/lock"
(
    cd "$root/srv/lab-apt"
    for deb in *.deb; do
        dpkg-deb --field "$deb"
        echo "Filename: ./$deb"
        echo "Size: $(stat --format=%s "$deb")"
        echo "SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"
        echo
    done > Packages
)
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/srv/lab-apt ./' > "$root/etc/apt/sources.list.d/lab.list"
chroot "$root" apt-get update
echo force-unsafe-io > "$root/etc/dpkg/dpkg.cfg.d/lab"

# The owner's account, as DGX OS makes it.
chroot "$root" useradd --create-home --shell /bin/bash --groups sudo nvidia
echo nvidia:nvidia | chroot "$root" chpasswd
printf 'UseDNS no\nPasswordAuthentication no\n' > "$root/etc/ssh/sshd_config.d/lab.conf"

# As Ubuntu's: administrators' programs are found by users too.
echo 'PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"' > "$root/etc/environment"

# Where networkd renders, it sets every port up as NetworkManager does: it leaves alone what has no file.
cat > "$root/etc/systemd/network/90-ports-up.network" <<'NETWORK'
[Match]
Name=enp1s0f*np* enP2p1s0f*np*

[Link]
RequiredForOnline=no

[Network]
LinkLocalAddressing=ipv6
IPv6AcceptRA=no
NETWORK

# NetworkManager leaves veth devices alone, which a host's ports are here.
mkdir -p "$root/etc/NetworkManager/conf.d"
cat > "$root/etc/NetworkManager/conf.d/10-lab.conf" <<'CONF'
[device-lab]
match-device=interface-name:enP7s7,interface-name:enp1s0f*np*,interface-name:enP2p1s0f*np*
managed=1
CONF

# The journal outlives a reboot, as on Ubuntu.
mkdir -p "$root/var/log/journal"

# udev shall tell networkd of the host's interfaces; this machine's other devices are none of its business.
mkdir -p "$root/etc/systemd/system/systemd-udev-trigger.service.d"
cat > "$root/etc/systemd/system/systemd-udev-trigger.service.d/lab.conf" <<'UNIT'
[Service]
ExecStart=
ExecStart=udevadm trigger --action=add --subsystem-match=net
UNIT

# Each host gets its own identity when the lab starts.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname" "$root/etc/hosts"
: > "$root/etc/machine-id"

chroot "$root" systemctl --quiet enable ssh.service
# Each host starts the one of them that its lab wants (disk.py).
chroot "$root" systemctl --quiet disable NetworkManager.service NetworkManager-wait-online.service systemd-networkd.service
# These need the machine's kernel; a user namespace may not mount them.
chroot "$root" systemctl --quiet mask sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount
# It sets a kernel name that does not exist here, so that `sysctl --system` would end with an error.
ln -sf /dev/null "$root/etc/sysctl.d/10-coredump-debian.conf"
