# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle made where there is an internet, and three bare hosts converged from it where there is none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from lab.fixtures import eventually

from . import origin
from .conftest import HOSTS, OUTSIDE, Room

PRISTINE = "test ! -e /var/lib/gb10-fleet && test ! -e /etc/gb10-fleet && test ! -e /usr/bin/docker"


def bare(text: str) -> str:
    """Without what a line's end has cut, wherever that is."""
    return "".join(text.split())


def manifest(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_bytes())


@pytest.fixture(scope="module")
def first(room: Room) -> Path:
    reference = origin.push(room.registry)
    room.declare(titan=reference, spark_2=reference, spark_3=reference)
    made = room.make("first")
    assert made.returncode == 0, made.stdout[-6000:]
    return room.medium("first")


def refused(room: Room, *named: str, bundle: str = "first") -> None:
    done = room.play("site.yml", "-e", f"bundle={bundle if '/' in bundle else room.medium(bundle)}")
    assert done.returncode != 0
    text = bare(done.stdout + done.stderr)
    assert bare("nothing was changed") in text, done.stdout[-6000:]
    assert [name for name in named if bare(name) not in text] == [], done.stdout[-6000:]


def test_a_second_run_fetches_nothing_new(room: Room, first: Path) -> None:
    before = (first / "manifest.json").read_bytes()
    again = room.make("first")
    assert again.returncode == 0, again.stdout[-6000:]
    assert "changed=0" in again.stdout
    assert (first / "manifest.json").read_bytes() == before
    assert not (first / ".gb10-fleet-work").exists()


def test_the_room_counts(room: Room) -> None:
    room.fleet.root("titan", f"curl -s -m 2 http://{OUTSIDE}/; getent hosts example.org", check=False)
    counted = room.attempts()
    assert counted["left"] and counted["asked"]
    room.fleet.lab("net", "--", "nft", "reset", "counters")


def test_what_is_missing_or_damaged_is_named_before_any_host_changes(room: Room, first: Path) -> None:
    entry = manifest(first)
    layer = first / "images" / "blobs" / "sha256" / entry["images"][0]["layers"][-1].partition(":")[2]
    weights = max(entry["models"][0]["files"], key=lambda file: file["size"])
    weight = first / "models" / weights["sha256"]
    layer.rename(layer.with_suffix(".away"))
    refused(room, str(layer), "it is missing")
    layer.with_suffix(".away").rename(layer)
    content = bytearray(weight.read_bytes())
    content[len(content) // 2] ^= 1
    weight.write_bytes(content)
    refused(room, str(weight), weights["sha256"])
    content[len(content) // 2] ^= 1
    weight.write_bytes(content)
    text = (first / "manifest.json").read_text()
    (first / "manifest.json").write_text(text.replace('"serial": ', '"serial": 1'))
    refused(room, str(first / "manifest.json"), "the signature of the bundle's own key")
    (first / "manifest.json").write_text(text)
    for host in HOSTS:
        assert room.fleet.ok(host, PRISTINE), host


def test_no_secret_is_on_the_medium(room: Room, first: Path) -> None:
    """Neither the owner's, nor those that runs make for the site, nor the key that signs it."""
    made = [file for file in (room.site / ".fleet" / "keys").iterdir() if file.is_file()]
    secrets = [file.read_bytes().strip() for file in (room.site / "phoenix.key", *made)]
    assert made and all(len(secret) >= 16 for secret in secrets)
    files = [file for file in first.rglob("*") if file.is_file()]
    assert [file for file in files if any(secret in file.read_bytes() for secret in secrets)] == []


def test_a_plan_and_a_check_touch_nothing(room: Room, first: Path) -> None:
    for words_of in (("plan.yml",), ("site.yml", "--check", "--diff")):
        done = room.play(*words_of, "-e", f"bundle={first}")
        assert done.returncode == 0, done.stdout[-6000:]
    for host in HOSTS:
        assert room.fleet.ok(host, PRISTINE), host
    assert not (room.site / ".fleet" / "bundle.json").exists()


def test_three_bare_hosts(room: Room, first: Path) -> None:
    site = room.play("site.yml", "-e", f"bundle={first}")
    assert site.returncode == 0, site.stdout[-8000:]
    for host, address in HOSTS.items():
        eventually(lambda address=address: room.answers(address), f"{host} answers")
        assert not room.fleet.ok(host, "test -e /var/lib/gb10-fleet/bundle"), "what came is in its place"
        assert OUTSIDE in room.fleet.root(host, "cat /etc/apt/sources.list"), "the host's own sources stay"
    # of 140 wheels; that it answers, and asks for its key, the run itself has proved
    room.fleet.root("titan", "systemctl is-active gb10-phoenix.service")
    again = room.play("site.yml", "-e", f"bundle={first}")
    assert again.returncode == 0, again.stdout[-6000:]
    assert "changed=0" in again.stdout and "changed=1" not in again.stdout
    assert room.attempts() == {"left": 0, "asked": 0}
    lock = json.loads((room.site / ".fleet.lock").read_bytes())
    held = manifest(first)
    assert {image["identity"] for image in lock["images"].values()} == {image["identity"] for image in held["images"]}
    assert {model["seal"] for model in lock["models"].values()} == {model["seal"] for model in held["models"]}


def test_a_later_bundle_holds_only_what_is_new_and_an_older_one_is_refused(room: Room, first: Path) -> None:
    before = origin.push(room.registry)
    newer = origin.push(room.registry, "two")
    room.declare(titan=newer, spark_2=before, spark_3=before)
    refused(room, f"image {newer}", "not in")
    made = room.make("second", "-e", f"since={first}")
    assert made.returncode == 0, made.stdout[-6000:]
    second = room.medium("second")
    sizes = [sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) for folder in (first, second)]
    assert sizes[1] < sizes[0] / 20
    staged = room.play("gb10.fleet.stage", "-e", f"bundle={second},{first}")
    assert staged.returncode == 0, staged.stdout[-8000:]
    assert newer in room.fleet.root("titan", "docker image ls --format '{{.Repository}}:{{.Tag}}'")
    assert before in room.fleet.root("titan", "docker ps --format '{{.Image}}'"), "nothing was started anew"
    refused(room, str(second / "debs"), bundle=str(second))
    site = room.play("site.yml", "-e", f"bundle={second},{first}")
    assert site.returncode == 0, site.stdout[-8000:]
    room.declare(titan=before, spark_2=before, spark_3=before)
    refused(room, str(first / "manifest.json"), str(manifest(second)["serial"]))
    # the old one copied over the new one
    shutil.copytree(first, second, dirs_exist_ok=True)
    refused(room, str(second / "manifest.json"), str(manifest(first)["serial"]), bundle=str(second))
    assert room.attempts() == {"left": 0, "asked": 0}
