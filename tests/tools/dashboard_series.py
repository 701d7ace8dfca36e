#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""``dashboard_series.py > FILE``: half an hour of a desk of three hosts, an imitation for the pictures in the docs.

OpenMetrics, with the names that the dashboards ask for; figures as owners report them of a GB10. Then, in a folder:
``promtool tsdb create-blocks-from openmetrics FILE data``, ``prometheus --storage.tsdb.path=data``, and
draw_dashboards.py for each file of `dashboards.as_text`.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator

_SECONDS, _STEP = 2100, 15
_GIB, _HOSTS = 2**30, ("titan", "spark-2", "spark-3")
# host, service, rank, memory in GiB, planned, tokens a second at its most
_RANKS = (
    ("titan", "chat", "0", 96.5, 98.0, 74.0),
    ("spark-2", "large", "0", 104.2, 106.5, 31.0),
    ("spark-3", "large", "1", 103.8, 106.5, 0.0),
)
_Value = Callable[[float], float]


def _waves(least: float, most: float, period_s: float, noise: float = 0.03) -> _Value:
    """Between two values, with some noise. random: seeded, so that a picture changes with its panels only."""
    known = random.Random(f"{least}{most}{period_s}")
    return lambda at: (
        least + (most - least) * (0.5 + 0.5 * math.sin(at / period_s)) * (1 + known.uniform(-noise, noise))
    )


def _still(value: float) -> _Value:
    return lambda _at: value


def _grows(rate: _Value) -> _Value:
    total = [0.0]

    def value(at: float) -> float:
        total[0] += rate(at) * _STEP
        return total[0]

    return value


def _of_host(number: int, host: str) -> Iterator[tuple[str, _Value]]:
    labels = f'{{host="{host}"}}'
    yield f'up{{job="host",host="{host}"}}', _still(1)
    yield f"node_memory_MemAvailable_bytes{labels}", _waves((14 + number) * _GIB, (16 + number) * _GIB, 400)
    yield f"gb10_memory_floor_bytes{labels}", _still(6 * _GIB)
    yield f"gb10_gpu_utilization_ratio{labels}", _waves(0.55, 0.97, 300 + 40 * number)
    yield f"gb10_gpu_temperature_celsius{labels}", _waves(58 + 3 * number, 71 + 3 * number, 600, 0.01)
    yield f"gb10_gpu_power_watts{labels}", _waves(38, 84, 300 + 40 * number)
    yield f"gb10_gpu_sm_clock_hertz{labels}", _waves(2.05e9, 2.41e9, 500, 0.01)
    yield f'gb10_disk_free_bytes{{host="{host}",path="/var/lib/gb10-fleet"}}', _still((3200 - 400 * number) * _GIB)
    yield f"node_load1{labels}", _waves(1.2, 3.4 + number, 350)
    for half in ("enp1s0f0np0", "enP2p1s0f0np0"):
        device = f'{{host="{host}",device="{half}"}}'
        busy = 0.0 if host == "titan" else (4.1e9 if half.startswith("enp") else 3.8e9) + 1e8 * number
        yield f"gb10_fabric_link{device}", _still(float(host != "titan" or half == "enp1s0f0np0"))
        rdma = f'{{host="{host}",device="{half.replace("en", "roce", 1).removesuffix("np0")}"}}'
        for way in ("transmitted", "received"):
            yield f"node_infiniband_port_data_{way}_bytes_total{rdma}", _grows(_waves(0.6 * busy, busy, 240))
        for name in ("transmit_bytes", "receive_bytes"):
            yield f"node_network_{name}_total{device}", _grows(_waves(2e4, 5e5 + 1e5 * number, 200 + 30 * number))
        for name in ("receive_errs", "receive_drop"):
            yield f"node_network_{name}_total{device}", _still(0)


def _of_service(
    host: str, service: str, rank: str, memory: float, planned: float, rate: float
) -> Iterator[tuple[str, _Value]]:
    labels = f'{{host="{host}",service="{service}",rank="{rank}"}}'
    yield f"gb10_service_memory_bytes{labels}", _waves(memory * _GIB, (memory + 0.4) * _GIB, 500, 0.001)
    yield f"gb10_service_planned_bytes{labels}", _still(planned * _GIB)
    yield f'gb10_service_state{{host="{host}",service="{service}",rank="{rank}",state="serving"}}', _still(1)
    yield f'gb10_service_state{{host="{host}",service="{service}",rank="{rank}",state="loading"}}', _still(0)
    yield f"gb10_service_starts_left{labels}", _still(3)
    yield f"gb10_service_strikes{labels}", _still(0)
    yield f"gb10_service_status_age_seconds{labels}", _waves(1, 9, 30 + float(rank) + memory / 20)
    if not rate:
        return
    slow = 74 / rate
    yield f"gb10_service_serving{labels}", _still(1)
    yield f"gb10:requests_running{labels}", lambda at: round(_waves(1, 8 / slow**0.5, 280, 0)(at))
    yield f"gb10:requests_waiting{labels}", lambda at: max(0, round(_waves(-4, 3 / slow, 280, 0)(at)))
    yield f"gb10:kv_use:ratio{labels}", _waves(0.12 * slow**0.5, 0.61, 280)
    yield f"gb10:generated_tokens:rate5m{labels}", _waves(0.45 * rate, rate, 420)
    yield f"gb10:prompt_tokens:rate5m{labels}", _waves(6 * rate, 14 * rate, 380)
    yield f"gb10:expected_tokens:rate{labels}", _still(1.02 * rate)
    yield f"gb10:first_token_seconds:p50{labels}", _waves(0.31 * slow, 0.72 * slow, 420)
    yield f"gb10:first_token_seconds:p95{labels}", _waves(0.9 * slow, 2.4 * slow, 420)
    yield f"gb10:next_token_seconds:p95{labels}", _waves(0.9 / rate, 1.7 / rate, 420)
    yield f"gb10:queue_seconds:mean5m{labels}", _waves(0.0, 0.22 * slow, 280)
    yield f"gb10:prefix_hits:ratio5m{labels}", _waves(0.41 / slow**0.5, 0.66, 700)
    yield f"gb10:preemptions:rate5m{labels}", _still(0)


def main() -> None:
    series = [row for number, host in enumerate(_HOSTS) for row in _of_host(number, host)]
    series += [row for rank in _RANKS for row in _of_service(*rank)]
    down = 'host="spark-3",service="embed",rank="0"'
    link = 'host="titan",device="enP2p1s0f0np0"'
    series += [
        (f"gb10_service_serving{{{down}}}", _still(0)),
        (f'ALERTS{{alertname="Gb10ServiceDown",alertstate="firing",severity="critical",{down}}}', _still(1)),
        (f'ALERTS{{alertname="Gb10LinkDown",alertstate="firing",severity="critical",{link}}}', _still(1)),
    ]
    now = int(time.time()) // _STEP * _STEP
    families: dict[str, list[tuple[str, _Value]]] = {}
    for name, value in series:
        families.setdefault(name.partition("{")[0], []).append((name, value))
    for family, rows in families.items():
        print(f"# TYPE {family.removesuffix('_total')} {'counter' if family.endswith('_total') else 'gauge'}")
        for name, value in rows:
            for at in range(now - _SECONDS, now + _STEP, _STEP):
                print(f"{name} {value(at):.12g} {at}")
    print("# EOF")


if __name__ == "__main__":
    main()
