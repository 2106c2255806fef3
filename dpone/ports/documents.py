"""The port of YAML documents that people also edit: read them, compare, and add to them.

Source of the rules: the authoring design, section 5. Nothing here touches a file: bytes come in
and bytes go out. An edit that cannot be made exactly is refused, never approximated; `name` is
the file's last name part and serves messages only. All errors are `YamlError`.
"""

from __future__ import annotations

from typing import Protocol

from dpone.contracts.plainyaml import Plain, Value, View


class Documents(Protocol):
    """Reads documents and makes edits that are the added block and nothing else.

    Every method that is given `data` raises `YamlUnreadable`, `YamlTooLarge`, `YamlSyntax`,
    `YamlDuplicateKey` or `YamlFeature` when the whole text does not hold exactly one readable
    document (or none: an empty file reads as an empty document).
    """

    def view(self, data: bytes, name: str) -> View:
        """Read one document: values with the text that the person wrote, lines, aliases."""

    def same(self, existing: Value, generated: Plain) -> bool:
        """Whether a value of a view is exactly a generated one (see `plainyaml.same`)."""

    def add_entry(
        self, data: bytes, path: tuple[str, ...], key: str, value: Plain, *, name: str
    ) -> bytes:
        """Return `data` with `key: value` added at the end of the mapping at `path`.

        Mappings of `path` that do not exist become part of the added block. Raises
        `YamlKeyExists`, `YamlShared`, `YamlOtherShape`, `YamlEditNotExact`, `YamlValueRefused`.
        """

    def append_item(self, data: bytes, path: tuple[str, ...], value: Plain, *, name: str) -> bytes:
        """Return `data` with an item added at the end of the list at `path`.

        A list that does not exist is created with the one item. Raises `YamlShared`,
        `YamlOtherShape`, `YamlEditNotExact` or `YamlValueRefused`.
        """

    def render(self, value: Plain, *, comment: str = "") -> bytes:
        """Return a new document: UTF-8, LF, block form, keys in the given order.

        `comment` stands above it, each line behind `# `. A string is quoted whenever a reader of
        YAML 1.1 or 1.2 would take it for something else. Raises `YamlValueRefused`.
        """
