#!/bin/sh
# Managed by gb10.fleet: changes are overwritten by site.yml and reported by drift.yml.
# Keeps IPv6 off on the rails before NetworkManager calls one connected. netplan has no word for "no IPv6" but one by which
# NetworkManager leaves it to the kernel, and turns it on again. $1 is the interface; others are not in the file.
exec /usr/lib/systemd/systemd-sysctl --prefix="/net/ipv6/conf/$1" /etc/sysctl.d/90-gb10-fabric.conf
