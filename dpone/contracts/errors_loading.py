"""Errors of route manifests, sources and loads."""

from __future__ import annotations

from typing import Any

from dpone.contracts.errors import (
    EXIT_CLOSED,
    EXIT_CONFLICT,
    EXIT_INTERNAL,
    EXIT_LATER,
    EXIT_USAGE,
    DponeError,
)

_NOTHING = "Nothing was read or written."
_UNTOUCHED = "This attempt wrote nothing of it to the target."
_AGAIN = "Mend the source and run the same command again."


class LoadingError(DponeError):
    """Base of the errors of manifests, sources and loads."""


class SpecInvalid(LoadingError):
    """A journal or target was named in a way that nothing understands."""

    code = "DPONE_SPEC_INVALID"
    exit_code = EXIT_USAGE
    happened = "The {what} {spec} is not known; known are: {known}."
    known = _NOTHING
    advice = "Name it as <kind>:<path or connection>."


class Usage(LoadingError):
    """The command line was not understood."""

    code = "DPONE_USAGE"
    exit_code = EXIT_USAGE
    happened = "The command line is not understood: {reason}"
    known = _NOTHING
    advice = "Run: {command} --help"


class InternalFailure(LoadingError):
    """An exception that this library did not foresee."""

    code = "DPONE_INTERNAL"
    exit_code = EXIT_INTERNAL
    happened = "An unforeseen {kind} stopped the command."
    known = "What the journal and the fence hold is true; nothing else is concluded."
    advice = "Run the same command again; with DPONE_DEBUG=1 it shows where it stopped."


class SchemaUnknown(LoadingError):
    """No public contract has this name."""

    code = "DPONE_SCHEMA_UNKNOWN"
    exit_code = EXIT_USAGE
    happened = "There is no contract named {name}."
    known = _NOTHING
    advice = "Run: dpone schema"


# -- manifests and projects ------------------------------------------------------------------------


class ManifestError(LoadingError):
    """Base of what is wrong with a manifest or project file."""

    exit_code = EXIT_USAGE
    known = _NOTHING


class ManifestNotFound(ManifestError):
    """There is no such manifest."""

    code = "DPONE_MANIFEST_NOT_FOUND"
    happened = "There is no manifest {name}."
    advice = (
        "Check the path; it is taken from the working directory, and a fragment's from the folder "
        "of its pipeline."
    )


class ManifestUnreadable(ManifestError):
    """The manifest exists but is not a readable text file."""

    code = "DPONE_MANIFEST_UNREADABLE"
    happened = "The manifest {name} cannot be read: {reason}."
    advice = "Give a UTF-8 text file of at most 1 MiB that this user may read."


class ManifestSyntax(ManifestError):
    """The manifest is not YAML."""

    code = "DPONE_MANIFEST_SYNTAX"
    happened = "The manifest {name} is not YAML at line {line}: {reason}."
    advice = "Mend line {line} of {name}."


class ManifestDuplicateKey(ManifestError):
    """One mapping of the manifest names a key twice."""

    code = "DPONE_MANIFEST_DUPLICATE_KEY"
    happened = "The manifest {name} names the key {key} again at line {line}."
    advice = "Keep one of the two."


class ManifestFeature(ManifestError):
    """The manifest uses a feature of YAML that is refused."""

    code = "DPONE_MANIFEST_YAML_FEATURE"
    happened = "The manifest {name} uses {feature} at line {line}, which is refused."
    advice = "Write the value out."


class ManifestInvalid(ManifestError):
    """The manifest is YAML but not a route."""

    code = "DPONE_MANIFEST_INVALID"
    happened = "The manifest {name} is not a route at line {line}, {place}: {reason}."
    advice = "Compare with the published schema: dpone schema dpone.route.v1"


class ManifestVersion(ManifestError):
    """The manifest names a schema that this version does not read."""

    code = "DPONE_MANIFEST_VERSION"
    happened = "The manifest {name} names the schema {found}; this version reads {ours}."
    advice = "Write schema: {ours}, or use the version of dpone that reads {found}."


class ProjectInvalid(ManifestError):
    """The project file is not valid."""

    code = "DPONE_PROJECT_INVALID"
    happened = "The project file dpone.toml is not valid: {reason}."
    advice = "Mend dpone.toml; it may hold environment and [connections.<name>]."


class PathOutsideProject(ManifestError):
    """A path of the manifest leaves the project's folder."""

    code = "DPONE_PATH_OUTSIDE_PROJECT"
    happened = "The {what} path leaves the project's folder."
    advice = "Use a path inside it, or declare a connection of kind {kind} in dpone.toml."


class ConnectionUnknown(ManifestError):
    """The manifest names a connection that nobody declared."""

    code = "DPONE_CONNECTION_UNKNOWN"
    happened = "There is no connection named {name}."
    advice = "Declare [connections.{name}] in dpone.toml, or set {variable}."


class ConnectionInvalid(ManifestError):
    """A connection is declared, but not so that it can be used here."""

    code = "DPONE_CONNECTION_INVALID"
    happened = "The connection {name} cannot be used here: {reason}."
    advice = "Mend [connections.{name}] in dpone.toml, or set {variable}."


class PartitionUnknown(ManifestError):
    """The source has no such partition."""

    code = "DPONE_PARTITION_UNKNOWN"
    happened = "The source has no partition {partition}."
    known = "Nothing was written."
    advice = "List them: dpone route explain {name}"


class PartitionsTooMany(ManifestError):
    """The route falls into more operations than are kept."""

    code = "DPONE_PARTITIONS_TOO_MANY"
    happened = "The route falls into {found} partitions; at most {most} are allowed."
    known = "Nothing was written."
    advice = "Choose a coarser partition."


class ColumnTypeUnknown(ManifestError):
    """A declared column type is no type."""

    code = "DPONE_COLUMN_TYPE_UNKNOWN"
    happened = "The type {type} of column {column} is not known."
    advice = "Use one of: {known}."


class TableNameInvalid(ManifestError):
    """The name of a table cannot be used."""

    code = "DPONE_TABLE_NAME_INVALID"
    happened = "The table name {table} cannot be used: {reason}."
    advice = 'Write table or schema.table; put a part with dots into double quotes: "a.b".'


class ConnectorUnsupported(LoadingError):
    """This connector does not do what the route asks for."""

    code = "DPONE_CONNECTOR_UNSUPPORTED"
    exit_code = EXIT_CLOSED
    happened = "The {connector} connector does not support {what}."
    known = "Nothing was written."
    advice = "Choose another connector or another setting; see: dpone route explain"


# -- sources ---------------------------------------------------------------------------------------


class SourceError(LoadingError):
    """Base of what is wrong with a source; it never repeats the source's bytes."""

    exit_code = EXIT_CONFLICT
    known = _UNTOUCHED
    advice = _AGAIN


class SourceNotFound(SourceError):
    """No file fits the path or glob."""

    code = "DPONE_SOURCE_NOT_FOUND"
    happened = "No file fits {pattern}."
    advice = "Check the path; it is taken from the project's folder. An empty file is allowed."


class SourceUnreadable(SourceError):
    """A file of the source cannot be read."""

    code = "DPONE_SOURCE_UNREADABLE"
    happened = "The source file {name} cannot be read: {reason}."
    advice = "Make it a regular file that this user may read, and run the same command again."


class SourceEncoding(SourceError):
    """A file holds bytes that are not UTF-8."""

    code = "DPONE_SOURCE_ENCODING"
    happened = "The source file {name} is not UTF-8{place}."
    advice = "Convert it, for example: iconv -f LATIN1 -t UTF-8"


class SourceNul(SourceError):
    """A text file holds a NUL byte."""

    code = "DPONE_SOURCE_NUL"
    happened = "The source file {name} holds a NUL byte at offset {offset}."
    advice = "Check how the file was written; a NUL often means a torn or a UTF-16 file."


class SourceRagged(SourceError):
    """A row has another number of fields than the header."""

    code = "DPONE_SOURCE_RAGGED"
    happened = "A row of the source{place} has another number of fields than the header."


class SourceFieldTooLarge(SourceError):
    """A row is longer than the bound."""

    code = "DPONE_SOURCE_FIELD_TOO_LARGE"
    happened = "A row or field of the source{place} is longer than {bytes_max} bytes."
    advice = "Look for a quote that is never closed; larger values are not loaded."


class SourceHeader(SourceError):
    """A CSV file has no usable header line."""

    code = "DPONE_SOURCE_HEADER"
    happened = "The source file {name} has no usable header: {reason}."


class SourceColumnDuplicate(SourceError):
    """A source names a column twice."""

    code = "DPONE_SOURCE_COLUMN_DUPLICATE"
    happened = "The source names the column {column} twice."


class SourceColumnMissing(SourceError):
    """A column that is to be loaded is not in the source."""

    code = "DPONE_SOURCE_COLUMN_MISSING"
    happened = "The source has no column {column}{hint}."
    advice = "Mend the source, or list under columns: what is to be loaded{advised}."

    def __init__(self, *, hint: str = "", advised: str = "", **fields: Any) -> None:
        super().__init__(hint=hint, advised=advised, **fields)


class SourceColumnUnknown(SourceError):
    """The source has a column that the table lacks."""

    code = "DPONE_SOURCE_COLUMN_UNKNOWN"
    happened = "The table has no column {column}, which the source brings."
    advice = "Add it to the table, or list under columns: what is to be loaded."


class SourceValue(SourceError):
    """A value does not fit the type of its column."""

    code = "DPONE_SOURCE_VALUE"
    happened = "A value of column {column}{place} is not of type {type}."
    advice = "Mend it, list the text under null: if it means missing, or declare another type."


class SourceFormat(SourceError):
    """A file is not what its kind says."""

    code = "DPONE_SOURCE_FORMAT"
    happened = "The source{place} is not valid {kind}: {reason}."


class SourceChanged(SourceError):
    """A file changed between its digest and the end of the load."""

    code = "DPONE_SOURCE_CHANGED"
    exit_code = EXIT_LATER
    happened = "The source file {name} changed while it was being loaded."
    advice = "Run the same command again when nobody writes the file any more."


class SourceQuery(SourceError):
    """The query of the source failed."""

    code = "DPONE_SOURCE_QUERY"
    happened = "The query on connection {connection} failed: {reason}."
    advice = "Mend source.query.sql or the connection, and run the same command again."


class SourceUnreachable(SourceError):
    """The server of the source's query did not answer."""

    code = "DPONE_SOURCE_UNREACHABLE"
    exit_code = EXIT_LATER
    happened = "The server of connection {connection} did not answer the query: {cause}."
    advice = "Run the same command again when it answers."


# -- loads -----------------------------------------------------------------------------------------


class LoadError(LoadingError):
    """Base of what a target's table refuses."""

    exit_code = EXIT_CONFLICT
    known = _UNTOUCHED
    advice = _AGAIN


class LoadDuplicateKey(LoadError):
    """The source brings one merge key twice."""

    code = "DPONE_LOAD_DUPLICATE_KEY"
    happened = "The source brings {rows} keys of ({keys}) more than once."
    advice = "Make the rows unique by ({keys}), or merge by more columns."


class LoadNullKey(LoadError):
    """The source brings a merge key that is missing."""

    code = "DPONE_LOAD_NULL_KEY"
    happened = "The source brings {rows} rows in which a key of ({keys}) is missing."
    advice = "Fill the keys in the source, or merge by other columns."


class LoadConstraint(LoadError):
    """The table's own constraints refuse the rows."""

    code = "DPONE_LOAD_CONSTRAINT"
    happened = "The table {table} refused the rows: a {constraint} constraint is violated."
    advice = "Mend the source or choose another strategy, and run the same command again."


class LoadTableMissing(LoadError):
    """The table does not exist and its types are not known."""

    code = "DPONE_LOAD_TABLE_MISSING"
    happened = "The table {table} does not exist, and nothing says which types it is to have."
    advice = "Declare columns: with types, or create it: {statement}"


class LoadTableInvalid(LoadError):
    """What has the table's name cannot be loaded into."""

    code = "DPONE_LOAD_TABLE_INVALID"
    happened = "The table {table} cannot be loaded into: {reason}."
    advice = "Name another table in the manifest."


class LoadRefused(LoadError):
    """The target's engine refused a statement of the load."""

    code = "DPONE_LOAD_REFUSED"
    happened = "The {target} target refused the load: {reason}."
    advice = "Mend the cause and run the same command again."
