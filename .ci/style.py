"""Check the language of pages, docstrings, comments, messages and help texts, and the subjects of commits.

    python .ci/style.py                the counts, and every match of a rule that has more than are allowed
    python .ci/style.py --list RULE    every match of one rule; `long` lists sentences with too many words
    python .ci/style.py --renew        allow fewer matches of the rules that have fewer

CONTRIBUTING.md has the style sheet. `.ci/style.json` holds how many matches each rule may have; a rule that
it does not name may have none. On pages, code between backquotes is exempt.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import NamedTuple


class Rule(NamedTuple):
    name: str
    kind: str
    """E: an error, of which style.json allows none. W: to be looked at; there may not be more of them."""

    pattern: str
    instead: str


class Match(NamedTuple):
    rule: str
    kind: str
    file: str
    text: str


RULES = (
    Rule(
        "S1",
        "E",
        r"\b(?:an|the) own one\b|\b(?:programs?|commands?|hosts?|jobs?) of (?:yours|ours|mine)\b"
        r"|\bthat (?:are|is) not ours\b",
        "your own policy, your programs, third-party programs",
    ),
    Rule(
        "S2",
        "E",
        r"\b(?:nobody|somebody|everybody|whoever)\b",
        "the actor: a process, a rank, a user; or the passive voice",
    ),
    Rule(
        "S3",
        "E",
        r"(?:^|[.;:] )(?:Who|who) (?:blocks|asks|waits|has|answers|looks|wants|leaves)\b|\bthose who\b",
        "a process that",
    ),
    Rule("S4", "W", r"\bbeside\b", "with, together with, next to, in addition to"),
    Rule("S5", "W", r"\bas (?:it is|they are)\b", "unmodified, unchanged"),
    Rule("S6", "E", r"\bin vain\b", "without success; useless spinning, an empty poll"),
    Rule(
        "S7",
        "E",
        r"\b(?:is|are|be|very|too|so) dear\b|\banew\b|\bof late\b|\bseldom\b|\blikewise\b",
        "expensive, again, recently, rarely, also",
    ),
    Rule(
        "S8",
        "W",
        r"\b(?:the|at the) (?:least|most)\b(?! (?:of|recent|common|loaded|nearly))"
        r"|\bleast to most\b|, the least\b",
        "minimum, maximum; smallest, largest; at most",
    ),
    Rule(
        "S9",
        "E",
        r"\b(?:for|of|on|in|as|by|than|with) so (?:many|much|long)\b",
        "on that many processors, for that long; better the number's name",
    ),
    Rule(
        "S10",
        "W",
        r"\b(?:slots?|turns?|jobs?|messages?|windows?|tests?|phases?|programs?|runs?)"
        r" of (?:at most |about )?\d[\d.,]* (?:us|ms|s|ranks?|processes|MB|MiB)\b",
        "the number first: 10 ms slots, two-process jobs",
    ),
    Rule("S11", "E", r"\bof (?:19\d\d|today)\b", "a 1996 machine, a current machine"),
    Rule("S12", "W", r"\bprocessors?'? time\b", "CPU time"),
    Rule("S13", "E", r"\bin the (?:mean|median)\b", "on average; a median of"),
    Rule(
        "S14",
        "W",
        r"\b(?:line|table|column|picture|page|warning|file|policy|report|message|row|record|survey)"
        r" (?:says|tells|said|told)\b",
        "shows, lists, reports, states",
    ),
    Rule("S15", "W", r"\b(?:go|goes|going|went) on\b(?! to\b)", "continue"),
    Rule("S16", "E", r"\bcarr(?:y|ies|ied|ying) out\b", "run, execute, perform"),
    Rule(
        "S17",
        "W",
        r"\b(?:end|ends|ended)"
        r" (?:the|them|other|others|its|all|any|what|ranks|processes|programs|jobs|a|an) ",
        "terminate, kill, stop, finish",
    ),
    Rule("S18", "W", r"\b(?:has|have|had) -?\d+\.\d+\b", "is at, takes, the slowdown is"),
    Rule(
        "S19",
        "W",
        r"\b(?:do|does|did|done|say|says|told|set) so\b(?! that)",
        "the verb again, or `this way`",
    ),
    Rule("S20", "E", r"\bsome (?:\d+|two|ten|twelve|twenty)\b", "about"),
    Rule(
        "S26",
        "W",
        r"\bwhat (?:helps|hides|disturbs|decides|remains|changed|comes|ends|stops|minds|grows)\b",
        "a noun: remedies, limits, leftovers, changes",
    ),
)
LONG = "long"
LONGEST_SENTENCE = 30
SUBJECTS_SINCE = "ebd1c08d720d3ea5a4a423290124efc1ec35aad4"
"""Commits after this one have subjects of the form that the style sheet asks for."""

SUBJECT = re.compile(r"(?=.{1,72}$)[a-z][\w./, -]*: \S")
ALLOWED = Path(__file__).with_name("style.json")


def of_page(markdown: str) -> str:
    """A page without its blocks of code, and with one word for code between backquotes."""
    return re.sub(r"`[^`\n]*`", "`code`", re.sub(r"```.*?```", "", markdown, flags=re.S))


def long_sentences(markdown: str) -> list[str]:
    """The sentences of a page, without code, tables, headings and pictures, that have too many words.

    A blank line ends no sentence: one that ends with a colon continues in the block below it.
    """
    text = re.sub(r"```.*?```", "", markdown, flags=re.S)
    lines = [
        line for line in text.splitlines() if line and not line.startswith(("|", "#", "    ", "![", "<"))
    ]
    parts = re.split(r"\n\s*\n", re.sub(r"\n(?=\s*[-*\d])", "\n\n", "\n".join(lines)))
    end = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\"])")
    sentences = [sentence for part in parts for sentence in end.split(part.replace("\n", " "))]
    return [sentence for sentence in sentences if len(sentence.split()) > LONGEST_SENTENCE]


def of_module(source: str) -> tuple[str, str]:
    """A module's docstrings and comments, and its other strings that hold a blank."""
    comments = [
        t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT
    ]
    constants = {}
    docstrings = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            constants[node] = node.value
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docstrings[node.value] = node.value.value
    messages = [text for node, text in constants.items() if node not in docstrings and " " in text]
    return "\n".join([*docstrings.values(), *comments]), "\n".join(messages)


def texts(root: Path) -> dict[str, list[tuple[str, str]]]:
    """By kind, the name and the text of every tracked file; of tests, only pages."""
    names = subprocess.run(
        ["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True
    ).stdout.split()
    found: dict[str, list[tuple[str, str]]] = {"docs": [], "docstrings": [], "messages": [], LONG: []}
    for name in names:
        path = root / name
        if name.endswith(".md") and name != "CHANGELOG.md" and path.exists():
            markdown = path.read_text()
            found["docs"].append((name, of_page(markdown)))
            found[LONG].append((name, markdown))
        elif name.endswith(".py") and not name.startswith("tests/") and path.exists():
            docstrings, messages = of_module(path.read_text())
            found["docstrings"].append((name, docstrings))
            found["messages"].append((name, messages))
    return found


def matches(root: Path) -> list[Match]:
    """Every place at which a rule is not followed."""
    by_kind = texts(root)
    found = [
        Match(LONG, "docs", name, f"{len(sentence.split())} words: {sentence}")
        for name, markdown in by_kind.pop(LONG)
        for sentence in long_sentences(markdown)
    ]
    for rule in RULES:
        pattern = re.compile(rule.pattern, re.I | re.M)
        for kind, files in by_kind.items():
            for name, text in files:
                for match in pattern.finditer(text):
                    around = text[max(0, match.start() - 40) : match.end() + 40]
                    found.append(Match(rule.name, kind, name, f"...{around!r}"))
    return found


def wrong_subjects(root: Path) -> list[str]:
    """Subjects of commits that are too long, or name no area; none where the history does not reach back."""
    log = ["git", "-C", str(root), "log", "--no-merges", "--format=%s", f"{SUBJECTS_SINCE}..HEAD"]
    run = subprocess.run(log, capture_output=True, text=True, check=False)
    return (
        [subject for subject in run.stdout.splitlines() if not SUBJECT.match(subject)]
        if run.returncode == 0
        else []
    )


def shown(found: list[Match], rule: str) -> None:
    for match in found:
        if match.rule == rule:
            print(f"     {match.kind} {match.file}: {match.text}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", nargs="?", type=Path, default=Path(), help="a checkout (default: here)")
    parser.add_argument("--list", metavar="RULE", help="show every match of this rule")
    parser.add_argument("--renew", action="store_true", help="write smaller numbers of allowed matches")
    options = parser.parse_args()
    found = matches(options.root)
    counts = Counter(match.rule for match in found)
    allowed = json.loads(ALLOWED.read_text())
    failed = False
    for rule in (*RULES, Rule(LONG, "W", "", f"sentences of at most {LONGEST_SENTENCE} words")):
        limit = allowed.get(rule.name, 0)
        where = Counter(match.kind for match in found if match.rule == rule.name)
        kinds = "  ".join(f"{kind} {where[kind]:4}" for kind in ("docs", "docstrings", "messages"))
        print(f"{rule.name:4} {rule.kind}  {kinds}  of {limit:4}  write: {rule.instead}")
        if counts[rule.name] > limit or options.list == rule.name:
            shown(found, rule.name)
        failed |= counts[rule.name] > limit
    print(f"matches of E rules: {sum(counts[rule.name] for rule in RULES if rule.kind == 'E')}")
    for subject in wrong_subjects(options.root):
        print(f'subject of a commit: {subject!r} must be "area: what changed", of at most 72 characters')
        failed = True
    if options.renew:
        fewer = {name: min(limit, counts[name]) for name, limit in allowed.items() if counts[name]}
        ALLOWED.write_text(json.dumps(fewer, indent=2) + "\n")
    elif failed:
        print("More matches than .ci/style.json allows: reword those that are new.", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
