# SPDX-License-Identifier: GPL-3.0-or-later
"""What the profiling pass of a release runs, by the facts that the catalogue has of it (tools/profiling.py)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..._facts.models.config import ConfigJson
from ..._facts.models.drafting import method_of
from .activations import Start, takes_images
from .catalogue.releases import load
from .catalogue.version import Version, neighbours, parse

VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
_KERNEL_BLOCK = 64  # of latent attention, where no option names one
# Layers of the model whose outputs an EAGLE-3 head reads (vllm/model_executor/models/interfaces.py).
_EAGLE_LAYERS = 3


@dataclass(frozen=True)
class Service:
    """A service as its runner sees it. drafter: its config.json. ranks: of tensor parallel. length: of the longest
    request, block: tokens of a page, 0 where not known. hybrid: whether the model has recurrent layers. pools: whether
    vectors are asked of it, not text. forced: what `VARIABLE` says, where it is set."""

    config: Mapping[str, Any]
    drafter: Mapping[str, Any] | None
    flags: Mapping[str, Any]
    tokens: int
    sequences: int
    ranks: int
    length: int = 0
    block: int = 0
    hybrid: bool = False
    pools: bool = False
    forced: str | None = None

    @property
    def method(self) -> str | None:
        """Of speculation."""
        wanted = self.flags.get("speculative-config")
        return method_of(wanted, self.drafter) if isinstance(wanted, Mapping) else None


def start(service: Service, release: Version) -> Start:
    """What the profiling pass of a start depends on."""
    knows = _knows(release)
    second = service.forced == "1" if service.forced is not None else _second(service, knows)
    sees = takes_images(service.config) and not without_images(service.flags)
    return Start(
        tokens=service.tokens,
        sequences=service.sequences,
        ranks=service.ranks,
        length=service.length,
        drafts="speculative-config" in service.flags,
        second_runner=second,
        sees=sees and (not second or knows("v2-encoder", later=True)),
        images=_images(service.flags),
        pools=service.pools,
        latent=_workspace(service) if knows("mla-workspace") else 0,
        read_layers=_read_layers(service),
    )


def _knows(release: Version) -> Callable[..., bool]:
    """Whether a fact holds of a release. later: a build of the main branch may be as far as the next release is."""
    catalogue = load()

    def known(name: str, *, later: bool = False) -> bool:
        span = catalogue.name_range("profiling", name)
        builds = [release, *(parse(text) for text in neighbours(release, catalogue.releases) if later)]
        return span is not None and any(build in span for build in builds if build is not None)

    return known


def _second(service: Service, knows: Callable[..., bool]) -> bool:
    """Whether V2 is the model runner (vllm/config/vllm.py, use_v2_model_runner)."""
    read, method = ConfigJson(service.config), service.method
    always = {
        "dspark": method == "dspark",
        "dflash-mixed": method == "dflash" and _mixes_windows(service.drafter),
        "dflash2": method == "dflash" and "DFlash2" in str(ConfigJson(service.drafter or {}).architecture),
        "diffusion": "Diffusion" in str(read.architecture),
    }
    if any(holds and knows(f"v2-always {what}") for what, holds in always.items()):
        return True
    if not knows("v2") or (method is not None and knows(f"v2-never {method}")):
        return False
    if knows("v2-all"):
        return True
    only = {"unquantized": not read.quantization, "generate": not service.pools, "attention": not service.hybrid}
    if any(knows(f"v2-only {what}") and not holds for what, holds in only.items()):
        return False
    return knows(f"v2-architecture {read.architecture}") or (knows("v2-dense") and not read.is_mixture)


def _mixes_windows(drafter: Mapping[str, object] | None) -> bool:
    kinds = ConfigJson(drafter or {}).text.get("layer_types")
    return isinstance(kinds, list) and 0 < kinds.count("sliding_attention") < len(kinds)


def _read_layers(service: Service) -> int:
    """Layers of the model whose outputs are kept for a drafter that reads them."""
    if service.method not in ("eagle3", "dflash", "dspark"):
        return 0
    own = (service.drafter or {}).get("dflash_config", service.drafter)
    named = own.get("target_layer_ids") if isinstance(own, Mapping) else None
    return len(named) if isinstance(named, list) else _EAGLE_LAYERS


def _workspace(service: Service) -> int:
    """Tokens of the workspace for chunked prefills (vllm/model_executor/layers/attention/mla_attention.py,
    determine_chunked_prefill_workspace_size; a release with other constants lacks the fact)."""
    pages = service.sequences * (service.block or _KERNEL_BLOCK)
    return max(min(max(8 * service.length, 4 * pages), 64 * 1024), pages)


def without_images(flags: Mapping[str, object]) -> bool:
    """Whether no request may bring images or videos, so that the encoder is not profiled. A kind that the option does
    not name is allowed."""
    limits = flags.get("limit-mm-per-prompt")
    nothing = isinstance(limits, Mapping) and "image" in limits and not any(limits.values())
    return nothing or flags.get("language-model-only") is True


def _images(flags: Mapping[str, object]) -> dict[str, int]:
    """Items a request by their kind, as far as the owner limits them."""
    limits = flags.get("limit-mm-per-prompt")
    if not isinstance(limits, Mapping):
        return {}
    return {str(kind): limit for kind, limit in limits.items() if isinstance(limit, int)}
