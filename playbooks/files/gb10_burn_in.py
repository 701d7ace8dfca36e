# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Multiplies and copies on the GPU for some seconds, in an image that has PyTorch; prints the middle of both.

The product is the same each time, and the copy is larger than any cache.
"""

import json
import sys
import time
from collections.abc import Callable

import torch  # type: ignore[import-not-found]

SIZE, TIMES, BYTES = 8192, 20, 1 << 30


def seconds(work: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(TIMES):
        work()
    torch.cuda.synchronize()
    return time.monotonic() - began


def main() -> None:
    until = time.monotonic() + float(sys.argv[1])
    one = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    product = torch.empty_like(one)
    source = torch.empty(BYTES, device="cuda", dtype=torch.uint8)
    copy = torch.empty_like(source)
    speeds: list[float] = []
    copied: list[float] = []
    sums: list[float] = []
    while not speeds or time.monotonic() < until:
        speeds.append(TIMES * 2 * SIZE**3 / seconds(lambda: torch.matmul(one, one, out=product)) / 1e12)
        sums.append(product.double().sum().item())
        copied.append(TIMES * 2 * BYTES / seconds(lambda: copy.copy_(source)) / 1e9)
    found = {"tflops": sorted(speeds)[len(speeds) // 2], "gb_s": sorted(copied)[len(copied) // 2]}
    print(json.dumps({**found, "wrong": sum(value != sums[0] for value in sums)}))


if __name__ == "__main__":
    main()
