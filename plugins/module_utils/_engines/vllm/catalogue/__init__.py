# SPDX-License-Identifier: GPL-3.0-or-later
"""What each vLLM release knows, extracted from its source without running it, and stored compactly."""
