"""Each numbered program of `examples` prints what its docstring promises."""

import re
from fnmatch import fnmatchcase

import pytest
from conftest import ROOT, together

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))

# Expected lines of output; * matches anything.
PRINTED = {
    "01_rate_source.py": """
|ad|shown|clicked_ad|clicked|
|0|*|0|*|
|3|*|3|*|
|6|*|6|*|
|9|*|9|*|
|12|*|12|*|
""",
    "02_sql.py": """
|id|ordered|delivered|
|1|2026-01-01 10:00:00|2026-01-01 10:40:00|
|2|2026-01-01 10:05:00|NULL|
|3|2026-01-01 15:00:00|2026-01-01 15:20:00|
""",
    "03_rejected_and_fixed.py": """
Rejected with STREAMJOIN_UNBOUNDED:
*
Add a bound, for example:
deliveries.delivered BETWEEN orders.ordered - INTERVAL 1 HOUR AND orders.ordered + INTERVAL 1 HOUR
*
|id|ordered|order_id|delivered|
|1|2026-01-01 10:00:00|1|2026-01-01 10:40:00|
|3|2026-01-01 15:00:00|3|2026-01-01 15:20:00|
""",
    "04_late_rows.py": """
|column|watermark|row|
|ordered|2026-01-01T14:50:00Z|{"id":4,"ordered":"2026-01-01T10:05:00.000000Z"}|
""",
    "05_three_streams.py": """
|join|side|input|column|bound|keeps|*
|1|left|orders|ordered|deliveries.delivered <= orders.ordered + 1 hour|orders kept 1 hour|*
|2|right|returns|returned|deliveries.delivered <= returns.returned|returns kept 0 seconds|*
|id|ordered|delivered|returned|
|1|2026-01-01 10:00:00|2026-01-01 10:40:00|2026-01-01 11:00:00|
|2|2026-01-01 10:05:00|NULL|NULL|
join 1: watermarkMs.left.ordered is 14:50
join 1: watermarkMs.right.delivered is 15:10
join 2: watermarkMs.left.delivered is 14:50
join 2: watermarkMs.left.ordered is 14:10
join 2: watermarkMs.right.returned is 12:50
""",
    "06_foreach_batch.py": """
batch 0 is written
The query failed, and starts again from its checkpoint.
batch 0 is written
*
|1|2026-01-01 10:00:00|1|2026-01-01 10:40:00|0|
|3|2026-01-01 15:00:00|3|2026-01-01 15:20:00|0|
""",
    "07_sql_file.py": """
|id|ordered|delivered|
|1|2026-01-01 10:00:00|2026-01-01 10:40:00|
|2|2026-01-01 10:05:00|NULL|
|3|2026-01-01 15:00:00|2026-01-01 15:20:00|
""",
    "08_delta_join.py": """
|id|customer|total|city|_diff|
|1|Ada|30|Paris|1|
|2|Eve|50|Rome|1|
|id|customer|total|city|_diff|
|1|Ada|30|Paris|-1|
|1|Ada|30|Oslo|1|
|id|customer|total|city|_diff|
|1|Ada|30|Oslo|-1|
|2|Eve|50|Rome|-1|
""",
    "09_temporal_join.py": """
|id|item|ordered|price|
|3|lamp|2026-01-01 09:59:00|20|
|1|lamp|2026-01-01 10:00:00|25|
|2|lamp|2026-01-01 12:30:00|NULL|
""",
    "10_table.py": """
|id|customer|city|
|1|Ada|Paris|
|2|Bob|NULL|
|id|customer|city|
|3|Ada|Oslo|
|4|Bob|Bern|
""",
}


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What each program prints, without the rules and the padding of tables."""
    printed = together([str(example)] for example in EXAMPLES)
    return {example.name: "\n" + without_rules(text) for example, text in zip(EXAMPLES, printed, strict=True)}


def without_rules(text: str) -> str:
    lines = [re.sub(r" *\| *", "|", line) for line in text.splitlines() if line.strip("+-")]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("name", [example.name for example in EXAMPLES])
def test_example(printed: dict[str, str], name: str) -> None:
    assert fnmatchcase(printed[name], f"*{PRINTED[name]}*"), printed[name]
