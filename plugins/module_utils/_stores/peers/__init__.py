# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host gives to its peers: images and models by their digests, and the program that serves them over SSH."""
