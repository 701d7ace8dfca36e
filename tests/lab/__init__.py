# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated DGX Spark hosts on one Linux machine; see README.md."""

import os

# OpenSSH runs ssh_config's ProxyCommand by $SHELL, with a socket as standard input. bash takes that for a remote shell
# and reads ~/.bashrc first, once a connection, whatever that costs; and it may be no Bourne shell at all.
os.environ["SHELL"] = "/bin/sh"
