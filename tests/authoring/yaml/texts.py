"""Draws YAML as text, in the many ways in which people write it, and edits of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.authoring.yaml.judge import BOM, Edit

SCALARS = (
    "on", "no", "010", "1.10", "~", "12:30", "1e3", "null", "true", "7", "2024-01-01", "text",
    "two words", "naïve", "😀", "a#b", "http://x/y", "'it''s'", '"a: b"', '"tab\\tend"', "'# no'",
    "!local x", "!!str 5", '""', "{}", "[]", "[a, 'b']", "{x: 1, y: [2]}", "{ x: 1 }  # flow",
)  # fmt: skip
KEYS = ("a", "b", "dags", "'q r'", '"é"', "x-1", "on", "5", "日本", "owner")
TAILS = ("", "", "", "  # why", " # é 😀", "   ")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9999)
    | st.sampled_from(
        ("no", "on", "010", "1e3", "~", "", " x", "a: b", "# x", "é😀", "l\nm", "plain")
    )
    | st.text(st.characters(codec="utf-8"), max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("k", "no", "1", "a b", "é")), inner, max_size=3)
    ),
    max_leaves=6,
)


class Spot(NamedTuple):
    """What a path reaches. `form` is block, null, flow or placeholder; `shape` map, seq or any."""

    path: tuple[str, ...]
    form: str
    shape: str


class Written(NamedTuple):
    """A document, and what may be edited."""

    data: bytes
    spots: list[Spot]


class Writer:
    """Writes one document line by line; `spots` gets everything that can be extended."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.spots: list[Spot] = []
        self.anchors: list[tuple[str, bool]] = []
        self.named = 0
        self.step = self.pick((2, 2, 4, 3))

    def pick(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) < percent)

    def tail(self) -> str:
        return str(self.pick(TAILS))

    def between(self, column: int) -> None:
        """Blank lines and comments; some of them are indented less or more than what follows."""
        if self.chance(15):
            self.lines.append(self.pick(("", "   ")))
        if self.chance(25):
            indent = self.pick((column, column, 0, column + 2))
            self.lines.append(" " * indent + self.pick(("# note", "#", "# - x: 1", "#é 😀")))

    def spot(self, path: tuple[str, ...] | None, form: str, shape: str) -> None:
        if path is not None:
            self.spots.append(Spot(path, form, shape))

    def anchor(self) -> str:
        """An anchor's name, or nothing; it may be used only when its value is complete."""
        if not self.chance(15):
            return ""
        self.named += 1
        return f"n{self.named}"

    def mapping(self, column: int, path: tuple[str, ...] | None, depth: int) -> None:
        self.spot(path, "block", "map")
        keys = self.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True))
        merged = [name for name, mapping in self.anchors if mapping]
        if merged and self.chance(15):
            self.lines.append(" " * column + f"<<: *{self.pick(merged)}{self.tail()}")
        for key in keys:
            self.between(column)
            text = key.strip("'\"")
            below = None if path is None else (*path, text)
            self.entry(" " * column + f"{key}:", column, below, depth)

    def entry(self, start: str, column: int, path: tuple[str, ...] | None, depth: int) -> None:
        kinds = ["scalar", "scalar", "block", "null", "flow", "lines"]
        kinds += ["map", "map", "seq", "seq"] if depth < 3 else []
        kinds += ["alias"] if self.anchors else []
        kind = self.pick(kinds)
        if kind in ("map", "seq"):
            self.nested(kind, start, column, path, depth)
        elif kind == "alias":
            self.lines.append(f"{start} *{self.pick(self.anchors)[0]}{self.tail()}")
        elif kind == "null":
            self.lines.append(start + self.tail())
            self.spot(path, "null", "any")
        elif kind == "lines":
            self.flow_lines(start, column, path)
        elif kind == "block":
            self.block_scalar(start, column)
        else:
            self.leaf(start, path)

    def nested(
        self, kind: str, start: str, column: int, path: tuple[str, ...] | None, depth: int
    ) -> None:
        name = self.anchor()
        self.open(start + (f" &{name}" if name else ""), column)
        if kind == "map":
            self.mapping(column + self.step, path, depth + 1)
        else:
            self.sequence(column + self.pick((0, self.step)), path, depth + 1)
        if name:
            self.anchors.append((name, kind == "map"))

    def open(self, start: str, column: int) -> None:
        self.lines.append(start + self.tail())
        if self.chance(10):
            self.lines.append(" " * (column + self.step) + "# first")

    def leaf(self, start: str, path: tuple[str, ...] | None) -> None:
        value = self.pick(SCALARS)
        self.lines.append(f"{start} {value}{self.tail()}")
        if value[0] in "{[~":
            form = "placeholder" if value in ("{}", "[]", "~") else "flow"
            self.spot(path, form, {"{": "map", "[": "seq", "~": "any"}[value[0]])
        elif value == "null":
            self.spot(path, "placeholder", "any")

    def flow_lines(self, start: str, column: int, path: tuple[str, ...] | None) -> None:
        inner = " " * (column + self.step)
        opener, closer = self.pick(("{}", "[]"))
        items = ["k: 1", "'l': x"] if opener == "{" else ["one", '"two"']
        comma = self.pick((",", ""))
        self.lines.append(f"{start} {opener}{self.pick(('', '  # open'))}")
        self.lines.append(f"{inner}{items[0]},{self.tail()}")
        self.lines.append(f"{inner}{items[1]}{comma}{self.tail()}")
        self.lines.append(f"{' ' * column if self.chance(50) else inner}{closer}{self.tail()}")
        self.spot(path, "flow", "map" if opener == "{" else "seq")

    def block_scalar(self, start: str, column: int) -> None:
        header = self.pick(("|", ">", "|-", ">-", "|+", ">+"))
        self.lines.append(f"{start} {header}{self.pick(('', '  # kept'))}")
        indent = " " * (column + self.step)
        self.lines.append(indent + self.pick(("text", "é 😀", "key: value", "- dash")))
        if self.chance(40):
            self.lines.append(self.pick((indent + "  more", "", indent + "end")))
        self.lines.extend([""] * self.pick((0, 0, 1, 2)))

    def sequence(self, column: int, path: tuple[str, ...] | None, depth: int) -> None:
        self.spot(path, "block", "seq")
        for _ in range(self.draw(st.integers(1, 3))):
            self.between(column + 1)
            kind = self.pick(("leaf", "leaf", "leaf", "map", "null"))
            if kind == "null":
                self.lines.append(" " * column + "-" + self.tail())
            elif kind == "map" and depth < 4:
                at = len(self.lines)
                self.mapping(column + 2, None, depth + 1)
                self.dash(at, column)
            else:
                self.leaf(" " * column + "-", None)

    def dash(self, at: int, column: int) -> None:
        """Put the dash before the first line of a mapping, or on a line of its own."""
        first = self.lines[at]
        if first.strip() and not first.lstrip().startswith("#"):
            self.lines[at] = first[:column] + "-" + first[column + 1 :]
        else:
            self.lines.insert(at, " " * column + "-")


@st.composite
def documents(draw: Any) -> Written:
    """Draw a document as bytes."""
    writer = Writer(draw)
    head = writer.pick(([], [], [], ["---"], ["# head", ""], ["%YAML 1.1", "---"], ["--- # é"]))
    writer.lines.extend(head)
    if writer.chance(96):
        writer.mapping(0, (), 0)
    else:
        writer.spot((), "null", "any")
    writer.between(0)
    if any("---" in line for line in head) and writer.chance(30):
        writer.lines.append("...")
    ending = writer.pick(("\n", "\n", "\r\n", "\r\n", "\r"))
    text = ending.join(writer.lines) + (ending if writer.chance(75) else "")
    data = (BOM if writer.chance(20) else b"") + text.encode("utf-8")
    return Written(data, writer.spots)


@st.composite
def edits(draw: Any, written: Written) -> tuple[Edit, Spot]:
    """Draw an edit of a document that mostly fits the place's shape."""
    spot = draw(st.sampled_from(written.spots))
    if spot.shape == "map" and draw(st.integers(0, 6)) == 0:
        spot = Spot((*spot.path, "missing", "more"), spot.form, "any")
    keys: list[str | None] = ["new", "no", "a b", "neu: é", "😀"]
    if spot.shape == "any" or draw(st.integers(0, 19)) == 0:
        keys.append(None)
    elif spot.shape == "seq":
        keys = [None]
    return Edit(spot.path, draw(st.sampled_from(keys)), draw(VALUES)), spot
