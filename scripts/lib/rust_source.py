"""Splits Rust source into comments, string literals and code. Not a parser: one regular expression finds the tokens."""

import re

TOKEN = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | \b[bc]?r(?P<hashes>\#*)".*?"(?P=hashes)
      | \b[bc]?"(?:[^"\\]|\\.)*"
      | "(?:[^"\\]|\\.)*"
      | '(?:[^'\\\n]|\\(?:u\{[^}]*\}|x..|.))'
    """,
    re.S | re.X,
)
# A module of unit tests inside a file. By convention it is the last item.
INLINE_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod\s+\w+\s*\{")


def tokens(source):
    """Yields (kind, offset, text). The kind is `comment`, `string` or `char`."""
    for match in TOKEN.finditer(source):
        text = match.group()
        if text.startswith(("//", "/*")):
            kind = "comment"
        else:
            kind = "char" if text.startswith("'") else "string"
        yield kind, match.start(), text


def without_comments_and_strings(source):
    """Replaces comments and literals by spaces, so that offsets and line numbers stay valid."""
    return TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def is_test(path):
    """Reports whether a path belongs to tests or benchmarks, whose strings and edges are not part of the product."""
    parts = path.split("/")
    stem = parts[-1].removesuffix(".rs")
    return bool({"tests", "benches", "fuzz"} & set(parts[:-1])) or stem == "tests" or stem.endswith("_tests")


def string_text(literal):
    """Returns the text of a string literal. Every newline of the source is kept, for line numbers."""
    body = literal[literal.index('"') + 1 : literal.rindex('"')]
    if re.match(r"[bc]?r", literal):
        return body
    return re.sub(r"\\(u\{[^}]*\}|.)", lambda match: "\n" if match.group(1) == "\n" else " ", body, flags=re.S)
