"""The traces of `tests/cases` (the format is in its README), as far as a streaming query can observe them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

CASES = Path(__file__).resolve().parent / "cases"

Side = Literal["left", "right"]
Value = int | None

TERM = re.compile(r"(left|right)\.(\w+)(?:\s*([+-])\s*(\d+))?|(-?\d+)")
CONJUNCT = re.compile(r"(.+?)\s*(>=|<=|=|>|<)\s*(.+)")
CLOSEST = re.compile(r"(nearest|(.+?)\s*(?:>=|<=|>|<)\s*(.+?))(?:\s+within\s+(\d+))?(\s+not exact)?")


@dataclass
class Closest:
    """The rule of a temporal or an as-of join, in seconds."""

    match: str | None
    exact: bool
    within: int | None
    delete: str | None
    history: int | None
    remembers: int | None

    @property
    def is_temporal(self) -> bool:
        return self.delete is not None or self.history is not None


@dataclass
class Step:
    """One step, and its complete output."""

    line: int
    action: Literal["row", "watermark", "restart"]
    side: Side = "left"
    label: str = ""
    values: dict[str, Value] = field(default_factory=dict)
    column: str = ""
    watermark: int = 0
    expected: list[str] = field(default_factory=list)
    late: int = 0
    state: dict[str, int] | None = None


@dataclass
class Trace:
    """One behaviour, told as a story."""

    name: str
    lines: list[str]
    directives: dict[str, list[str]]
    steps: list[Step]

    @property
    def how(self) -> str:
        return self.directives["join"][0]

    @property
    def layers(self) -> list[str]:
        return self.directives.get("layers", ["core spark python"])[0].split()

    @property
    def fails(self) -> str | None:
        return self.directives.get("fail", [None])[0]

    @property
    def cap(self) -> str | None:
        return self.directives.get("cap", [None])[0]

    def times(self, side: Side) -> list[str]:
        """The event-time columns of a side."""
        return self.directives[side][0].split()

    def columns(self, side: Side) -> list[str]:
        """All columns of a side."""
        named = [match[1] for text in self._on for match in TERM.findall(text) if match[0] == side]
        given = [column for step in self.steps if step.action == "row" and step.side == side for column in step.values]
        return list(dict.fromkeys(self.times(side) + named + given))

    def condition(self) -> str:
        """The join condition in SQL, over the aliases `l` and `r`."""
        return " AND ".join(self._sql(text) for text in self._on)

    @property
    def _on(self) -> list[str]:
        return self.directives.get("on", [])

    @property
    def window(self) -> dict[str, int] | None:
        """The window of a window join as `sj.window_join` takes it, in seconds: `{"following": 600}`."""
        for text in self.directives.get("window", []):
            side, direction, length = text.split()
            assert (side, direction) in {("right", "following"), ("left", "preceding")}, f"{self.name}: {text}"
            return {direction: int(length)}
        return None

    @property
    def closest(self) -> Closest | None:
        """The rule of a temporal or an as-of join."""
        for text in self.directives.get("match", []):
            parts = CLOSEST.fullmatch(text)
            assert parts, f"{self.name}: cannot read the rule {text}"
            match = None if parts[1] == "nearest" else parts[1].replace("left.", "l.").replace("right.", "r.")
            delete = self.directives.get("delete", [None])[0]
            history, remembers = (
                int(self.directives[name][0]) if name in self.directives else None for name in ("history", "remembers")
            )
            within = None if parts[4] is None else int(parts[4])
            return Closest(match, not parts[5], within, delete, history, remembers)
        return None

    def keys(self) -> list[str]:
        """The columns of the right input that have to equal one of the left input."""
        return [column for text in self._on for column in re.findall(r"^left\.\w+ = right\.(\w+)$", text)]

    def has_equality(self) -> bool:
        """Whether a column of one input has to equal a column of the other."""
        conjuncts = [CONJUNCT.fullmatch(text) for text in self._on]
        return any(c and c[2] == "=" and {"left", "right"} <= set(re.findall(r"left|right", c[0])) for c in conjuncts)

    def _sql(self, conjunct: str) -> str:
        parts = CONJUNCT.fullmatch(conjunct)
        assert parts, f"{self.name}: cannot read the condition {conjunct}"
        terms = [TERM.fullmatch(parts[1]), TERM.fullmatch(parts[3])]
        of_times = any(term and term[1] and term[2] in self.times(_side(term[1])) for term in terms)

        def sql(term: re.Match[str] | None) -> str:
            assert term, f"{self.name}: cannot read the condition {conjunct}"
            if term[5]:
                return term[5]
            column = f"{term[1][0]}.{term[2]}"
            if not term[4]:
                return column
            return f"{column} {term[3]} " + (f"INTERVAL {term[4]} SECONDS" if of_times else term[4])

        return f"{sql(terms[0])} {parts[2]} {sql(terms[1])}"

    def at(self, line: int, reason: str) -> str:
        """Return the whole story with an arrow at a line and the reason."""
        shown = [f"{'-->' if n == line else '   '} {n:3}  {text}" for n, text in enumerate(self.lines, start=1)]
        return "\n".join(["", *shown, f"{self.name}, line {line}: {reason}"])


def _side(name: str) -> Side:
    return "left" if name == "left" else "right"


def parse(name: str, text: str) -> Trace:
    """Read a trace."""
    trace = Trace(name, text.splitlines(), {}, [])
    for number, line in enumerate(trace.lines, start=1):
        content = line.split("#")[0].strip()
        directive = re.fullmatch(r"([a-z]+):\s*(.*)", content)
        if directive and not trace.steps:
            trace.directives.setdefault(directive[1], []).append(directive[2])
        elif content:
            _add(trace, number, content)
    return trace


def _add(trace: Trace, number: int, content: str) -> None:
    last = trace.steps[-1] if trace.steps else Step(number, "restart")
    match content.split():
        case ["left" | "right" as given, label, *cells]:
            pairs = [cell.split("=") for cell in cells]
            values = {column: None if value == "null" else int(value) for column, value in pairs}
            trace.steps.append(Step(number, "row", _side(given), label, values))
        case ["watermark", column, value]:
            input_name, name = column.split(".")
            trace.steps.append(Step(number, "watermark", _side(input_name), column=name, watermark=int(value)))
        case ["restart"]:
            trace.steps.append(Step(number, "restart"))
        case ["expect", output]:
            last.expected.append(output)
        case ["late", _]:
            last.late += 1
        case ["emit", _, _]:
            pass  # seen by the core only
        case ["state", *_]:
            left, right = content.removeprefix("state").split("|")
            last.state = {"left": len(left.split()), "right": len(right.split())}
        case _:
            raise ValueError(trace.at(number, "not a line of a trace"))


def cases(layer: str) -> Iterator[Trace]:
    """Yield every case that a layer runs."""
    for path in sorted(CASES.glob("*.trace")):
        trace = parse(path.stem, path.read_text())
        if layer in trace.layers:
            yield trace
