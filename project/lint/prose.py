"""Checks prose: ``python project/lint/prose.py`` checks everything, or only the given files: ``docs/tuning.md``.

Pages: prose has at most 120 characters a line and none of the phrases below. Code blocks, inline code and the targets
of links are not prose. Table rows, headings, link definitions and lines without a space to break at may be longer.

Comments: a line that is a comment has at most 100 characters, because scalafmt and ruff do not wrap comments. The
comments of the main Scala code have none of the phrases.

Commits: a subject has at most 72 characters and starts with an imperative, capitalized ("Fix duplicate rows") or after
the name of an area ("Docs: rewrite the migration page"). Commits after ``BASE`` are checked; in a shallow clone that
does not reach ``BASE``, all that it has; without git, none. Merges and reverts are exempt: git writes their subjects.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *("docs/*.md", "docs/recipes/*.md", "*.md", ".github/**/*.md"),
    *("benchmarks/README.md", "examples/README.md", "python/README.md", "tests/cases/README.md"),
)
# Its entries are as old as the releases that they describe.
LEFT_OUT = {"CHANGELOG.md"}
# Folders of code, and what a line that is a comment starts with.
CODE = ("scala", "python/src", "project", "docs", "tests", "examples", "benchmarks")
COMMENTS = {".scala": re.compile(r"\s*(?:\*/?|//|/\*+)"), ".py": re.compile(r"\s*#")}
LINE = 120
COMMENT = 100
SUBJECT = 72
# The last commit before this check was introduced.
BASE = "c28f61b70b4855b06ec527728e3f93db1155cf74"

# What not to write, and what to write instead. A space stands for any white space, and case does
# not matter.
PHRASES = {
    r"(come|comes|came|coming) out": "emit",
    r"(meet|meets|meeting)": "match",
    r"(has|have|had|must|should|could) (have )?met": "match",
    r"(go|goes|went|gone|going) on": "continue",
    r"beside": "alongside, next to; compared with",
    r"anew": "again, from scratch",
    r"(begin|begins|began|begun|beginning) (again|over)": "restart",
    r"(refused|rejected|named|told|arguments[^.|]*,) by name": "explicitly, with an error, as keywords",
    r"as (it|they) (is|are|was|were)": "unchanged, current, as sent",
    r"any more(?=\s*[.,;:)|])": "no longer",
    r"(work|works|worked|working) out": "compute",
    r"shall": "must, will",
    r"(go|goes|went|gone|going) by": "use, follow, depend on",
    r"(is|are|was|were|still|yet) to come": "can still arrive",
    r"for ever": "forever",
    r"of (yours|ours|mine|theirs)": "your, our, their",
    r"but for": "except for",
    r"refus(e|es|ed|al|als|ing)": "reject",
    r"what holds then": "what is guaranteed",
    r"(tell|tells|told) apart": "distinguish",
    r"as ever": "as usual",
    r"whom": "which (of inputs, queries, tasks)",
    r"(?-i:The) same( with| for| as| in| but| from|(?=\.))": "what is the same, in a full sentence",
}
PATTERNS = [
    (re.compile(rf"(?<!\w)(?:{each})(?!\w)".replace(" ", r"\s+"), re.IGNORECASE), say) for each, say in PHRASES.items()
]

NOT_PROSE = re.compile(
    r"^```.*?^```$|`[^`\n]+`|(?<=\])\([^)\s]+\)|^\[[^\]]+\]: .*$|<!--.*?-->", re.MULTILINE | re.DOTALL
)
MAY_BE_LONG = re.compile(r"\s*\||#|\[[^\]]+\]: |[\s>]*(?:[-*]|\d+\.)?\s*\S+$")

SUBJECT_OF_GIT = re.compile(r"(?:Merge|Revert)\b")
IMPERATIVE = re.compile(r"(?:[A-Z][\w ]*: )?([A-Z][a-z]+(?:-[a-z]+)*|(?<=: )[a-z]+(?:-[a-z]+)*)(?= )")
# Third person, past tense and gerund, but not "Pass", "Focus" and "Feed".
INFLECTED = re.compile(r".*(?:(?<![su])s|(?<!e)ed|ing)$")
NO_VERBS = {"The", "An", "No", "Not", "New", "This", "That", "It", "What", "When", "How", "Now", "More", "Some", "All"}
EXCEPTIONS = {"Alias", "Bring", "Embed", "Ping", "Shed", "String"}


def main(arguments: list[str]) -> None:
    """Print what is wrong, one finding a line, and exit with an error if there is any."""
    files = [Path(each).resolve() for each in arguments] or [*pages_of(ROOT), *code_of(ROOT)]
    found = [f"{file.relative_to(ROOT)}:{each}" for file in files for each in check_file(file)]
    if not arguments:
        found += [f"commit {each}" for each in check_subjects(subjects(ROOT))]
    for each in found:
        print(each)
    if found:
        sys.exit(f"{len(found)} lines to change; project/lint/prose.py has the rules.")


def pages_of(root: Path) -> list[Path]:
    """Return the pages that are checked."""
    return [page for pattern in PAGES for page in sorted(root.glob(pattern)) if page.name not in LEFT_OUT]


def code_of(root: Path) -> list[Path]:
    """Return the files of code whose comments are checked."""
    files = [file for folder in CODE for file in sorted((root / folder).rglob("*")) if file.suffix in COMMENTS]
    return [file for file in files if "target" not in file.relative_to(root).parts]


def check_file(file: Path) -> Iterator[str]:
    """Yield what is wrong with a page, or with the comments of a file of code."""
    text = file.read_text("utf-8")
    if file.suffix in COMMENTS:
        return check_comments(text, COMMENTS[file.suffix], phrases="main" in file.parts)
    return check_page(text)


def check_comments(text: str, comment: re.Pattern[str], *, phrases: bool) -> Iterator[str]:
    """Yield what is wrong with comments, with the number of the line."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if len(line) > COMMENT and comment.match(line):
            yield f"{number}: {len(line)} characters in a comment, at most {COMMENT}"
    if phrases:
        prose = "\n".join(comment.sub("", line, count=1) if comment.match(line) else "\0" for line in lines)
        yield from (f"{number}: {message}" for number, message in sorted(check_phrases(prose)))


def check_page(text: str) -> Iterator[str]:
    """Yield what is wrong with a page, with the number of the line."""
    found = [(number, f"{len(line)} characters, at most {LINE}") for number, line in long_lines(text)]
    yield from (f"{number}: {message}" for number, message in sorted([*found, *check_phrases(text)]))


def check_phrases(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of a line with a phrase, and what to write instead."""
    prose = NOT_PROSE.sub(blank, text)
    for pattern, instead in PATTERNS:
        for match in pattern.finditer(prose):
            yield text.count("\n", 0, match.start()) + 1, f'"{" ".join(match[0].split())}": write {instead}'


def long_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of prose that could be shorter, with their numbers."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        in_code ^= line.startswith("```")
        if len(line) > LINE and not in_code and not MAY_BE_LONG.match(line):
            yield number, line


def blank(match: re.Match[str]) -> str:
    """Return a text of the same lines that no pattern matches."""
    return re.sub(r"[^\n]", "\0", match[0])


def check_subjects(lines: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with subjects, each given as the commit's id, a space and the subject."""
    for line in lines:
        commit, _, subject = line.partition(" ")
        if SUBJECT_OF_GIT.match(subject):
            continue
        if len(subject) > SUBJECT:
            yield f"{commit}: {len(subject)} characters, at most {SUBJECT}: {subject}"
        if not is_imperative(subject):
            yield f'{commit}: does not start with an imperative such as "Fix": {subject}'


def is_imperative(subject: str) -> bool:
    """Say whether a subject looks like "Fix duplicate rows"."""
    found = IMPERATIVE.match(subject)
    if found is None:
        return False
    word = found[1].capitalize()
    return word in EXCEPTIONS or (word not in NO_VERBS and INFLECTED.fullmatch(word) is None)


def subjects(root: Path) -> list[str]:
    """Return the commits to check, each with its subject; the newest is the first."""
    if not (root / ".git").exists():
        return []
    known = git(root, "cat-file", "-e", f"{BASE}^{{commit}}").returncode == 0
    done = git(root, "log", "--format=%h %s", f"{BASE}..HEAD" if known else "HEAD")
    return done.stdout.splitlines()


def git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in a folder; a machine without it has no history."""
    try:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(arguments, 127, stdout="", stderr="")


if __name__ == "__main__":
    main(sys.argv[1:])
