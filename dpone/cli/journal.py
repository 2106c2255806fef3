"""`dpone journal`: looking at operations, and recovering them."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpone.cli.session import Format, FormatOption, Session, plain_app, session_of, table_of

if TYPE_CHECKING:
    from dpone.cli.desk import Desk
    from dpone.contracts.journal import JournalEntry
    from dpone.contracts.journal_report import Listed

app = plain_app("Look at operations and recover them.")

JournalOption = Annotated[
    str,
    typer.Option(
        "--journal",
        help="sqlite:<path> or postgres:<connection name>; default: the project's.",
        show_default=False,
    ),
]
Operation = Annotated[
    str, typer.Argument(help="The operation's id, or its beginning.", show_default=False)
]
Who = Annotated[str, typer.Option("--operator", help="Who answers.", show_default=False)]
Why = Annotated[str, typer.Option("--why", help="The reason, kept for ever.", show_default=False)]


def _desk(held: ExitStack, session: Session, journal: str) -> Desk:
    from dpone.cli.desk import open_desk

    return held.enter_context(closing(open_desk(Path.cwd(), journal, probe=session.probe)))


@app.command("list")
def list_(
    context: typer.Context,
    route: Annotated[str, typer.Option(help="Only this route.")] = "",
    state: Annotated[list[str] | None, typer.Option(help="Only these states; repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Rows of a page.")] = 50,
    after: Annotated[str, typer.Option(help="The cursor that the page before printed.")] = "",
    journal: JournalOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """List operations, the most recently changed first."""
    session = session_of(context, chosen)
    from dpone.cli.desk import page

    with ExitStack() as held:
        found = page(_desk(held, session, journal).journal, after, limit, route, state or ())
    rows = [("updated", "state", "route", "partition", "rev", "operation")]
    rows += [
        (row.updated_at, _state(row), row.route, row.partition, str(row.revision), row.operation_id)
        for row in found.operations
    ]
    text = table_of(rows) if found.operations else "The journal has no operation like that."
    session.print(found, text + (f"\nmore: --after {found.next}" if found.next else ""))


@app.command()
def show(
    context: typer.Context,
    operation: Operation,
    journal: JournalOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Show one operation, and draw its path through the states."""
    session = session_of(context, chosen)
    with ExitStack() as held:
        desk = _desk(held, session, journal)
        _print_entry(session, desk, desk.entry(operation))


@app.command()
def explain(
    context: typer.Context,
    operation: Operation,
    journal: JournalOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Say what is known of an operation, from what evidence, and what to run next."""
    session = session_of(context, chosen)
    from dpone.fencing.explain import explain as explained

    with ExitStack() as held:
        desk = _desk(held, session, journal)
        entry = desk.entry(operation)
        answer = desk.ask(entry)
        said = explained(entry, desk.journal.history(entry.operation_id), answer)
    parts = [("known", said.known), ("evidence", said.evidence), ("unknown", said.unknown)]
    lines = [f"{entry.route}  {entry.partition}  revision {entry.revision}", entry.operation_id]
    for name, sentences in [*parts, ("next", said.next)]:
        lines += [f"{name}:", *(f"  {sentence}" for sentence in sentences)] if sentences else []
    session.print(said, "\n".join(lines))


@app.command()
def reconcile(
    context: typer.Context,
    operation: Operation,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Do not wait for a lease that still runs.")
    ] = False,
    journal: JournalOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Ask and seal, and write what that proves; loads nothing."""
    session = session_of(context, chosen)
    from dpone.fencing.settle import settle_alone

    with ExitStack() as held:
        desk = _desk(held, session, journal)
        entry = desk.entry(operation)
        by = desk.committer(entry)
        settled = settle_alone(by, entry.operation_id, desk.floor(entry), take_over=take_over)
        _print_entry(session, desk, settled)


@app.command()
def resolve(
    context: typer.Context,
    operation: Operation,
    answer: Annotated[
        str,
        typer.Option("--as", help="committed, not-committed, accept-loss or reload."),
    ],
    expect_version: Annotated[int, typer.Option(help="The version that you looked at.")],
    operator: Who,
    why: Why,
    guard: Annotated[
        bool, typer.Option("--guard", help="The operation is a partition under a guard.")
    ] = False,
    journal: JournalOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Answer what the protocol cannot prove; a conclusive fence overrides the answer."""
    session = session_of(context, chosen)
    from dpone.cli.desk import answer_guard, assertion_of

    with ExitStack() as held:
        desk = _desk(held, session, journal)
        if guard:
            count = answer_guard(desk, operation, answer, operator, why)
            session.print(count, f"answered: {count.counts}")
            return
        from dpone.fencing.resolve import resolve as resolved

        entry = desk.entry(operation)
        row = resolved(
            desk.committer(entry),
            entry.operation_id,
            assertion_of(answer),
            expect_version=expect_version,
            operator=operator,
            why=why,
            floor=desk.floor(entry),
        )
        _print_entry(session, desk, row)


@app.command()
def adopt(
    context: typer.Context,
    operator: Who,
    why: Why,
    target: Annotated[
        bool, typer.Option("--target", help="Accept the targets' present incarnations.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Write; otherwise only count.")] = False,
    journal: JournalOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Adopt a restored journal, or with --target a moved, lost or failed-over target.

    No worker may run meanwhile.
    """
    session = session_of(context, chosen)
    from dpone.cli.desk import adopt as adopted

    with ExitStack() as held:
        desk = _desk(held, session, journal)
        done = adopted(desk, of_target=target, apply=apply, operator=operator, why=why)
    _print_counts(session, done.planned, done.counts, done)
    # What the targets did not bear out, or did not say, is for a person to look at.
    raise typer.Exit(4 if done.counts.get("diverged") or done.counts.get("unknown") else 0)


@app.command()
def prune(
    context: typer.Context,
    older_than: Annotated[int, typer.Option(min=0, help="Days since the last change.")],
    route: Annotated[str, typer.Option(help="Only this route.")] = "",
    floor: Annotated[
        str, typer.Option(help="Raise the floor of an ordered route to this position.")
    ] = "",
    apply: Annotated[bool, typer.Option("--apply", help="Write; otherwise only count.")] = False,
    journal: JournalOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Shorten old finished operations to tombstones; fence rows only lose their result."""
    session = session_of(context, chosen)
    from dpone.cli.desk import prune as pruned

    with ExitStack() as held:
        desk = _desk(held, session, journal)
        done = pruned(desk, days=older_than, route=route, floor=floor, apply=apply)
    _print_counts(session, done.planned, done.counts, done)


@app.command()
def check(
    context: typer.Context,
    journal: JournalOption = "",
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Compare journal and fences; report each divergence, write nothing."""
    session = session_of(context, chosen)
    from dpone.cli.desk import check as checked

    with ExitStack() as held:
        found = checked(_desk(held, session, journal))
    rows = [("what", "state", "fence", "operation")]
    rows += [(item.what, item.state, item.fence, item.operation_id) for item in found.findings]
    text = f"{found.asked} operations asked, {len(found.findings)} findings."
    session.print(found, (table_of(rows) + "\n" if found.findings else "") + text)
    raise typer.Exit(found.exit_code)


def _state(row: Listed) -> str:
    """The state, with the mark that says more than it."""
    if row.answered:
        return f"{row.state} (answered: {row.diverged})"
    return f"{row.state} (diverged)" if row.diverged else row.state


def _print_entry(session: Session, desk: Desk, entry: JournalEntry) -> None:
    from dpone.cli.desk import shown

    whole = shown(desk.journal, entry.operation_id)
    row = whole.operation
    lines = [
        f"{row.route}  {row.partition}  revision {row.revision}",
        f"{row.operation_id}  {_state(row)}  version {row.version}",
    ]
    for step in whole.history:
        arrow = f"{step.source or '-'} -> {step.target}" if step.source != step.target else "  *"
        lines.append(f"  {step.version:>3}  {step.at}  {step.event:<22} {arrow}  #{step.attempt}")
    session.print(whole, "\n".join(lines))


def _print_counts(session: Session, planned: bool, counts: dict[str, int], whole: object) -> None:
    words = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"
    session.print(whole, words + (". Nothing was written; add --apply." if planned else "."))
