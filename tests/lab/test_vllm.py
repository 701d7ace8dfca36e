# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker on a lab host takes what the builder wrote, and runs it."""

from __future__ import annotations

from collections.abc import Callable

from .fixtures import Fleet, eventually
from .vllm import images

RUN = "docker run --detach --name stand-in --pull never --network host --volume /srv/lab/tiny:/models/tiny:ro"
RUN += " --ulimit memlock=-1"  # as RDMA needs it, and more than root of a simulated host may have


def test_docker_takes_an_archive_and_runs_it(new_fleet: Callable[[], Fleet]) -> None:
    directory = images.default_directory()
    images.ensure_model("tiny", directory)
    stand_in = images.ensure_image(images.STAND_IN, directory)
    fleet = new_fleet()
    fleet.lab("up", "-n", "1", "--share", f"{directory}:/srv/lab")
    fleet.root("titan", "apt-get install -y docker.io docker-cli")

    fleet.root("titan", f"docker load --input /srv/lab/{directory.joinpath(stand_in['path']).name}")
    assert (
        fleet.root("titan", f"docker inspect --format '{{{{.Id}}}}' {stand_in['reference']}").strip()
        == stand_in["image_id"]
    )
    layers = fleet.root("titan", f"docker inspect --format '{{{{join .RootFS.Layers \" \"}}}}' {stand_in['reference']}")
    assert layers.split() == stand_in["diff_ids"]

    fleet.root("titan", f"{RUN} {stand_in['reference']} /models/tiny --enable-prefix-caching")
    eventually(lambda: fleet.ok("titan", "curl -sf http://127.0.0.1:8000/health"), "the service is healthy")
    fleet.root("titan", "docker exec stand-in true")
    fleet.root("titan", "pkill -KILL -x VLLM::EngineCor")
    eventually(lambda: not fleet.ok("titan", "docker top stand-in"), "the service has ended with its engine")
    assert fleet.root("titan", "docker inspect --format '{{.State.ExitCode}}' stand-in").strip() == "0"
