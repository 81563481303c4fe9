"""The imports between the files of a crate, and the circles among them.

Reads `mod` and `use` lines. The line from a module to a module inside it does not count: a parent lists and re-exports
its children. Test modules do not count, as no other module imports them.
"""

import collections
import os
import re

import rust_source
import tree

ITEM = re.compile(
    r"(?P<test>#\[cfg\(test\)\]\s*)?(?P<path>#\[path\s*=\s*\S+\s*\]\s*)?(?:#\[[^\]]*\]\s*)*(?:\bpub\b\s*(?:\([^)]*\)\s*)?)?"
    r"(?:\bmod\s+(?P<name>\w+)\s*(?P<end>[;{])|\buse\s+(?P<use>[^;]+);)|(?P<brace>[{}])"
)
Edge = collections.namedtuple("Edge", "source target line use")


def use_paths(text):
    """Expands a use tree: `a::{b, c::{self, d as e}}` becomes [a, b], [a, c], [a, c, d]."""
    text = re.sub(r"\bas\s+\w+", "", text)
    words = re.findall(r"\w+|::|[{},*]", text)
    position = 0

    def branch(prefix):
        nonlocal position
        path = list(prefix)
        while position < len(words):
            word = words[position]
            if word == "{":
                position += 1
                while position < len(words) and words[position] != "}":
                    yield from branch(path)
                    if position < len(words) and words[position] == ",":
                        position += 1
                position += 1
                return
            if word in ",}":
                break
            if word == "*" or (word == "self" and path):
                position += 1
                continue
            if word != "::":
                path.append(word)
            position += 1
        yield path

    return [path for path in branch([]) if path]


class Crate:
    """The modules of one crate root and the `use` lines between them."""

    def __init__(self, root, read=tree.read, exists=None):
        self.read = read
        self.exists = exists or (lambda path: os.path.isfile(os.path.join(tree.ROOT, path)))
        self.files = {}  # module path -> file
        self.uses = []  # (module path, file, line, use path)
        self.load((), root, os.path.dirname(root))

    def load(self, module, path, folder):
        """Reads a file and the files of its modules. `folder` has the files of its children."""
        if path in self.files.values():
            return
        self.files[module] = path
        source = self.read(path)
        code = rust_source.without_comments_and_strings(source)
        # Modules that enclose the current place, each with the depth of its braces.
        scopes, depth, test_depth = [(module, 0, folder)], 0, None
        for match in ITEM.finditer(code):
            current, _, inside = scopes[-1]
            if match["brace"]:
                depth += 1 if match["brace"] == "{" else -1
                if test_depth is not None:
                    test_depth = None if depth < test_depth else test_depth
                elif depth < scopes[-1][1] and len(scopes) > 1:
                    scopes.pop()
                continue
            if match["end"] == "{":
                depth += 1
                if test_depth is None and (match["test"] or match["name"] == "tests"):
                    test_depth = depth
                elif test_depth is None:
                    self.files[(*current, match["name"])] = path
                    scopes.append(((*current, match["name"]), depth, os.path.join(inside, match["name"])))
            elif match["test"] or match["name"] == "tests" or test_depth is not None:
                # A `#[cfg(test)] use` is an edge of tests, too.
                continue
            elif match["name"]:
                self.load_child(current, match["name"], inside, self.given_path(source, match, path))
            else:
                line = source.count("\n", 0, match.start("use")) + 1
                self.uses += [(current, path, line, use) for use in use_paths(match["use"])]

    @staticmethod
    def given_path(source, match, path):
        """Returns the file of a `#[path = "…"]` attribute, or None."""
        if not match["path"]:
            return None
        given = re.search(r'"([^"]*)"', source[match.start("path") : match.end("path")])
        return os.path.normpath(os.path.join(os.path.dirname(path), given.group(1)))

    def load_child(self, parent, name, folder, given):
        """Reads the file of `mod name;` in either module style."""
        inner = os.path.join(folder, name)
        for file, children in ((given, given and os.path.dirname(given)), (f"{inner}.rs", inner), (f"{inner}/mod.rs", inner)):
            if file and self.exists(file):
                self.load((*parent, name), file, children)
                return

    def resolve(self, module, use):
        """Returns the module that a `use` path names, or None for another crate."""
        first, *rest = use
        if first == "crate":
            base = ()
        elif first == "self":
            base = module
        elif first == "super":
            base = module[:-1]
            while rest and rest[0] == "super":
                base, rest = base[:-1], rest[1:]
        elif (*module, first) in self.files:
            base, rest = module, use
        else:
            return None
        while rest and (*base, rest[0]) in self.files:
            base, rest = (*base, rest[0]), rest[1:]
        return base

    def edges(self):
        """Returns the edges between files, without those from a module to a module inside it."""
        edges = {}
        for module, path, line, use in self.uses:
            target = self.resolve(module, use)
            # The module of the file, where an inline module has the line.
            while module and self.files.get(module[:-1]) == path:
                module = module[:-1]
            if target is None or self.files[target] == path or target[: len(module)] == module:
                continue
            file = self.files[target]
            edges.setdefault((path, file), Edge(path, file, line, "::".join(use)))
        return list(edges.values())


def circles(edges):
    """Returns the strongly connected components with two files or more (Tarjan's algorithm, without recursion)."""
    targets = collections.defaultdict(list)
    for edge in edges:
        targets[edge.source].append(edge.target)
    index, low, stack, found = {}, {}, [], []
    for start in sorted(targets):
        if start in index:
            continue
        work = [(start, iter(targets[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(component) > 1:
                        found.append(sorted(component))
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(targets[following])))
            elif following in stack:
                low[node] = min(low[node], index[following])
    return found


def crate_roots(paths):
    """Returns the roots of libraries, programs, tests and benchmarks among the paths."""
    pattern = re.compile(
        r"(?:.*/)?(?:src/(?:lib|main)\.rs|src/bin/[^/]+(?:/main)?\.rs"
        r"|(?:tests|benches|examples|fuzz_targets)/[^/]+(?:/main)?\.rs)"
    )
    # Unit tests inside a crate, and modules with the name of a root.
    inner = re.compile(r"/src/(?:.+/)?tests/|/src/(?!bin/).+/(?:lib|main)\.rs$")
    return [path for path in paths if pattern.fullmatch(path) and not inner.search(path)]
