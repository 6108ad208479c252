"""Generates the tables of figures in the docs and their JSON schema from ``figures.json``, in ``make format``."""

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
DEFINED: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (DOCS.parent / "python" / "src" / "streamjoin" / "figures.json").read_text(encoding="utf-8")
)
TABLE = re.compile(r"(?<=<!-- figures: )(\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)
SCHEMA = re.compile(r'(?<=^    ")(operator|input)Figures": \{\n.*?^    \},$', re.DOTALL | re.MULTILINE)


def progress_names(name: str, figure: dict[str, Any]) -> list[str]:
    """Return the names of a figure in the progress; the name of a figure per column is followed by the column."""
    sides = ("left", "right") if figure.get("per") in ("side", "input") else ()
    return [side + name[0].upper() + name[1:] for side in sides] or [name]


def batch_fields(level: str) -> dict[str, dict[str, Any]]:
    """Return the figures by their fields in ``operators`` or ``inputs`` in the figures of a batch."""
    of = [(path.split("."), figure) for figure in DEFINED["operator"].values() for path in figure.get("json", ())]
    return {field: figure for (found, field), figure in of if found == level}


def table(section: str) -> str:
    """Return the table for a section of the file; the table of ``metrics`` also has the figures of a batch."""
    figures = dict(DEFINED[section])
    if section == "metrics":
        for level in ("operators", "inputs"):
            for field, figure in batch_fields(level).items():
                name = field + ("Total" if figure["span"] == "batch" else "")
                of = figures[name]["of"] if name in figures else []
                figures[name] = {"of": [*of, level[:-1]], "unit": figure["unit"], "meaning": figure["meaning"]}
    columns = [name for name in ("of", "unit", "span") if any(name in figure for figure in figures.values())]
    columns = [name for name in columns if (section, name) != ("metrics", "span")]
    lines = [["metric", *columns, "meaning"], ["---"] * (len(columns) + 2)]
    for name, figure in figures.items():
        names = ", ".join(f"`{each}`" for each in progress_names(name, figure))
        cells = {**figure, "of": ", ".join(figure.get("of", ["all"])).replace("_", " ")}
        column = ".*side*.*column*" if figure.get("per") == "column" else ""
        lines.append(
            [names + column, *(cells[each] for each in columns), figure["meaning"] + figure.get("details", "")]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace(" --- ", "---")


def schema(level: str) -> str:
    """Return the schema of the figures of an operator or an input."""
    fields = {name: {"$ref": "#/$defs/count", "description": it["meaning"]} for name, it in batch_fields(level).items()}
    lines = ",\n".join(f"        {json.dumps(name)}: {json.dumps(field)}" for name, field in fields.items())
    return f'{{\n      "properties": {{\n{lines}\n      }}\n    }},'


def written() -> dict[Path, str]:
    """Return the files with tables of figures, with their expected contents."""
    files = [DOCS / name for name in ("reference.md", "monitoring.md", "figures.schema.json")]
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    texts = {file: TABLE.sub(lambda at: f"{at[1]} -->\n\n{table(at[1])}\n", text) for file, text in texts.items()}
    return {
        file: SCHEMA.sub(lambda at: f'{at[1]}Figures": {schema(at[1] + "s")}', text) for file, text in texts.items()
    }


if __name__ == "__main__":
    for file, text in written().items():
        file.write_text(text, encoding="utf-8")
