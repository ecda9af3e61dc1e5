# SPDX-License-Identifier: Apache-2.0
"""Titles and tables as text and as HTML."""

import re

from tfjax_batches.text.description import Description, Table, facts

DESCRIPTION = Description(
    "A <title>",
    (
        facts(steps="22", remainder="", order="none"),
        Table(
            header=("process", "rows", "bytes"),
            rows=(("0", "0–3", "4,096 B"), ("<9>", "4–7", "64 B")),
        ),
        Table(rows=()),
    ),
)


def test_str_aligns_columns_and_leaves_out_what_is_empty() -> None:
    assert str(DESCRIPTION) == (
        "A <title>\n"
        "  steps  22\n"
        "  order  none\n"
        "\n"
        "  process  rows    bytes\n"
        "  0        0–3   4,096 B\n"
        "  <9>      4–7      64 B"
    )


def test_html_holds_the_cells_of_the_text_escaped() -> None:
    text = DESCRIPTION._repr_html_()
    assert "A &lt;title&gt;" in text
    assert "<title>" not in text
    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", text)
    assert cells == [
        *("steps", "22", "order", "none"),
        *("process", "rows", "bytes", "0", "0–3", "4,096 B", "&lt;9&gt;", "4–7", "64 B"),
    ]
    assert text.count("<table") == text.count("</table>") == 2


def test_html_reads_well_on_light_and_on_dark() -> None:
    """Neither text nor background has a colour of its own; lines are grey and see-through."""
    styles = ";".join(re.findall(r'style=["\'](.*?)["\']', DESCRIPTION._repr_html_()))
    properties = dict(re.findall(r"([\w-]+):([^;]+)", styles))
    assert not properties.keys() & {"color", "background", "background-color"}
    assert "rgba(128,128,128" in properties["border-bottom"]
