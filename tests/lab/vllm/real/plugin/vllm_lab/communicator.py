# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the ranks of a lab service talk: through the network (gloo), as they do between two Sparks."""

from __future__ import annotations

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator  # type: ignore[import-not-found]  # only in the image


class NetworkCommunicator(CpuCommunicator):  # type: ignore[misc]  # mypy does not know the base class, see above
    def _all_group_ranks_share_shm_group_name(self) -> bool:
        """Never shared memory: two lab hosts can agree on its name by chance, and still have one each."""
        return False
