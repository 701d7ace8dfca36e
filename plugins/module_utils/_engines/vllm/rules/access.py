# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on who reaches the endpoint, and what the endpoint reaches for them."""

from ...._base.place import argv
from ._base import Hit, Hits, rule
from .launch import Launch


@rule(
    "R159",
    "warning",
    lasts="operation",
    needs=("service.open",),
    expected="an API key, or an address that this host alone reaches",
    remedy="remove open: true, so that a key is made; or listen: 127.0.0.1 and a proxy of your own that asks for one; "
    "or silence R159 with your reason",
    reason="whoever reaches the host may use the model, read its metrics and fill its queue",
    source="vLLM, docs/usage/security.md, API key authentication limitations",
)
def open_to_everybody(launch: Launch) -> Hits:
    """A service that asks nobody for a key, on an address that others reach."""
    if launch.service.open:
        yield Hit(argv("--host"), "open: true, on an address that other machines reach")


@rule(
    "R160",
    "warning",
    lasts="vllm",
    needs=("service.recipe",),
    expected="--allowed-media-domains with the domains that images may come from",
    remedy="write flags: {allowed-media-domains: [images.example.org]}, or [none.invalid] for none; a release before "
    "0.11.0 knows no such option: take a newer image, or see to it that the host reaches nothing that clients may not",
    reason="a client names an address, and the server fetches it: also one of the host's network that only the host "
    "reaches; without domains vLLM allows all",
    source="vllm/multimodal/media/connector.py, _assert_url_in_allowed_media_domains; docs/usage/security.md",
)
def media_of_any_domain(launch: Launch) -> Hits:
    """A vision model that fetches media from whatever address a client names."""
    planned = launch.service.recipe is not None
    if planned and launch.serves and launch.model.vision and not launch.has("--allowed-media-domains"):
        yield Hit(argv("--allowed-media-domains"), "not given: all domains")
