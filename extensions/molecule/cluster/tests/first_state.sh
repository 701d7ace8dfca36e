#!/bin/sh
# What a host is, for a comparison: all that lasts in /etc and what we could leave elsewhere, units, accounts, kernel, network.
LC_ALL=C
export LC_ALL
{
  find /etc /usr/local /var/cache /opt /srv -xdev \( -path /etc/machine-id -o -path /srv/lab -o -path /var/cache/apt -o -path /etc/ld.so.cache \
    -o -name '*.pyc' -o -name __pycache__ \) -prune -o \( -type l -printf 'link %p %l\n' -o -type d -printf 'folder %p %m\n' \) 2>/dev/null
  find /etc /usr/local -xdev \( -path /etc/machine-id -o -path /etc/ld.so.cache -o -name '*.pyc' -o -name '*-' \) -prune -o -type f -printf '%m %p\n' | while read -r mode path; do
    printf 'file %s %s %s\n' "$path" "$mode" "$(sha256sum < "$path")"
  done
  ls -d /var/lib/gb10* /run/gb10* 2>/dev/null | sed 's/^/ours /'
  systemctl list-unit-files --no-legend --no-pager | awk '{print "unit", $1, $2}' | grep -v -e '\.scope' -e transient
  getent passwd | sed 's/^/account /'
  for key in vm.swappiness vm.dirty_bytes vm.dirty_background_bytes vm.dirty_ratio vm.dirty_background_ratio; do
    printf 'kernel %s %s\n' "$key" "$(sysctl -n "$key")"
  done
  sysctl -a -r 'net.ipv4.conf.*(arp_ignore|arp_announce|rp_filter)' 2>/dev/null | grep -v docker | grep -v veth | sed 's/^/kernel /'
  ip -o link show | awk '{print "link", $2, "mtu", $5}' | grep -v veth | grep -v '@'
  ip -o -4 address show | awk '{print "address", $2, $4}'
  nft list tables 2>/dev/null | grep gb10 | sed 's/^/nft /'
  docker ps -a --format 'container {{.Names}}' 2>/dev/null
} | sort
