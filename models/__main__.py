"""`python -m models [--wide]` prints the figures of every pinned exploration as JSON."""

from __future__ import annotations

import json
import sys

from models.explorer import Verdict
from models.figures import figures


def main(arguments: list[str]) -> int:
    """Print the figures; return 1 unless every exploration passed."""
    found = figures(wide="--wide" in arguments)
    json.dump(found, sys.stdout, indent=2, sort_keys=True)
    sys.stdout.write("\n")
    return int(any(figure["verdict"] != Verdict.PASSED for figure in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
