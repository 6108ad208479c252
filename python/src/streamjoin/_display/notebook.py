"""DataFrames of a few rows that a notebook shows as a table, without ``show()``."""

from html import escape
from typing import Any

from pyspark.sql import DataFrame


def with_html_table(frame: DataFrame) -> DataFrame:
    """Return the DataFrame; a notebook reads its rows once and shows the columns that have a value."""

    def as_html() -> str:
        rows = [row.asDict() for row in frame.collect()]
        columns = [column for column in frame.columns if any(_text(row[column]) for row in rows)]
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        cells = ("".join(f"<td>{escape(_text(row[column]))}</td>" for column in columns) for row in rows)
        body = "".join(f"<tr>{each}</tr>" for each in cells)
        return f'<table style="white-space: pre-wrap"><tr>{head}</tr>{body}</table>'

    frame._repr_html_ = as_html  # type: ignore[method-assign]
    return frame


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(each)}" for key, each in value.items())
    if isinstance(value, tuple):  # a Row
        return ", ".join(_text(each) or '""' for each in value if each is not None)
    return str(value)
