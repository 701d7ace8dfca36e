# SPDX-License-Identifier: GPL-3.0-or-later
"""One address for all services: TLS, keys of clients, and the model's name picks the service. HAProxy does the work."""
