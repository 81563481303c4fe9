"""The files of the repository, and the budget files of the checkers."""

import math
import os
import re
import subprocess

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
SKIPPED_FOLDERS = {".git", ".sched", "target", "node_modules", "__pycache__"}


def git(*arguments):
    """Runs git in the repository and returns its output, or None when git fails."""
    try:
        result = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout


def files():
    """Lists the files that git tracks or would add, else every file below the root. Paths are relative and sorted."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:
        paths = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
            paths += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    else:
        paths = listed.split("\0")
    # A file that another process moves at this moment is listed but absent.
    return sorted({path for path in paths if path and os.path.isfile(os.path.join(ROOT, path))})


def read(path):
    """Returns the text of a file, or an empty text when the file is gone or binary."""
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


class Budget:
    """A file with one `name number` per line. Comments start with `#`. `lower` never raises a number."""

    def __init__(self, path):
        self.path = path
        self.limits = {}
        for line in read(path).splitlines():
            words = line.split("#")[0].split()
            if len(words) == 2:
                self.limits[words[0]] = float(words[1])

    def limit(self, name):
        """Returns the limit. A name without a line has the limit 0."""
        return self.limits.get(name, 0)

    def lower(self, values):
        """Rewrites the numbers that are above the given values, and returns the changed names."""
        changed = [name for name, value in values.items() if name in self.limits and value < self.limits[name]]
        text = read(self.path)
        for name in changed:
            text = re.sub(rf"(?m)^({re.escape(name)}\s+)[\d.]+", rf"\g<1>{values[name]:g}", text)
            self.limits[name] = values[name]
        if changed:
            with open(os.path.join(ROOT, self.path), "w", encoding="utf-8") as file:
                file.write(text)
        return changed


def round_up(value):
    """Rounds up to one decimal place."""
    return math.ceil(round(value * 10, 6)) / 10


def within(path, prefixes):
    """Reports whether a path is one of the prefixes or lies below one. No prefixes match every path."""
    return not prefixes or any(path == prefix or path.startswith(prefix.rstrip("/") + "/") for prefix in prefixes)
