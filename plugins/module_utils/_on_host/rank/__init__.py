# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank of a service, supervised on its host: ``python3 -m gb10_rank.supervise /etc/gb10-fleet/services/NAME.json``.

The plan writes what to run and how it is asked (`probes`); this decides when, and knows no engine. A group starts,
serves and ends as a whole, in EPOCHS, since a rank that is gone leaves the others waiting for ever. A solo service is a
group of one. Standard library only, Python 3.11: the role `services` copies this folder to the host as `gb10_rank`.

| module | what it holds |
|---|---|
| service, probes, typed | the plan's file, as data, checked |
| judge | every decision, pure: restart budget, progress of a load, liveness |
| memory | decisions about the host's memory, pure: caches during a load, creep |
| causes | why an engine ended, by what it printed, pure |
| ends | who ended a container, by what its host shows, pure |
| wire | the ranks' messages to each other, authenticated |
| container, host, endpoint | a container, the machine, the API: read and act, decide nothing |
| client | one HTTP request to the API, also for `_verify` |
| listener | whether the API that is asked with the key is the container's |
| redaction | secrets taken out of what is kept or shown |
| evidence, report | what stays after a failure; status file and journal |
| local | one rank on its host: prepare, launch, stop |
| head, members, serving | the rank that leads: its epochs, the others as it sees them, the endpoint |
| readiness | whether the endpoint takes requests, for gateways that ask |
| worker | a rank that follows |
"""
