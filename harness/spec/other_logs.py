"""What a file of jobs seems to be that is no job log which Lockstep reads, and how to make one of it."""

import re
from typing import NamedTuple

COLUMNS = (
    "JobID,JobIDRaw,Submit,Eligible,Start,ElapsedRaw,AllocCPUS,State,Timelimit,User,Account,Partition,QOS"
)
SACCT = f"sacct --parsable2 --format={COLUMNS}"
"""The command that prints all columns in use."""

_LINE = "NUMBER SUBMIT_S -1 RUN_S PROCESSORS -1 -1 PROCESSORS LIMIT_S -1 1 -1 -1 -1 -1 -1 -1 -1"
_CONVERT = f"write a line for each job: {_LINE}"


class OtherLog(NamedTuple):
    """A kind of file: its name in a message, and what to do."""

    name: str
    remedy: str


_KINDS = (
    (
        r"[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9:]{8};[A-Z];",
        OtherLog("the accounting of PBS or Torque", f"of its records E (end of a job), {_CONVERT}"),
    ),
    (r'"JOB_[A-Z_]+" ', OtherLog("the accounting of LSF", f"of its records JOB_FINISH, {_CONVERT}")),
    (r"[^:]+(:[^:]*){39,}", OtherLog("the accounting of Grid Engine", _CONVERT)),
    (
        r"[0-9]{1,18}(_[0-9]+|_\[.*\]|\+[0-9]+)?(\..+)?\|",
        OtherLog(
            "the text of sacct without the line that names its columns",
            "ask again without --noheader, or write the names of these columns first, as in "
            "JobID|JobIDRaw|Submit|ElapsedRaw|AllocCPUS|State|Timelimit",
        ),
    ),
    (
        r"(?i)\s*jobid\b.*\bnode",
        OtherLog("the text of squeue, which knows no jobs that ended", f"ask {SACCT}"),
    ),
    (r"job_id,workload_name,", OtherLog("a schedule as Batsim writes it", "give the .swf.gz beside it")),
    (r"# placement [0-9]", OtherLog("a placement of Lockstep", "give the .swf.gz beside it")),
    (r"[\[{]", OtherLog("JSON", f"from Slurm, ask for text: {SACCT}; else {_CONVERT}")),
    (r"<", OtherLog("a page of the web, or XML", f"download the log itself, or {_CONVERT}")),
    (r"version https://git-lfs", OtherLog("a pointer to a file", "get the file itself: git lfs pull")),
    (r"#", OtherLog("a text whose comments begin with #", "let them begin with a semicolon: sed 's/^#/;/'")),
    (r"(-?[0-9.]+,\s*){17}", OtherLog("a job log with commas", "write blanks: tr ',' ' '")),
)

_NAME = re.compile(r'"?[A-Za-z][\w .()/#-]*"?')
_HEADER = re.compile(r"(?i)(?![;#])(?=[^0-9]*\Z).*\bjobid(raw)?\b.*")
_SWF = re.compile(r"[ \t]*(;|(-?[0-9.]+[ \t]+){17})")
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0")


def seems(line: str) -> OtherLog | None:
    """What a file seems to be whose first line with content is ``line``; None if that is unknown."""
    return known(line) or _table(line.strip(" \t"))


def known(line: str) -> OtherLog | None:
    """The known kind of file that begins with ``line``."""
    return next((other for pattern, other in _KINDS if re.match(pattern, line.strip(" \t"))), None)


def _table(line: str) -> OtherLog | None:
    """A table whose columns ``line`` names."""
    separator = next((one for one in "\t,;|" if one in line), None)
    names = line.split(separator)
    if len(names) < 3 or not all(map(_NAME.fullmatch, (name.strip() for name in names))):
        return None
    what = f"a table with the columns {', '.join(name.strip() for name in names[:4])}, ..."
    if len(names) < 18 or "submit" not in names[1].lower():
        return OtherLog(what, _CONVERT)
    cut = {"\t": "cut -f1-18", None: "cut -d' ' -f1-18"}.get(separator, f"cut -d'{separator}' -f1-18")
    blanks = "" if separator in ("\t", None) else f" | tr '{separator}' ' '"
    return OtherLog(what, f"leave out that line and all but 18 columns: tail -n +2 FILE | {cut}{blanks}")


def names_jobs(line: str) -> bool:
    """Whether ``line`` names columns of sacct: no job has a line without a digit."""
    return bool(_HEADER.fullmatch(line.strip(" \t")))


def begins_log(name: str, data: bytes) -> bool:
    """Whether a file of this name, with these first bytes, is a job log or seems to be one."""
    if ".swf" in name.lower() or data.startswith(_COMPRESSED):
        return True
    text = data[:4096].decode(errors="replace").lstrip("\ufeff \t\r\n")
    first = text.partition("\n")[0]
    return bool(_SWF.match(first) or names_jobs(first) or re.match(_KINDS[0][0], first))
