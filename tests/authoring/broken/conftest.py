"""The fixtures of small projects serve these cases too."""

from tests.authoring.commands.conftest import pytest_configure

__all__ = ["pytest_configure"]
