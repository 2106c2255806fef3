"""Which columns of a source go into which columns of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpone.contracts.errors_loading import SourceColumnMissing, SourceColumnUnknown

_DELIMITERS = {";": "a semicolon", "\t": "a tab", "|": "a bar", ",": "a comma"}


def hinted(error: SourceColumnMissing, header: Sequence[str]) -> SourceColumnMissing:
    """The same error; for a header that is one column it says which delimiter would fit."""
    found = [mark for mark in _DELIMITERS if len(header) == 1 and mark in header[0]]
    if not found or error.fields["hint"]:
        return error
    word = "\\t" if found[0] == "\t" else found[0]
    return SourceColumnMissing(
        column=error.fields["column"],
        hint=f"; its header is a single column that holds {_DELIMITERS[found[0]]}",
        advised=f', or say under source: delimiter: "{word}"',
    )


def chosen(declared: Sequence[str], source: Sequence[str]) -> tuple[str, ...]:
    """The source's columns to load: the declared ones, or all.

    Raises `SourceColumnMissing` for a declared column that the source lacks.
    """
    for name in declared:
        if name not in source:
            raise SourceColumnMissing(column=name)
    return tuple(declared) or tuple(source)


def paired(
    names: Sequence[str], table: Iterable[str], declared: bool, *, folded: bool
) -> list[tuple[str, str]]:
    """Pairs of source column and table column.

    `folded`: the database ignores case in names. Raises `SourceColumnUnknown` for a source column
    that the table lacks, and, unless the columns were `declared`, `SourceColumnMissing` for a
    table column that the source lacks.
    """
    here = {_key(name, folded): name for name in table}
    pairs = []
    for name in names:
        column = here.pop(_key(name, folded), None)
        if column is None:
            raise SourceColumnUnknown(column=name)
        pairs.append((name, column))
    if here and not declared:
        raise SourceColumnMissing(column=next(iter(here.values())))
    return pairs


def _key(name: str, folded: bool) -> str:
    return name.casefold() if folded else name
