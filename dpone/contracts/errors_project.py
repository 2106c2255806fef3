"""Errors of the commands that write project files: what a plan refuses, and why."""

from __future__ import annotations

from dpone.contracts.errors import EXIT_CLOSED, EXIT_CONFLICT, EXIT_USAGE, DponeError

_UNTOUCHED = "No file was changed."


class ProjectConflict(DponeError):
    """Base of the conflicts that a plan finds; a person decides."""

    exit_code = EXIT_CONFLICT
    known = _UNTOUCHED


class NameRefused(ProjectConflict):
    """A name that a path, a catalog or a DAG cannot bear. `form` is what one looks like."""

    code = "DPONE_INIT_NAME_INVALID"
    exit_code = EXIT_USAGE
    happened = "{what} {name} is no valid name: {reason}."
    advice = "Use {form}."


class NameCollision(ProjectConflict):
    """Two names that some file systems or readers take for one."""

    code = "DPONE_INIT_NAME_COLLISION"
    happened = "{path} and the existing {other} are one name after case folding or normalization."
    advice = "Choose another name."


class OptionInvalid(ProjectConflict):
    """An option's value that stands for nothing."""

    code = "DPONE_INIT_OPTION_INVALID"
    exit_code = EXIT_USAGE
    happened = "The value of {option} is not valid: {reason}."
    advice = "Look at the command's --help."


class WorkingFolderMissing(ProjectConflict):
    """The folder that the command was started in is gone, or cannot be looked at."""

    code = "DPONE_WORKING_FOLDER_MISSING"
    exit_code = EXIT_USAGE
    happened = "The working folder cannot be used: {reason}."
    known = "Nothing was read or written."
    advice = "Change to a folder that is there, and run again."


class PathClosed(ProjectConflict):
    """A path that was given leads through a folder that does not let this user in."""

    code = "DPONE_PATH_CLOSED"
    exit_code = EXIT_CLOSED
    happened = "{name} cannot be looked at: a folder on the way to it does not let this user in."
    known = "What was reported as done is done; nothing else was begun."
    advice = "Give this user permission to read and enter the folder, and run again."


class FolderUnreadable(ProjectConflict):
    """A folder on the way to a file does not let this user look into it."""

    code = "DPONE_AUTHORING_FOLDER_UNREADABLE"
    exit_code = EXIT_CLOSED
    happened = "{path} cannot be looked at: its folder does not let this user in ({reason})."
    advice = "Give this user permission to read and enter the folder, and run again."


class NothingNamed(ProjectConflict):
    """Recovery was asked for a name that nothing bears, and that no interrupted change left."""

    code = "DPONE_AUTHORING_NOTHING_NAMED"
    exit_code = EXIT_USAGE
    happened = "Nothing is named {path}, and no interrupted change of it waits."
    known = "No file was changed. Left in its folder by earlier changes: {leftovers}."
    advice = "Check the name; a path counts from the working folder, else from the project's."


class EarlierChangeWaits(ProjectConflict):
    """A file is in the way that an interrupted change had made, under other options."""

    code = "DPONE_AUTHORING_EARLIER_CHANGE_WAITS"
    happened = "An interrupted change of {root} waits; {path} is its file, and says something else."
    advice = "Undo or finish it first: dpone authoring recover {root} --apply"


class ProjectFileConflict(ProjectConflict):
    """`dpone.toml` exists and is no project file."""

    code = "DPONE_INIT_PROJECT_CONFLICT"
    happened = "The folder has a dpone.toml that is no project file: {reason}."
    advice = "Mend or move it, and run again."


class DomainUnknown(ProjectConflict):
    """The domain has no catalog."""

    code = "DPONE_INIT_DOMAIN_UNKNOWN"
    happened = "The domain {domain} has no catalog at {path}."
    advice = "Run: dpone init domain {domain} --help"


class DomainConflict(ProjectConflict):
    """The catalog says something else than what would be generated."""

    code = "DPONE_WORKLOAD_INIT_DOMAIN_CONFLICT"
    happened = "{path} already declares {entry} and differs in: {fields} (line {line})."
    advice = "Edit {path} by hand, or give the options that it declares."


class OwnershipConflict(ProjectConflict):
    """The ownership file names another owner."""

    code = "DPONE_WORKLOAD_INIT_OWNERSHIP_CONFLICT"
    happened = "{path} already names an owner and differs in: {fields}."
    advice = "Edit {path} by hand, or give the owner that it names."


class ScaffoldConflict(ProjectConflict):
    """A file that would be created exists with other content."""

    code = "DPONE_WORKLOAD_INIT_SCAFFOLD_CONFLICT"
    happened = "{path} exists and is not what would be generated."
    advice = "Keep it and choose another name, or move it away and run again."


class WorkloadUnknown(ProjectConflict):
    """A DAG's member that the catalog does not declare."""

    code = "DPONE_WORKLOAD_INIT_INVALID_REFERENCE"
    happened = "The catalog {path} declares no {kind} {name}."
    advice = "Declare it first with: dpone init"


class CatalogInvalid(ProjectConflict):
    """A catalog, or the workload set, whose shape is another."""

    code = "DPONE_CATALOG_INVALID"
    happened = "{path} cannot be used: {reason} (line {line})."
    advice = "Mend {path}, and run again."


class ManifestRefused(ProjectConflict):
    """The options do not make a valid route manifest."""

    code = "DPONE_WORKLOAD_INIT_MANIFEST_INVALID"
    exit_code = EXIT_USAGE
    happened = "The options make no valid route manifest: {reason}."
    advice = "Look at: dpone init workload --help"


class MigrationTargetInvalid(ProjectConflict):
    """The path names no authoring form."""

    code = "DPONE_AUTHORING_MIGRATION_TARGET_INVALID"
    exit_code = EXIT_CLOSED
    happened = "{path} names no authoring form: {reason}."
    advice = "Name a route manifest, or the folder with its pipeline.yaml."


class MigrationSourceInvalid(ProjectConflict):
    """The declaration cannot be read as one of the three forms."""

    code = "DPONE_AUTHORING_MIGRATION_SOURCE_INVALID"
    happened = "{path} cannot be migrated: {reason}."
    advice = "Mend {path}; dpone route validate tells more."


class MigrationModeMismatch(ProjectConflict):
    """`--from` disagrees with what is there."""

    code = "DPONE_AUTHORING_MIGRATION_SOURCE_MODE_MISMATCH"
    exit_code = EXIT_USAGE
    happened = "{path} has the {found} form, not {wanted}."
    advice = "Leave out --from, or name the form that is there."


class MigrationDrift(ProjectConflict):
    """The compiled meaning would differ."""

    code = "DPONE_AUTHORING_MIGRATION_SEMANTIC_DRIFT"
    exit_code = EXIT_CLOSED
    happened = "The {form} form of {path} would mean something else: {reason}."
    advice = "Migrate it by hand, and report this."


class MigrationUnsupported(ProjectConflict):
    """A declaration that the wanted form cannot hold."""

    code = "DPONE_AUTHORING_MIGRATION_RECIPE_UNSUPPORTED"
    happened = "{path} cannot have the {form} form: {reason}."
    advice = "Keep its form, or change by hand what stands in the way, and run again."
