# SPDX-License-Identifier: GPL-3.0-or-later
"""What several modules have in common: their author, and what they do in check mode and diff mode."""


class ModuleDocFragment:
    """Used as ``extends_documentation_fragment: [gb10.fleet.attributes.reads_only]``."""

    READS_ONLY = r"""
author: [gb10.fleet contributors (@gb10-fleet)]
attributes:
  check_mode:
    description: Runs the same in check mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is no diff.
    support: none
"""

    CHANGES = r"""
author: [gb10.fleet contributors (@gb10-fleet)]
attributes:
  check_mode:
    description: Says what would change, and changes nothing.
    support: full
  diff_mode:
    description: Shows what changes, before and after.
    support: full
"""

    MEASURES = r"""
author: [gb10.fleet contributors (@gb10-fleet)]
attributes:
  check_mode:
    description: Is skipped in check mode, as it takes minutes of a service.
    support: partial
    details: Measures nothing and says so.
  diff_mode:
    description: Changes nothing, so there is no diff.
    support: none
"""

    ON_CONTROLLER = r"""
author: [gb10.fleet contributors (@gb10-fleet)]
attributes:
  action:
    description: Runs on the controller only.
    support: full
"""
