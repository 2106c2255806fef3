"""The judge finds each seeded defect, and the proof inside keeps most of them from the file."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest
import yaml

from dpone.adapters.yamlfile.composing import Document
from dpone.adapters.yamlfile.documents import YamlDocuments
from dpone.adapters.yamlfile.locating import Locator
from dpone.adapters.yamlfile.splicing import Splice, Splicer
from dpone.contracts.errors_yaml import YamlError
from tests.authoring.yaml.corpus import CASES, Case, variants
from tests.authoring.yaml.judge import BOM, Edit, faults
from tests.authoring.yaml.test_edits import edited

SHARED = Case("dags: &x\n  a: 1\nb: *x\n", Edit(("dags",), "new", 1))


class Unproved(YamlDocuments):
    """Believes every splice."""

    def _proved(self, data: bytes, result: bytes, splicer: Splicer, splices: Any) -> bool:
        return True


class TooDeep(Unproved):
    class splicer(Splicer):  # noqa: N801
        def indented(self, column: int) -> list[str]:
            return super().indented(column + 1)


class AtTheLeft(Unproved):
    class splicer(Splicer):  # noqa: N801
        def indented(self, column: int) -> list[str]:
            return super().indented(0)


class LostReturn(Unproved):
    class splicer(Splicer):  # noqa: N801
        ending = "\n"


class BehindOuterComments(Unproved):
    class splicer(Splicer):  # noqa: N801
        def behind(self, end: int, inside: int) -> int:
            return super().behind(end, 0)


class BeforeInnerComments(Unproved):
    class splicer(Splicer):  # noqa: N801
        def behind(self, end: int, inside: int) -> int:
            return super().behind(end, 99)


class IntoTheScalar(Unproved):
    class splicer(Splicer):  # noqa: N801
        def before_blank(self, end: int) -> int:
            return self.line_start(end - 1)


class Unquoted(Unproved):
    class splicer(Splicer):  # noqa: N801
        def rendered(self) -> list[str]:
            return [line.replace('"', "") for line in super().rendered()]


class NoComma(Unproved):
    class splicer(Splicer):  # noqa: N801
        def extend_flow(self, node: Any) -> tuple[Splice, ...]:
            return tuple(
                splice._replace(text=splice.text.replace(",", "", 1))
                for splice in super().extend_flow(node)
            )


class LostMark(Unproved):
    def _joined(self, document: Document, splices: tuple[Splice, ...]) -> bytes:
        return super()._joined(document, splices).removeprefix(BOM)


class EndsTheFile(Unproved):
    def _joined(self, document: Document, splices: tuple[Splice, ...]) -> bytes:
        return super()._joined(document, splices).rstrip(b"\r\n") + b"\n"


class CountsBytes(Unproved):
    def _joined(self, document: Document, splices: tuple[Splice, ...]) -> bytes:
        def moved(at: int) -> int:
            return len(document.text[:at].encode())

        return super()._joined(
            document, tuple(Splice(moved(one.at), moved(one.stop), one.text) for one in splices)
        )


class DropsComments(Unproved):
    def _joined(self, document: Document, splices: tuple[Splice, ...]) -> bytes:
        lines = super()._joined(document, splices).splitlines(keepends=True)
        return b"".join(line for line in lines if not line.lstrip().startswith(b"#"))


class WritesAnew(Unproved):
    def _joined(self, document: Document, splices: tuple[Splice, ...]) -> bytes:
        value = yaml.safe_load(super()._joined(document, splices))
        text: str = yaml.safe_dump(value, sort_keys=False)
        return text.encode()


class FollowsAnchors(Unproved):
    class locator(Locator):  # noqa: N801
        def __init__(self, document: Document, path: tuple[str, ...]) -> None:
            super().__init__(dataclasses.replace(document, shared=frozenset()), path)


class Defects:
    """Every seeded defect; `Unproved` alone is one too."""

    ALL: ClassVar[tuple[type[YamlDocuments], ...]] = (
        Unproved, TooDeep, AtTheLeft, LostReturn, BehindOuterComments, BeforeInnerComments,
        IntoTheScalar, Unquoted, NoComma, LostMark, EndsTheFile, CountsBytes, DropsComments,
        WritesAnew, FollowsAnchors,
    )  # fmt: skip
    # What these get wrong is no value and no line of the file: only the judge can see it.
    OF_FORM: ClassVar[tuple[type[YamlDocuments], ...]] = (
        TooDeep, LostReturn, BehindOuterComments, BeforeInnerComments, FollowsAnchors,
    )  # fmt: skip


def found(by: YamlDocuments) -> list[str]:
    """What the judge finds in the corpus; a refusal counts as nothing here."""
    result: list[str] = []
    for case in (*CASES, SHARED):
        for _, data in variants(case):
            try:
                after = edited(data, case.edit, by)
            except (YamlError, yaml.YAMLError):
                continue
            result += faults(data, after, case.edit, case.one_line)
    return result


@pytest.mark.parametrize("defect", Defects.ALL, ids=lambda defect: defect.__name__)
def test_the_judge_finds_the_defect(defect: type[YamlDocuments]) -> None:
    assert found(defect()) != []


def test_the_judge_finds_nothing_without_a_defect() -> None:
    assert found(YamlDocuments()) == []


@pytest.mark.parametrize(
    "defect",
    [defect for defect in Defects.ALL if defect not in Defects.OF_FORM],
    ids=lambda defect: defect.__name__,
)
def test_the_proof_refuses_what_the_defect_makes(defect: type[YamlDocuments]) -> None:
    class Proved(defect):  # type: ignore[valid-type, misc]
        _proved = YamlDocuments._proved

    # How the added lines end is form too.
    assert [fault for fault in found(Proved()) if fault != "line endings"] == []
