"""Text from outside, made harmless for GitHub's Markdown: it says what it says, and does nothing.

A model's hypothesis, a compiler's message or a spec's title must not mention people, close or refer to issues, link, or bring
HTML, tables or headings into a page. GitHub looks for mentions and references after rendering, so a backslash does not stop
them: an invisible word joiner breaks them, and what is left of Markdown is escaped.
"""

from __future__ import annotations

import re
import unicodedata

JOINER = "\u2060"
# Control, separator and invisible direction characters, and what is no character.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn")

# What GitHub (and any program that links bare addresses) acts on in rendered text: each is broken after its first part.
_ACTIVE = re.compile(
    r"""
    @(?=[A-Za-z0-9_-])                     # @person, @org/team, person@example.org
  | \#(?=[0-9])                            # #12, owner/repository#12
  | (?<![^\W_])[Gg][Hh](?=-[0-9])          # GH-12
  | :(?=//)                                # https://…, any scheme
  | (?<![^\W_])[Ww][Ww][Ww](?=\.)          # www.…, which GitHub links behind a _ too
  | (?<![^\W_])(?:[Mm][Aa][Ii][Ll][Tt][Oo]|[Xx][Mm][Pp][Pp])(?=:)
  | :(?=[0-9_+-]*[A-Za-z_][A-Za-z0-9_+-]*:|[+-]1:)   # :emoji:, and not file:3:1:
  | <(?=!--)                               # a hidden comment, which could pass for a marker even in a code block
    """,
    re.VERBOSE,
)
_SIGNS = re.compile(r"[\\`*_{}\[\]<>#!|~$&]")
# What makes a list, a rule or an underlined heading at the beginning of a line only.
_LEADING = re.compile(r"^([0-9]{1,9})?([-+=.)])")


def escape(text: str, limit: int = 2000) -> str:
    """`text` on one line, to stand in a paragraph, list item or table cell. Cut after `limit` characters with an ellipsis."""
    line = _SIGNS.sub(r"\\\g<0>", inert(one_line(text, limit)))
    return _LEADING.sub(r"\1\\\2", line)


def code(text: str, limit: int = 2000, *, cell: bool = False) -> str:
    """`text` on one line as a code span, in a table `cell` or elsewhere. Empty text gives an empty string, since no span is empty."""
    line = inert(one_line(text, limit))
    if not line:
        return ""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    # One space on each side is dropped by the reader; it keeps backticks at the ends.
    padded = f" {line} " if "`" in (line[0], line[-1]) else line
    span = f"{fence}{padded}{fence}"
    # A cell's bar is escaped even in a code span, and there only: elsewhere the backslash would show.
    return span.replace("|", "\\|") if cell else span


def block(text: str, language: str = "") -> str:
    """`text` with its lines as a fenced code block."""
    lines = "\n".join(inert(one_line(line, 4000, strip=False)) for line in text.split("\n"))
    longest = max((len(run) for run in re.findall("`+", lines)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{lines}\n{fence}"


def inert(text: str) -> str:
    """`text` with every mention, reference and bare address broken by an invisible word joiner."""
    return _ACTIVE.sub(lambda match: match.group() + JOINER, text)


def one_line(text: str, limit: int, *, strip: bool = True) -> str:
    """`text` with control, separator and invisible direction characters as spaces, cut after `limit` characters."""
    line = "".join(" " if unicodedata.category(sign) in _UNSEEN else sign for sign in text[: limit + 1])
    if strip:
        line = " ".join(line.split())
    return line if len(text) <= limit else line[: limit - 1] + "…"


def document(text: str) -> str:
    """Markdown of several lines that this project made (a report), with nothing in it that acts, hides or is no text.

    Escapes of references that other renderers put in go with the invisible characters, and are made anew here.
    """
    return inert("".join(sign for sign in text if sign in "\n\t" or unicodedata.category(sign) not in _UNSEEN))
