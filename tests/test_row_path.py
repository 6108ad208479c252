"""A task knows its spec, and no plan."""

import re

import pytest
from row_path import PACKAGE, PHYSICAL, TASKS, Classes, classes, files, jar, of_task, path_of, plans


@pytest.fixture(scope="module")
def known() -> Classes:
    return classes(jar())


@pytest.mark.parametrize("task", TASKS)
def test_no_class_of_a_task_depends_on_a_plan(task: str, known: Classes) -> None:
    needed = of_task(task, known)
    assert len(files(needed)) > 20
    assert list(plans(needed, known)) == []


@pytest.mark.parametrize("package", ["state", "time"])
def test_no_class_of_state_or_time_depends_on_a_physical_plan(package: str, known: Classes) -> None:
    inside = [one for one in known if re.match(re.escape(f"{PACKAGE}{package}.") + "[A-Z]", one)]
    assert len(inside) > 10
    assert [one for one in inside if PHYSICAL in known[one]] == []


def test_a_plan_is_found_from_an_operator(known: Classes) -> None:
    needed = path_of([f"{PACKAGE}joins.interval.IntervalJoinExec"], known)
    assert any(way.endswith("operator.StatefulNodeExec") for way in plans(needed, known))
