"""Carries mode, owner, group, access lists, extended attributes and labels to a new file.

Promise: the new file has exactly those of the old one, or `OwnershipLost` is raised.
"""

from __future__ import annotations

import os

from dpone.adapters.posix.held import attributes_of, translated
from dpone.ports.files import OwnershipLost


def carry_over(source: int, target: int, leaf: str) -> None:
    """Copy from descriptor to descriptor, and look at the result. Raises `OwnershipLost`."""
    with translated(leaf):
        found = os.fstat(source)
        made = os.fstat(target)
    try:
        if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
            os.fchown(target, found.st_uid, found.st_gid)
        os.fchmod(target, found.st_mode & 0o7777)
        _carry_attributes(source, target)
        seen = os.fstat(target)
    except OSError as error:
        raise OwnershipLost(leaf) from error
    wanted = (found.st_uid, found.st_gid, found.st_mode)
    if (seen.st_uid, seen.st_gid, seen.st_mode) != wanted or attributes_of(source) != attributes_of(
        target
    ):
        raise OwnershipLost(leaf)


def _carry_attributes(source: int, target: int) -> None:
    """Access lists and labels are extended attributes too."""
    wanted, present = attributes_of(source), attributes_of(target)
    for name, value in wanted.items():
        if present.get(name) != value:
            os.setxattr(target, name, value)
    for name in present.keys() - wanted.keys():
        # A default access list of the directory gives a new file what the old one lacks.
        os.removexattr(target, name)
