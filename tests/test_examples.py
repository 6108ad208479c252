"""Each numbered program of `examples` prints the lines of its file in `printed`, where * stands for any text."""

import re
from fnmatch import fnmatchcase

import pytest
from conftest import ROOT, together

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """Return what each program prints, without the rules and the padding of tables."""
    texts = together([str(example)] for example in EXAMPLES)
    return {example.stem: "\n" + without_rules(text) for example, text in zip(EXAMPLES, texts, strict=True)}


def without_rules(text: str) -> str:
    lines = [re.sub(r" *\| *", "|", line) for line in text.splitlines() if line.strip("+-")]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("name", [example.stem for example in EXAMPLES])
def test_example(printed: dict[str, str], name: str) -> None:
    expected = (ROOT / "tests" / "printed" / f"{name}.txt").read_text(encoding="utf-8")
    assert fnmatchcase(printed[name], f"*\n{expected}*"), printed[name]
