# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for vLLM where many hosts or many restarts are tested: no model, the standard library, up in a second.

What it takes from the real one, as seen in vLLM 0.32 (by its source, or by running it): options and their errors, exit
codes, routes, errors, log lines, metric names, and how it fails. What it answers says that it is no model.
"""
