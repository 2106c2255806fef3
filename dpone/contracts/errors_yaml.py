"""Errors of reading and editing YAML files that people also edit.

Every one names the file's last name part and, where a place in the text is meant, the line
(from 1). Exit code 1: the person decides and mends; 4: the bytes are not safe to work on.
"""

from __future__ import annotations

from dpone.contracts.errors import EXIT_CLOSED, EXIT_CONFLICT, DponeError

_UNCHANGED = "The file was left as it is."
_BY_HAND = "Write the entry into {name} by hand, or rewrite line {line} and run the command again."


class YamlError(DponeError):
    """Base of what is wrong with a YAML file, or with an edit of one."""

    exit_code = EXIT_CONFLICT
    known = _UNCHANGED


class YamlUnreadable(YamlError):
    """The bytes are not text that YAML allows: not UTF-8, or with forbidden characters."""

    code = "DPONE_YAML_UNREADABLE"
    exit_code = EXIT_CLOSED
    happened = "The file {name} cannot be read at line {line}: {reason}."
    advice = "Save {name} as UTF-8 text without control characters, and run the command again."


class YamlTooLarge(YamlError):
    """A bound on bytes, nesting or nodes is passed."""

    code = "DPONE_YAML_TOO_LARGE"
    exit_code = EXIT_CLOSED
    happened = "The file {name} is larger than what is read, at line {line}: {reason}."
    advice = "Split {name} into smaller files."


class YamlSyntax(YamlError):
    """The text is not YAML."""

    code = "DPONE_YAML_SYNTAX"
    happened = "The file {name} is not YAML at line {line}: {reason}."
    advice = "Mend line {line} of {name}."


class YamlDuplicateKey(YamlError):
    """One mapping names a key twice, so that readers disagree about its value."""

    code = "DPONE_YAML_DUPLICATE_KEY"
    happened = "The file {name} names the key {key} at line {first} and again at line {line}."
    advice = "Keep one of the two, and run the command again."


class YamlFeature(YamlError):
    """The text uses a feature of YAML that is refused wherever it stands."""

    code = "DPONE_YAML_FEATURE"
    happened = "The file {name} uses {feature} at line {line}, which is refused."
    advice = "Write it without {feature}."


class YamlShared(YamlError):
    """The place to be edited is shared by an alias, an anchor or a merge key."""

    code = "DPONE_YAML_SHARED_PLACE"
    happened = "{place} in {name} cannot be edited: line {line} holds {feature}."
    advice = "Write the values of {place} out, so that an edit changes them in one place only."


class YamlKeyExists(YamlError):
    """The key that is to be added is already there."""

    code = "DPONE_YAML_KEY_EXISTS"
    happened = "{place} is already in {name}, at line {line}."
    advice = "Compare line {line} of {name} with what was to be added, and keep one of the two."


class YamlOtherShape(YamlError):
    """The place to be edited holds something else than a mapping or a list."""

    code = "DPONE_YAML_OTHER_SHAPE"
    happened = "{place} in {name} is {found} at line {line}, and not {wanted}."
    advice = "Make {place} {wanted}, or remove it."


class YamlEditNotExact(YamlError):
    """No splice of the text is known to add the block and to change nothing else."""

    code = "DPONE_YAML_EDIT_NOT_EXACT"
    happened = (
        "Nothing can be added to {place} in {name} without other changes: {reason}, line {line}."
    )
    advice = _BY_HAND


class YamlValueRefused(YamlError):
    """A value cannot be written as YAML that every reader reads back."""

    code = "DPONE_YAML_VALUE_REFUSED"
    happened = "The value at {place} cannot be written as YAML: {reason}."
    advice = "Choose another name or value."
