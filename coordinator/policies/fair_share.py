"""Fair shares of accounts and users: the factors of Slurm's classic algorithm and of its Fair Tree.

Source: Slurm, "Classic Fairshare Algorithm" and "Fair Tree Fairshare Algorithm"
(slurm.schedmd.com/classic_fair_share.html, fair_tree.html).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from workloads.parameters import Numbers
from workloads.validation import InputError

DEEPEST = 50  # accounts above each other

ROOT = "root"
"""The account above all others. Users may belong to it directly."""


class Association(NamedTuple):
    """A user in an account, by the account's own name."""

    account: str
    user: str


@dataclass(frozen=True)
class Member:
    """An account with all ``below`` it, or a user in one.

    Attributes:
        shares: as assigned, in proportion to those of its siblings.
        usage_s: the processor seconds that count as used by all below it.
        user: None for an account.
        below: the users and accounts of an account.
    """

    shares: float = 1.0
    usage_s: float = 0.0
    user: Association | None = None
    below: tuple["Member", ...] = ()


def check(accounts: Numbers, users: Numbers) -> None:
    """Refuse shares from which no tree can be made: names that are empty, in two places, or of no users."""
    places: dict[str, tuple[str, ...]] = {}
    for name, _ in accounts:
        path = tuple(name.split("/"))
        if not all(path) or ROOT in path:
            rule = "must be the names of an account and of those above it, without root"
            raise InputError("account_shares", name, rule, 'write account_shares = { "physics/optics" = 1 }')
        if len(path) > DEEPEST:
            rule = f"has {len(path)} accounts above each other, and at most {DEEPEST} are allowed"
            raise InputError("account_shares", name, rule, "leave some of them out")
        for depth, account in enumerate(path, 1):
            if (place := places.setdefault(account, path[:depth])) != path[:depth]:
                rule = f"has an account {account} that is {'/'.join(place)} elsewhere"
                raise InputError("account_shares", name, rule, "give the two accounts different names")
    for name, _ in users:
        if name.count("/") != 1 or not all(name.split("/")):
            rule = "must be the name of an account, a slash and the name of a user"
            raise InputError("user_shares", name, rule, 'write user_shares = { "physics/ann" = 1 }')


def tree(
    accounts: Numbers, users: Numbers, usage_s: Mapping[Association, float], present: Iterable[Association]
) -> Member:
    """The root with all accounts and users that are assigned shares, have used something, or are ``present``.

    ``accounts`` are the shares by the names of accounts from the root on, "physics/optics"; ``users`` by
    account and user, "optics/ann". Without an entry they are 1, and an account is one below the root.
    """
    shares = {tuple(name.split("/")): float(value) for name, value in accounts}
    places = {path[depth]: path[: depth + 1] for path in shares for depth in range(len(path))} | {ROOT: ()}
    of_users = {Association(*name.split("/")): float(value) for name, value in users}
    members: dict[tuple[str, ...], list[Member]] = {path: [] for path in places.values()}
    for one in dict.fromkeys((*of_users, *usage_s, *present)):
        user = Member(of_users.get(one, 1.0), usage_s.get(one, 0.0), one)
        members.setdefault(places.get(one.account, (one.account,)), []).append(user)
    for path in sorted((path for path in members if path), key=len, reverse=True):
        members[path[:-1]].append(_account(members[path], shares.get(path, 1.0)))
    return _account(members[()])


def _account(below: Iterable[Member], shares: float = 1.0) -> Member:
    members = tuple(below)
    return Member(shares, math.fsum(one.usage_s for one in members), None, members)


def classic(root: Member) -> dict[Association, float]:
    """The factor of each user: 2 to the power of -(effective usage / normalized shares); 0 without shares.

    A share of an account's usage counts as its users' own: each gets it in proportion to its shares.
    """
    factors: dict[Association, float] = {}

    def descend(member: Member, shares: float, effective: float) -> None:
        siblings = math.fsum(one.shares for one in member.below)
        for one in member.below:
            part = one.shares / siblings if siblings else 0.0
            used = one.usage_s / root.usage_s if root.usage_s else 0.0
            if member is not root:
                used += (effective - used) * part
            if one.user is None:
                descend(one, shares * part, used)
            else:
                factors[one.user] = 2.0 ** -(used / (shares * part)) if shares * part else 0.0

    descend(root, 1.0, 1.0)
    return factors


def fair_tree(root: Member) -> dict[Association, float]:
    """The factor of each user: its place from the end, over the number of users; 1 for the first.

    Siblings are in order of their level fair shares: shares among siblings over usage among siblings. All
    below an account come before all below the next. Accounts with equal values are merged, and users with
    equal values share the better place.
    """
    factors: dict[Association, float] = {}
    users, latest = _users(root), 1.0

    def descend(level: list[tuple[float, Member]], tied: bool) -> None:
        nonlocal latest
        level = sorted(level, key=lambda one: (-one[0], one[1].user is None))
        place = 0
        while place < len(level):
            value, member = level[place]
            tied = level[place - 1][0] == value if place else tied
            place += 1
            if member.user is not None:
                latest = latest if tied else (users - len(factors)) / users
                factors[member.user] = latest
                continue
            merged = _level(member)
            while place < len(level) and level[place][0] == value:
                merged += _level(level[place][1])
                place += 1
            descend(merged, tied)

    descend(_level(root), False)
    return factors


def _users(member: Member) -> int:
    return sum(1 if one.user is not None else _users(one) for one in member.below)


def _level(account: Member) -> list[tuple[float, Member]]:
    """The members of an account with their level fair shares: infinite without usage, 0 without shares."""
    siblings = math.fsum(one.shares for one in account.below)
    level = []
    for one in account.below:
        value = 0.0
        if one.shares:
            used = one.usage_s / account.usage_s if one.usage_s else 0.0
            value = one.shares / siblings / used if used else math.inf
        level.append((value, one))
    return level
