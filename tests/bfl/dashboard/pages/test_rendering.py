"""From values to HTML."""

import re

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from bfl.dashboard.pages.rendering import cut, environment, error_page, served_report, static, visible
from bfl.dashboard.pages.views.links import Links


def test_what_nobody_sees_is_shown_as_its_number() -> None:
    assert visible("a\u202eb\x00") == "a⟨U+202E⟩b⟨U+0000⟩"
    assert visible("plain ◆ text") == "plain ◆ text"
    assert visible(3) == 3
    assert visible(Markup("<b>\n</b>")) == "<b>\n</b>"


def test_everything_that_a_template_prints_is_escaped_and_visible() -> None:
    made = environment().from_string('<p title="{{ x }}">{{ x }}</p>')
    assert made.render(x="<'\"\u2066") == '<p title="&lt;&#39;&#34;⟨U+2066⟩">&lt;&#39;&#34;⟨U+2066⟩</p>'


def test_a_long_text_is_cut_and_its_title_has_it() -> None:
    assert cut("short", 9) == "short"
    assert str(cut("<" * 12, 3)) == f'<span title="{"&lt;" * 12}">&lt;&lt;&lt;…</span>'


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        environment().from_string("{{ nobody }}").render()


def test_the_address_of_a_file_names_its_content() -> None:
    assert re.fullmatch(r"/static/css/page\.css\?v=[0-9a-f]{12}", static("css/page.css"))


def test_an_error_is_a_page_of_its_own() -> None:
    answer = error_page(404, "found <b>, expected one")
    text = bytes(answer.body).decode()
    assert answer.status_code == 404
    assert "found &lt;b&gt;, expected one" in text
    assert "There is no such page" in text
    assert "Something went wrong here" in bytes(error_page(500, "").body).decode()


def test_a_served_report_links_to_its_styles() -> None:
    text = '<head><meta http-equiv="X" content="y"><title>t</title><style>p{}</style></head><main>told</main>'
    assert served_report(text, Links("a b")).endswith(
        '<link rel="stylesheet" href="/report.css"></head><main><p class="made"><a href="/?run=a+b">‹ back</a> · '
        '<a href="/report?file=1&amp;run=a+b" download>save as one file</a></p>told</main>'
    )
    assert "http-equiv" not in served_report(text, Links())
