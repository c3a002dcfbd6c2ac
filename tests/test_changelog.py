"""The changelog's form, which is also that of the tags: `## 1.2.3` is tagged `v1.2.3` with its section as text."""

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
CHANGELOG = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)


def recipe() -> str:
    """The commands of CONTRIBUTING.md that tag a release."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return "\n".join(line.strip() for line in re.findall(r"^ {4}(?:version=|sed .*git tag).*$", text, re.MULTILINE))


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@invalid"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_is_a_version_and_nothing_else(heading: str) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", heading)


def test_versions_are_unique_and_the_newest_comes_first() -> None:
    versions = [tuple(map(int, heading.split("."))) for heading in HEADINGS]
    assert versions == sorted(set(versions), reverse=True)


@pytest.mark.parametrize("version", HEADINGS)
def test_the_documented_commands_tag_a_release_with_its_section(tmp_path: Path, version: str) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "all of it"]):
        git(tmp_path, *command)
    commands = re.sub(r"version=\S+", f"version={version}", recipe())
    assert "git tag" in commands
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    environment |= {"GIT_COMMITTER_NAME": "nobody", "GIT_COMMITTER_EMAIL": "nobody@invalid"}
    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, env=environment, check=True)
    assert git(tmp_path, "cat-file", "-t", f"v{version}") == "tag"
    section = CHANGELOG.split(f"## {version}\n")[1].split("\n## ")[0].strip()
    assert git(tmp_path, "tag", "-l", "--format=%(contents)", f"v{version}") == section
