# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of the lab."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from . import base, lifecycle, orders, requirements
from .console import announce
from .errors import LabError
from .model import (
    RENDERERS,
    Lab,
    Share,
    check_hosts,
    check_rate,
    check_renderer,
    chosen,
    default_hosts,
    parse_cable,
    parse_port,
    parse_share,
    topology_cables,
)
from .workspace import Workspace

# The inventory of the lab looks at the same place (inventories/lab/group_vars/all/connection.yml).
DEFAULT_DIRECTORY = Path(os.environ.get("GB10_LAB_DIR") or Path(__file__).resolve().parents[2] / ".lab")
DEFAULT_RENDERER = os.environ.get("GB10_LAB_RENDERER") or RENDERERS[0]
_DEFAULT_COUNT = 3
# As an init script's `status` ends when its service is not running.
_NOT_RUNNING = 3


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    os.environ["PATH"] = requirements.complete_path()
    try:
        status: int | None = options.run(options)
    except LabError as error:
        announce(str(error))
        return 1
    except OSError as error:
        announce(f"this machine refused: {error}")
        return 1
    except KeyboardInterrupt:
        announce("interrupted")
        return 130
    return status or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab", description="Simulated DGX Spark hosts on this machine; tests/lab/README.md tells more."
    )
    parser.add_argument(
        "-d",
        "--directory",
        type=Path,
        default=DEFAULT_DIRECTORY,
        help="the lab's directory (default: $GB10_LAB_DIR, or .lab in the repository)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = _command(commands, "up", _up, "boot the hosts; returns when SSH answers")
    count = up.add_mutually_exclusive_group()
    count.add_argument("-n", type=int, default=_DEFAULT_COUNT, help="titan, spark-2, ... (default: %(default)s)")
    count.add_argument("--hosts", help="names instead, with commas between")
    wires = up.add_mutually_exclusive_group()
    wires.add_argument(
        "--topology", choices=("direct", "ring", "switch"), default="direct", help="default: direct, in pairs"
    )
    wires.add_argument("--cable", action="append", metavar="A:1=B:1", help="exactly these instead; A:1=switch; repeat")
    up.add_argument(
        "--share", action="append", default=[], metavar="HERE:THERE", help="a read-only directory on each host"
    )
    up.add_argument(
        "--renderer",
        metavar="|".join(RENDERERS),
        default=DEFAULT_RENDERER,
        help="what carries out netplan's files (default: $GB10_LAB_RENDERER, or NetworkManager as on DGX OS)",
    )
    up.add_argument("--hotplug", action="store_true", help="a host's adapter leaves it while no cable is seen")
    docker_help = "all hosts, or these, have Docker, as DGX OS brings it"
    up.add_argument("--docker", nargs="?", const="*", default="", metavar="NAMES", help=docker_help)
    up.add_argument("--passwordless-sudo", action="store_true", help="sudo asks the account for no password")

    _command(commands, "down", _down, "end the lab and remove it")
    status = _command(commands, "status", _status, "hosts, power, cables (3: no lab is up)")
    status.add_argument("--json", action="store_true")

    on_host = _command(commands, "ssh", _ssh, "log in to a host, or run a command there, as its user")
    on_host.add_argument("host")
    on_host.add_argument("command", nargs=argparse.REMAINDER)
    inside = _command(commands, "exec", _exec, "run a command on a host as its root, without SSH: exec HOST -- CMD")
    inside.add_argument("host")
    inside.add_argument("command", nargs=argparse.REMAINDER)
    net = _command(commands, "net", _net, "run a command of this machine in the lab's network: net -- CMD")
    net.add_argument("command", nargs=argparse.REMAINDER)

    cable = _command(commands, "cable", None, "pull, plug, swap or slow down a cable")
    actions = cable.add_subparsers(required=True, metavar="ACTION")
    pull = _command(actions, "pull", _cable_pull, "both ends lose their carrier")
    pull.add_argument("port", help="either end: spark-2:1")
    plug = _command(actions, "plug", _cable_plug, "a pulled cable back where it was, or between two ports")
    plug.add_argument("port", help="spark-2:1, or spark-2:1=spark-3:0, or spark-2:1=switch")
    swap = _command(actions, "swap", _cable_swap, "exchange what is plugged into two ports")
    swap.add_argument("ports", nargs=2, metavar="PORT")
    rate = _command(actions, "rate", _cable_rate, "limit what each half of a cable carries")
    rate.add_argument("port", help="either end: spark-2:1")
    rate.add_argument("rate", help="100mbit, 10gbit, or off")
    power = _command(commands, "power", _power, "pull or plug a host's power: no shutdown, as in reality")
    power.add_argument("action", choices=("on", "off", "cycle"))
    power.add_argument("host")

    _command(commands, "base", _base, "build the base image, and Docker above it; says where the base is")
    _command(commands, "deps", _deps, "apt-get install what this machine lacks")
    return parser


def _command(commands: Any, name: str, run: Any, help_text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(run=run)
    return parser


def _workspace(options: argparse.Namespace) -> Workspace:
    return Workspace.at(options.directory)


def _up(options: argparse.Namespace) -> None:
    hosts = check_hosts(tuple(options.hosts.split(","))) if options.hosts else default_hosts(options.n)
    if options.cable:
        cables = tuple(parse_cable(text) for text in options.cable)
    else:
        cables = topology_cables(options.topology, hosts)
    shares = (*(parse_share(text) for text in options.share), *kept_by_tests())
    renderer = check_renderer(options.renderer)
    docker = chosen(options.docker, hosts)
    lab = Lab(hosts, cables, shares, renderer, options.hotplug, options.passwordless_sudo, docker)
    lifecycle.up(_workspace(options), lab)


def kept_by_tests() -> tuple[Share, ...]:
    """Where ./test keeps what it packs for modules of Ansible, hosts of all its labs keep what they compile of it."""
    kept = os.environ.get("GB10_PAYLOADS")
    if not kept:
        return ()
    compiled = Path(kept, "compiled")
    compiled.mkdir(mode=0o700, exist_ok=True)
    return (Share(str(compiled), "/run/lab-compiled", writable=True),)


def _down(options: argparse.Namespace) -> None:
    lifecycle.down(_workspace(options))


def _status(options: argparse.Namespace) -> int:
    status = orders.status(_workspace(options))
    if options.json:
        print(json.dumps(status, indent=2))
    elif not status["up"]:
        print(f"no lab is up in {status['directory']}")
    else:
        _print_status(status)
    return 0 if status["up"] else _NOT_RUNNING


def _print_status(status: dict[str, Any]) -> None:
    print(f"{'HOST':<16} {'ADDRESS':<14} POWER")
    for name, host in status["hosts"].items():
        print(f"{name:<16} {host['address']:<14} {host['power']}")
    _print_cables(status)


def _ssh(options: argparse.Namespace) -> None:
    orders.become_ssh(_workspace(options), options.host, _after_dashes(options.command))


def _exec(options: argparse.Namespace) -> None:
    orders.become_host_command(_workspace(options), options.host, _needed_command(options.command))


def _net(options: argparse.Namespace) -> None:
    orders.become_network_command(_workspace(options), _needed_command(options.command))


def _needed_command(words: list[str]) -> list[str]:
    command = _after_dashes(words)
    if not command:
        raise LabError("which command? write it after --")
    return command


def _after_dashes(words: list[str]) -> list[str]:
    """Python 3.11 and 3.12 leave the ``--`` in what a subcommand gets."""
    return words[1:] if words[:1] == ["--"] else words


def _cable_pull(options: argparse.Namespace) -> None:
    _order_cable(options, {"cable": "pull", "ports": [str(parse_port(options.port))]})


def _cable_plug(options: argparse.Namespace) -> None:
    if "=" in options.port:
        _order_cable(options, {"cable": "plug", "as": str(parse_cable(options.port))})
    else:
        _order_cable(options, {"cable": "plug", "ports": [str(parse_port(options.port))]})


def _cable_swap(options: argparse.Namespace) -> None:
    _order_cable(options, {"cable": "swap", "ports": [str(parse_port(port)) for port in options.ports]})


def _cable_rate(options: argparse.Namespace) -> None:
    rate = None if options.rate == "off" else check_rate(options.rate)
    _order_cable(options, {"cable": "rate", "ports": [str(parse_port(options.port))], "rate": rate})


def _order_cable(options: argparse.Namespace, order: dict[str, Any]) -> None:
    _print_cables(orders.send(_workspace(options), order))


def _print_cables(status: dict[str, Any]) -> None:
    print("cables: " + (", ".join(status["cables"]) or "none"))


def _power(options: argparse.Namespace) -> None:
    print(f"{options.host}: {orders.power(_workspace(options), options.action, options.host)}")


def _base(options: argparse.Namespace) -> None:
    requirements.check()
    print(base.layers(docker=True)[-1])


def _deps(options: argparse.Namespace) -> None:
    requirements.install()


if __name__ == "__main__":
    sys.exit(main())
