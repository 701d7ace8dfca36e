# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IMITATION of the hub for a lab: `tests/unit/hub_server.py` over folders, ``hub.py FOLDER COMMIT ADDRESS PORT``.

FOLDER has ORGANISATION/NAME/files.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit"))

import hub_server


def main() -> None:
    folder, commit, address, port = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    hubs = [
        hub_server.Hub(path.relative_to(folder).as_posix(), commit, hub_server.folder_of(path))
        for path in sorted(folder.glob("*/*"))
    ]
    with hub_server.serving(*hubs, address=address, port=port):
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()
