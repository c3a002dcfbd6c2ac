"""What an address may ask for."""

import pytest
from starlette.requests import Request

from bfl.dashboard.errors import NotFoundError, RequestRefusedError
from bfl.dashboard.pages import asked


def request(query: str, **path: str) -> Request:
    return Request({"type": "http", "query_string": query.encode(), "path_params": path, "headers": []})


def test_numbers_are_read() -> None:
    assert asked.number_in_query(request("round=12"), "round") == 12
    assert asked.number_in_query(request(""), "round") is None
    assert asked.page_in_query(request("")) == 1
    assert asked.number_in_path(request("", number="7"), "round") == 7


@pytest.mark.parametrize("given", ["-1", "1.5", "1e3", "", "x", "1234567890", "0x1", "٣"])
def test_other_numbers_are_refused(given: str) -> None:
    with pytest.raises(NotFoundError, match="expected a whole number"):
        asked.number_in_path(request("", number=given), "round")


def test_texts_and_runs_have_bounds() -> None:
    assert asked.text_in_query(request("q=+a+"), "q") == "a"
    with pytest.raises(RequestRefusedError, match="at most 200"):
        asked.text_in_query(request(f"q={'x' * 201}"), "q")
    assert asked.runs_in_query(request("run=a&run=b")) == ["a", "b"]
    with pytest.raises(RequestRefusedError, match="at most 20"):
        asked.runs_in_query(request("&".join(["run=a"] * 21)))
