"""`python -m dpone`."""

from __future__ import annotations

from dpone.cli.main import main

if __name__ == "__main__":
    main()
