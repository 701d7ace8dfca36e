# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts that a rule may need beside the command, its image and its model, and who has them.

The plan judges each service with what it decides and what the owner declares. The preflight judges it again with what
it reads on the host. The module ``vllm_lint`` judges with whatever it is given: it checks every rule.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Path = Literal["plan", "preflight", "vllm_lint"]


@dataclass(frozen=True)
class Fact:
    """One fact. by: the first of plan, preflight and vllm_lint that has it. always: the only value that a plan has."""

    by: Path
    what: str
    always: str = ""


FACTS: dict[str, Fact] = {
    "mounts": Fact("plan", "the container's mounts; a plan always has the model store and the compile caches", "ours"),
    "container": Fact("plan", "the other options of `docker run`"),
    "container.memory": Fact("vllm_lint", "`--memory`, which a plan never writes"),
    "container.restart": Fact("vllm_lint", "`--restart`, which a plan never writes: the service's unit restarts it"),
    "model.cached": Fact("plan", "whether the model is on the host; the role model_store sees to it", "true"),
    "model.weights_bytes": Fact("plan", "the size of the weights, from recipe or service"),
    "model.draft_date": Fact("vllm_lint", "when the drafter was fetched"),
    "host.utilizations": Fact("plan", "the shares of the other services on the host"),
    "host.swap": Fact("plan", "swap as it will be set: another value than GB10's is the owner's own (host_tuning)"),
    "host.default_target": Fact("plan", "systemd's target as it will be set; the same"),
    "host.read_ahead_kib": Fact("plan", "the NVMe's read-ahead as it will be set; the same"),
    "host.sysctl": Fact("plan", "kernel settings as they will be set; the same"),
    "host.mtu": Fact("plan", "the smallest MTU of the host's cables as it will be set; the owner's own (fleet_fabric)"),
    "host.rdma_addresses": Fact("plan", "the address of each RDMA device's interface"),
    "host.driver": Fact("preflight", "the GPU driver's version"),
    "host.cache_filesystem": Fact("preflight", "the file system of the model store"),
    "host.mem_available_bytes": Fact("preflight", "free memory, while the service doesn't run"),
    "host.resolves_hub": Fact("vllm_lint", "whether the host resolves the hub's name"),
    "host.compile_cache": Fact("vllm_lint", "whether compiled kernels are on the host"),
    "group.hosts": Fact("plan", "how many hosts the service has"),
    "group.fabric_addresses": Fact("plan", "the networks of the cables"),
    "group.revisions": Fact("vllm_lint", "the model's revision on each host; a plan stages one"),
    "service.profile": Fact("plan", "`workload.profile`"),
    "service.tools": Fact("plan", "`workload.tools`"),
    "service.reasoning": Fact("plan", "`workload.reasoning`"),
    "service.video": Fact("plan", "`workload.video`"),
    "service.media_files": Fact("plan", "`workload.media_files`"),
    "service.ready_timeout_s": Fact("plan", "the time that a start may take"),
    "service.recipe": Fact("plan", "the recipe's name; empty for a command without one", "a name"),
    "service.restarts": Fact("plan", "whether somebody restarts it; its unit does", "true"),
    "service.address": Fact("plan", "the address that clients are given"),
    "service.open": Fact(
        "plan", "whether other machines reach it without a key: `open: true`, and no loopback address"
    ),
    "service.non_kv_bytes": Fact("plan", "what a rank takes beside its KV pool"),
    "service.kv_pool_tokens": Fact("plan", "the KV pool's tokens, where the release prints a capacity"),
    "service.pool_declared": Fact("plan", "whether `workload.pool` is written"),
    "service.kv_blocks": Fact("vllm_lint", "the KV blocks of a log; a plan says exactly where vLLM refuses them"),
    "service.kv_block_size": Fact("vllm_lint", "the block size of a log; the same"),
}


def checked_by(needs: Iterable[str]) -> Path:
    """Who checks a rule first. needs: names of facts, ``name=value`` where only this value trips it."""
    found: Path = "plan"
    for need in needs:
        name, _, value = need.partition("=")
        fact = FACTS[name]
        if fact.by == "vllm_lint" or (value and fact.always and value != fact.always):
            return "vllm_lint"
        found = "preflight" if fact.by == "preflight" else found
    return found
