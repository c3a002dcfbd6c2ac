"""The rule book: every rule that code, tests or documents cite is defined in docs/spec, once; the index leads to it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
BOOK = REPOSITORY / "docs" / "spec"
FOLDERS = ("bfl", "benchmarks", "chain", "clients", "docs", "edge_servers", "policy", "tests")
SUFFIXES = {".md", ".py", ".vy"}

DEFINITION = re.compile(r"^- \*\*([A-Z]\d{1,2})\*\* ", re.MULTILINE)
# A capital letter and one or two digits, standing alone; with a second one behind a dash all rules in between.
CITATION = re.compile(r"\b([A-Z])(\d{1,2})(?:[-–]\1(\d{1,2}))?\b")
NO_RULES = {
    "N0",  # the noise's power spectral density, a symbol of the paper
    "S0",  # server 0, in a picture
    "M0",
    "M62",  # where the paths of pictures begin
}


def defined_rules(page: str) -> list[str]:
    """The rules that a page of the book defines, as often as it does."""
    return DEFINITION.findall(page)


def cited_rules(text: str) -> set[str]:
    """The rules that a text cites; a range cites its ends and all between them."""
    found: set[str] = set()
    for letter, first, last in CITATION.findall(text):
        found |= {f"{letter}{number}" for number in range(int(first), int(last or first) + 1)}
    return found - NO_RULES


def faults(pages: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    """What is wrong with a book and the texts that cite it, in words."""
    times = Counter(rule for page in pages for rule in defined_rules(page))
    doubled = [f"{rule} is defined {count} times, expected once" for rule, count in sorted(times.items()) if count > 1]
    return doubled + [
        f"{name} cites {rule}, which docs/spec does not define"
        for name, text in texts.items()
        for rule in sorted(cited_rules(text) - times.keys())
    ]


def texts_of_the_repository() -> dict[str, str]:
    """Everything that may cite a rule but this file, which makes some up."""
    found = [*REPOSITORY.glob("*.md"), *(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*"))]
    return {
        str(path.relative_to(REPOSITORY)): path.read_text(encoding="utf-8")
        for path in sorted(found)
        if path.suffix in SUFFIXES and path != Path(__file__)
    }


def pages_of_the_book() -> list[str]:
    return [page.read_text(encoding="utf-8") for page in sorted(BOOK.glob("*.md"))]


def test_every_cited_rule_is_defined_once() -> None:
    texts = texts_of_the_repository()
    cited = set[str]().union(*map(cited_rules, texts.values()))
    assert {"A28", "C5", "L7", "P13", "S24"} <= cited, "the search has lost its way"
    assert faults(pages_of_the_book(), texts) == []


def test_a_rule_that_is_not_defined_is_found() -> None:
    texts = {"round.py": '"""Closes the list (P4); Eq. 8 (L7)."""', "seal.py": "# sealed by Q7"}
    book = ["# P\n\n- **P4** *The list.* ...\n", "- **L7** *Aggregation* (eq. 8). ...\n"]
    assert faults(book, texts) == ["seal.py cites Q7, which docs/spec does not define"]


def test_a_rule_that_is_defined_twice_is_found_on_one_page_and_on_two() -> None:
    page = "- **P4** *The list.* ...\n- **P5** *Order.* ...\n"
    expected = ["P4 is defined 2 times, expected once"]
    assert faults([page + "- **P4** *Again.* ...\n"], {}) == expected
    assert faults([page, "- **P4** *Again.* ...\n"], {}) == expected


def test_mentions_are_no_definitions() -> None:
    page = "As **P4** says.\n  - **P5** deeper\n- P6 plain\n`- **P7** quoted`\n- **P8** *One.*\n"
    assert defined_rules(page) == ["P8"]


def test_ranges_cite_what_lies_between_and_other_words_cite_nothing() -> None:
    assert cited_rules("S9-S12, P8–P9 and L3") == {"S9", "S10", "S11", "S12", "P8", "P9", "L3"}
    assert cited_rules("N0, M = 3, EIP-1559, SHA256, P384, 0xA1, F401, x_L2, utf8, H100B, v2, T_off") == set()


def test_every_exception_is_still_needed() -> None:
    everything = "\n".join([*texts_of_the_repository().values(), *pages_of_the_book()])
    assert {word for word in NO_RULES if re.search(rf"\b{word}\b", everything)} == NO_RULES


def test_the_index_leads_to_every_document() -> None:
    documents = REPOSITORY / "docs"
    index, records = documents / "index.md", documents / "adr" / "README.md"
    wanted = {*documents.glob("*.md"), *BOOK.glob("*.md"), records} - {index}
    assert wanted - linked_from(index) == set()
    assert set((documents / "adr").glob("0*.md")) - linked_from(records) == set()


def linked_from(page: Path) -> set[Path]:
    """The files that a page links to."""
    targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    return {(page.parent / target).resolve() for target in targets if "://" not in target}
