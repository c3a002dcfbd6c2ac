"""Whether a request comes from the page itself, from a program that somebody runs, or from another site's page."""

from collections.abc import Mapping

STARTS = "x-bfl-start"
"""Header of a program that means it: pages of other sites cannot send it"""


def is_own_request(headers: Mapping[str, str]) -> bool:
    """For what costs something, such as an audit: browsers say where a request comes from (`Sec-Fetch-Site`)."""
    return headers.get("sec-fetch-site") == "same-origin" or STARTS in headers


def is_foreign_part(headers: Mapping[str, str]) -> bool:
    """Whether another site's page wants this as a picture, a script, a frame or data: links to it are welcome."""
    is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return is_foreign and headers.get("sec-fetch-mode") != "navigate"
