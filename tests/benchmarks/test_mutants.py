"""Which mutants come out of a source."""

import ast

import pytest

from benchmarks.mutants import REPOSITORY, TESTS, Mutant, mutants_of, sample

SOURCE = '''\
"""Text with 1 < 2."""


def check_age(ages, limit=3):
    """Umlauts before the place: ä."""
    for ä, age in ages:
        if not (ä and 0 <= age < limit):
            raise ValueError(f"found {age + 1}, expected at most {limit == 3}")
    _check_order(ages)
    ages.check_rest()
    checked = check_sum(ages)
    return True, checked is None
'''


def faults(source: str) -> list[tuple[int, str]]:
    return [(mutant.line, mutant.what) for mutant in mutants_of(source)]


def changed_line(source: str, mutant: Mutant) -> str:
    """The only line that differs."""
    pairs = zip(source.splitlines(), mutant.source.splitlines(), strict=True)
    (found,) = (new for old, new in pairs if old != new)
    return found.strip()


def test_every_fault_comes_out_once_and_none_of_a_text() -> None:
    condition = "ä and 0 <= age < limit"
    assert faults(SOURCE) == [
        (4, "3 to 4"),
        (7, f"no not in not ({condition})"),
        (7, f"and to or in {condition}"),
        (7, "<= to < in 0 <= age < limit"),
        (7, "< to <= in 0 <= age < limit"),
        (7, "0 to 1"),
        (8, "no raise ValueError(f'found {age + 1}, expected at most {limit == 3}')"),
        (9, "no _check_order(ages)"),
        (10, "no ages.check_rest()"),
    ]


def test_a_fault_is_where_it_says_and_nothing_else_changes() -> None:
    assert [changed_line(SOURCE, mutant) for mutant in mutants_of(SOURCE)] == [
        "def check_age(ages, limit=4):",
        "if (ä and 0 <= age < limit):",
        "if not ((ä or 0 <= age < limit)):",
        "if not (ä and (0 < age < limit)):",
        "if not (ä and (0 <= age <= limit)):",
        "if not (ä and 1 <= age < limit):",
        "pass",
        "pass",
        "pass",
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", "(a <= b)"),
        ("a <= b", "(a < b)"),
        ("a > b", "(a >= b)"),
        ("a >= b", "(a > b)"),
        ("a == b", "(a != b)"),
        ("a != b", "(a == b)"),
        ("a or b or c", "(a and b and c)"),
        ("f(not a)", "f((a))"),
        ("x = 255", "x = 256"),
    ],
)
def test_each_operator_has_its_opposite(source: str, expected: str) -> None:
    assert [mutant.source for mutant in mutants_of(source)] == [expected]


@pytest.mark.parametrize("source", ["a is b", "a in b", "True", "1.5", "'1'", "say_check()", "x = check_it()", "-a"])
def test_the_rest_is_left_alone(source: str) -> None:
    assert mutants_of(source) == []


def test_a_fault_over_several_lines_leaves_what_is_around_it() -> None:
    source = "if (\n    a  # first\n    and b\n):\n    raise E(\n        1\n    )\nlast()\n"
    both, error, one = (mutant.source for mutant in mutants_of(source))
    assert both == "if (\n    (a or b)\n):\n    raise E(\n        1\n    )\nlast()\n"
    assert error == "if (\n    a  # first\n    and b\n):\n    pass\nlast()\n"
    assert one == source.replace("1", "2")


@pytest.mark.parametrize("module", TESTS)
def test_a_mutant_of_a_module_is_python_and_another_text(module: str) -> None:
    source = (REPOSITORY / module).read_text(encoding="utf-8")
    mutants = sample(mutants_of(source), 5, module)
    assert len(mutants) == 5
    for mutant in mutants:
        ast.parse(mutant.source)
        assert mutant.source != source


@pytest.mark.parametrize("tests", TESTS.values(), ids=TESTS)
def test_the_tests_that_are_to_catch_them_exist(tests: tuple[str, ...]) -> None:
    files = [each for each in tests if each.endswith(".py")]
    assert 1 <= len(files) <= 5
    assert [each for each in files if not (REPOSITORY / each).is_file()] == []


def test_a_seed_gives_the_same_sample_in_order() -> None:
    mutants = mutants_of(SOURCE)
    assert sample(mutants, 4, "0") == sample(mutants, 4, "0")
    assert len({tuple(m.what for m in sample(mutants, 4, str(seed))) for seed in range(20)}) > 1
    assert [m.line for m in sample(mutants, 5, "1")] == sorted(m.line for m in sample(mutants, 5, "1"))
    assert sample(mutants, 99, "0") == mutants
