"""How deep the tests go: each point once, or, with DPONE_KILL=full, all pairs and long rounds."""

from __future__ import annotations

import os

FULL = os.environ.get("DPONE_KILL") == "full"
