"""Pictures of the page, for people to look at."""

from pathlib import Path

import httpx
from playwright.sync_api import Browser

from tests.bfl.dashboard.browser.chromium import chromium, visitor
from tests.bfl.dashboard.browser.served import served

_DRAWN_MS = 1500


def take(folder: Path, runs: list[Path]) -> None:
    """Into a folder: every kind of page of the first run, and of the first in which somebody lied."""
    folder.mkdir(parents=True, exist_ok=True)
    with served(*runs) as home, chromium() as browser:
        told = {each.name: httpx.get(f"{home}api/v1/run", params={"run": each.name}).json() for each in runs}
        first = runs[0].name
        liar = next((name for name, each in told.items() if each["offences"]), first)
        offence = httpx.get(f"{home}api/v1/offences", params={"run": liar, "limit": 1}).json()["offences"]
        round_ = offence[0]["round"] if offence else told[liar]["round"]
        shown = {
            "light": f"/?run={first}", "attack": f"/?run={liar}", "rounds": f"/rounds?run={liar}",
            "round": f"/round/{round_}?run={liar}", "network": f"/network?run={liar}",
            "block": f"/block/{round_ + 1}?run={liar}", "participants": f"/participants?run={liar}",
            "compare": "/compare?" + "&".join(f"run={each.name}" for each in runs), "report": f"/report?run={liar}",
            "audit": f"/audit?run={liar}", "server": f"/server/1?run={liar}",
        }  # fmt: skip
        if offence:
            shown["offence"] = f"/offence/{offence[0]['id']}?run={liar}"
        for name, path in shown.items():
            picture(browser, home, path, folder / f"{name}.png")
        picture(browser, home, shown["light"], folder / "dark.png", scheme="dark")
        picture(browser, home, shown["attack"], folder / "attack-dark.png", scheme="dark")
        picture(browser, home, shown["attack"], folder / "phone.png", is_phone=True)
        picture(browser, home, shown["report"], folder / "report-phone.png", is_phone=True)


def picture(browser: Browser, home: str, path: str, to: Path, scheme: str = "light", is_phone: bool = False) -> None:
    """Of the whole page."""
    with visitor(browser, home, is_phone) as somebody:
        somebody.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page = somebody.open(path)
        page.wait_for_timeout(_DRAWN_MS)
        page.screenshot(path=to, full_page=True)
    print(to)
