# SPDX-License-Identifier: Apache-2.0
"""A description: a title and a few tables, as text for terminals and as HTML for notebooks."""

import dataclasses
import html
import re

# Grey is visible on light and dark backgrounds; text keeps the colour of the notebook.
_LINE = "1px solid rgba(128,128,128,.45)"
_CELL = "text-align:{align};vertical-align:top;padding:.1em 1.2em .1em 0;border:0;{more}"
_NUMBER = re.compile(r"(-?[\d,.]+( [KMGTP]?B)?|varies)?")


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells.

    Attributes:
        rows: Cells of each row; all rows have the same number.
        header: Names of the columns. Empty for facts, whose first column holds names.
    """

    rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...] = ()

    def to_lines(self) -> list[str]:
        """Return the lines of the table as text, its columns aligned."""
        rows = [*([self.header] if self.header else []), *self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = [
                cell.rjust(width) if align == "right" else cell.ljust(width)
                for cell, width, align in zip(row, widths, self._aligns(), strict=True)
            ]
            lines.append(f"  {'  '.join(cells)}".rstrip())
        return lines

    def to_html(self) -> str:
        """Return the table as HTML."""
        aligns = self._aligns()
        head = _row_html("th", self.header, aligns, f"border-bottom:{_LINE};font-weight:600")
        body = "".join(_row_html("td", row, aligns) for row in self.rows)
        head = f"<thead>{head}</thead>" if self.header else ""
        style = "border-collapse:collapse;margin:.3em 0"
        return f"<table style='{style}'>{head}<tbody>{body}</tbody></table>"

    def _aligns(self) -> list[str]:
        """Return the side of each column: right for numbers, except in the first column."""
        _, *columns = zip(*self.rows, strict=True)
        is_number = [self.header and all(map(_NUMBER.fullmatch, column)) for column in columns]
        return ["left", *("right" if right else "left" for right in is_number)]


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """A title and tables, for people. `str` gives text; notebooks show HTML.

    Attributes:
        title: One line.
        tables: Tables below it.
    """

    title: str
    tables: tuple[Table, ...] = ()

    def __str__(self) -> str:
        blocks = ["\n".join(table.to_lines()) for table in self.tables if table.rows]
        return "\n".join([self.title, "\n\n".join(blocks)]).rstrip()

    def _repr_html_(self) -> str:
        tables = "".join(table.to_html() for table in self.tables if table.rows)
        return f"<div><b>{html.escape(self.title)}</b>{tables}</div>"


def facts(**named: str) -> Table:
    """Return a table of names and texts; empty texts are left out.

    Example:
        >>> facts(steps="22", remainder="").rows
        (('steps', '22'),)
    """
    return Table(rows=tuple((name, text) for name, text in named.items() if text))


def _row_html(tag: str, cells: tuple[str, ...], aligns: list[str], more: str = "") -> str:
    parts = [
        f'<{tag} style="{_CELL.format(align=align, more=more)}">{html.escape(cell)}</{tag}>'
        for cell, align in zip(cells, aligns, strict=bool(cells))
    ]
    return f"<tr>{''.join(parts)}</tr>"
