# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on who reaches the endpoint, and what the endpoint reaches for them."""

from ...._base.place import argv
from ._base import Hit, Hits, rule
from .launch import Launch


@rule("R159")
def open_to_everybody(launch: Launch) -> Hits:
    """A service without an API key, on an address that others reach."""
    if launch.service.open:
        yield Hit(argv("--host"), "open: true, on an address that other machines reach")


@rule("R160")
def media_of_any_domain(launch: Launch) -> Hits:
    """A vision model that fetches media from whatever address a client names."""
    planned = launch.service.recipe is not None
    if planned and launch.serves and launch.model.vision and not launch.has("--allowed-media-domains"):
        yield Hit(argv("--allowed-media-domains"), "not given: all domains")
